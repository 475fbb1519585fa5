"""`autotune sweep`: sensitivity curves."""

from __future__ import annotations

import sys
from typing import Any

import click


@click.command()
@click.argument("cluster")
@click.argument("model")
@click.option("--vary", multiple=True, help="AXIS=v1,v2 or low:high:step or low:high:xN. Axes: gpus, hb_domain_size, hb_bandwidth_GBps, nic_Gbps, fabric, global_batch_size.")
@click.option("--target", default="megatron", show_default=True)
@click.option("--out", type=click.Path(), help="Folder for sweep.csv, sweep.json and the curves.")
@click.option("--force", is_flag=True, help="Write into a folder that already holds files.")
@click.option("--storage", help="journal:PATH or a database URL; default: in memory.")
@click.option("--study-name")
@click.option("--resume", is_flag=True, help="Go on with a stored sweep.")
@click.option("--jobs", default=0, help="Threads; 0 = all CPUs.")
@click.option("--json", "as_json", is_flag=True)
@click.option("--csv", "as_csv", is_flag=True)
def command(
    cluster: str, model: str, vary: tuple[str, ...], out: str | None, force: bool, as_json: bool, as_csv: bool, **given: Any
) -> None:
    """Re-optimise MODEL on CLUSTER at every value of the varied axes: iteration time and relative performance."""
    from autotune.cli.input_warnings import warn_of_cluster
    from autotune.load import load_cluster, load_model
    from autotune.search import SearchOptions
    from autotune.sweep import parse_vary, sweep, sweep_csv, write_sweep

    values = parse_vary(vary)
    cluster_spec, model_spec = load_cluster(cluster), load_model(model)
    options = SearchOptions(**given)
    warnings = warn_of_cluster(cluster_spec, as_json)
    if out:
        from autotune.outdir import OutputFolder

        with OutputFolder(out, force) as folder:
            document = {**sweep(cluster_spec, model_spec, values, options), "warnings": warnings}
            files = write_sweep(folder, document, f"{model_spec.name} on {cluster_spec.name}")
    else:
        document, files = {**sweep(cluster_spec, model_spec, values, options), "warnings": warnings}, []
    if as_json:
        from autotune.output import print_json

        print_json(document)
    elif as_csv:
        sys.stdout.write(sweep_csv(document))
    else:
        _print(document, out, files)
    if document["interrupted"]:
        print("interrupted: cells done so far shown", file=sys.stderr)
        sys.exit(130)


def _print(document: dict[str, Any], out: str | None, files: list[str]) -> None:
    from autotune.output import console, table

    axes = list(document["axes"])
    rows = []
    for r in document["rows"]:
        cells = [str(r[a]) for a in axes]
        if r["iteration_time_s"] is None:
            rows.append([*cells, "-", "-", "-", r["reason"]])
            continue
        p = r["plan"]
        shape = f"T{p['tensor_parallel']} P{p['pipeline_parallel']} D{p['data_parallel']} C{p['context_parallel']} E{p['expert_parallel']} v{p['virtual_stages']} b{p['micro_batch_size']}"
        rows.append([*cells, f"{r['iteration_time_s']:.4g}", f"{r['relative_performance']:.1%}", f"{r['tokens_per_s_per_gpu'] or 0:,.0f}", shape])
    columns = [*axes, "iteration s", "relative", "tokens/s/GPU", "best plan"]
    console().print(table("", columns, rows, right=set(range(len(columns) - 1))))
    s = document["search"]
    console().print(f"{len(rows)} cells, each exact over its plans: {s['points_total']:,} points in {s['elapsed_s']:.1f} s")
    if out:
        console().print(f"written: {out} ({', '.join(files)})")
