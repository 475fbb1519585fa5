"""`autotune search`: find the best plans and write their launch files."""

from __future__ import annotations

import sys
from typing import Any

import click

from autotune.cli.axis_options import axis_options


@click.command()
@click.argument("cluster")
@click.argument("model")
@click.option("--target", default="megatron", show_default=True, help="Launch targets, comma separated; the first bounds the search.")
@click.option("--top", default=10, show_default=True, type=click.IntRange(1, 1000), help="Plans to show, each of another shape.")
@click.option("--objective", default="time", show_default=True, help="time, cost, power, usd_per_token; several give a Pareto front.")
@click.option("--trials", type=click.IntRange(1), help="At most this many cells or hardware settings. Default: until proved optimal.")
@click.option("--sampler", default="auto", show_default=True, help="For sampled hardware settings: tpe, nsga2, nsga3, random, qmc, cmaes.")
@click.option("--storage", help="journal:PATH or a database URL; default: in memory.")
@click.option("--study-name", help="Name of the study in the storage.")
@click.option("--resume", is_flag=True, help="Go on with a stored study.")
@click.option("--jobs", default=0, help="Threads; 0 = all CPUs.")
@click.option("--backend", default="threading", type=click.Choice(["threading", "loky", "dask"]), help="joblib backend.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**32 - 1))
@axis_options
@click.option("--out", type=click.Path(), help="Folder for plan.yaml, result.json and launch files.")
@click.option("--force", is_flag=True, help="Write into a folder that already holds files.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--csv", "as_csv", is_flag=True, help="The plans as CSV on stdout, and those that came closest to fitting.")
def command(cluster: str, model: str, out: str | None, force: bool, as_json: bool, as_csv: bool, **given: Any) -> None:
    """Find the fastest plans of MODEL on CLUSTER that fit, and write launch files for the best.

    CLUSTER and MODEL are files or catalogue names; MODEL may be a Hugging Face config.json.
    """
    from autotune.cli.axis_options import limited
    from autotune.cli.input_warnings import warn_of_cluster
    from autotune.emit import find_target
    from autotune.load import load_cluster, load_model
    from autotune.search import SearchOptions, search
    from autotune.search_output import print_result, write_csv, write_result

    cluster_spec, model_spec = load_cluster(cluster), limited(load_model(model), given)
    targets = [find_target(t.strip()).name for t in given.pop("target").split(",") if t.strip()]
    objectives = tuple(o.strip() for o in given.pop("objective").split(",") if o.strip())
    options = SearchOptions(target=targets[0] if targets else "megatron", objectives=objectives, **given)
    warnings = warn_of_cluster(cluster_spec, as_json)
    if out:
        from autotune.outdir import OutputFolder

        with OutputFolder(out, force) as folder:
            result = search(cluster_spec, model_spec, options)
            written = write_result(folder, result, cluster_spec, model_spec, targets, options, warnings)
    else:
        result, written = search(cluster_spec, model_spec, options), {}
    if as_json:
        from autotune.output import print_json

        print_json({**result.to_dict(), "warnings": warnings})
    elif as_csv:
        write_csv(result, sys.stdout)
    else:
        print_result(result, cluster_spec, model_spec, out, written)
    if result.interrupted:
        print("interrupted: best so far shown", file=sys.stderr)
        sys.exit(130)
