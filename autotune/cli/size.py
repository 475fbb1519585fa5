"""`autotune size`: how many GPUs a model needs, and what more of them buy."""

from __future__ import annotations

from typing import Any

import click

from autotune.cli.axis_options import CommaList


@click.command("size")
@click.argument("cluster")
@click.argument("model")
@click.option("--gpus", "counts", type=CommaList(), help="GPU counts to compare, separated by commas. Default: from the fewest that fit, doubling.")
@click.option("--target", default="megatron", show_default=True, help="Launch target whose rules apply.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(cluster: str, model: str, counts: list[int] | None, target: str, as_json: bool) -> None:
    """The fewest GPUs of CLUSTER's kind on which MODEL trains, and speed, MFU and days on more of them.

    Plans are those of the rule of thumb; `autotune search` finds better ones. Days need `training.tokens` in the model file.
    """
    from autotune.answers.gpus import size_report
    from autotune.cli.input_warnings import warn_of_cluster
    from autotune.emit import find_target
    from autotune.errors import InfeasibleError
    from autotune.load import load_cluster, load_model
    from autotune.output import print_json

    cluster_spec, model_spec = load_cluster(cluster), load_model(model)
    warnings = warn_of_cluster(cluster_spec, as_json)
    document = {**size_report(cluster_spec, model_spec, counts, find_target(target).name), "warnings": warnings}
    if document["min_gpus"] is None and not any(r["plan"] for r in document["by_gpus"]):
        raise InfeasibleError(document["text"], **document)
    if as_json:
        print_json(document)
    else:
        _print(document)


def _print(d: dict[str, Any]) -> None:
    from autotune.answers.rule import shape
    from autotune.output import console, table
    from autotune.plan import Plan

    out = console()
    out.print(d["text"])
    out.print(f"training state of {d['state_GiB']:,.0f} GiB in all, without activations (GiB = 2^30 bytes)")
    rows = []
    for r in d["by_gpus"]:
        if r["plan"] is None:
            rows.append([f"{r['gpus']:,}", "nothing fits or divides", "", "", "", ""])
            continue
        days = "" if r["days_to_train"] is None else f"{r['days_to_train']:,.1f}"
        rows.append(
            [f"{r['gpus']:,}", shape(Plan.from_dict(r["plan"])), f"{r['tokens_per_s']:,.0f}", f"{r['tokens_per_s_per_gpu']:,.0f}", f"{r['mfu']:.1%}", days]
        )
    columns = ["GPUs", "rule-of-thumb plan", "tokens/s", "tokens/s/GPU", "MFU", "days"]
    out.print(table(f"global batch {d['global_batch_size']:,}", columns, rows, right={0, 2, 3, 4, 5}))
    if d["idle"]:
        out.print(d["idle"])
