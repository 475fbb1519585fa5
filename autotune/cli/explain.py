"""`autotune explain`: where time and memory of a plan go."""

from __future__ import annotations

from typing import Any

import click


@click.command()
@click.argument("cluster")
@click.argument("model")
@click.argument("plan")
@click.option("--target", default="megatron", show_default=True, help="Launch target whose rules apply.")
@click.option("--trace", type=click.Path(), help="Write the predicted timeline for chrome://tracing or Perfetto.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(cluster: str, model: str, plan: str, target: str, trace: str | None, as_json: bool) -> None:
    """Show where the time and the memory of PLAN go, per stage, and what would help most."""
    from autotune.cli.input_warnings import warn_of_cluster, warn_of_origin
    from autotune.errors import about
    from autotune.explain import explain, write_trace
    from autotune.load import load_cluster, load_model, load_plan_and_origin
    from autotune.output import note, print_json
    from autotune.plan_files import line_finder

    cluster_spec, model_spec = load_cluster(cluster), load_model(model)
    named, origin = load_plan_and_origin(plan, model_spec)
    warnings = warn_of_cluster(cluster_spec, as_json) + warn_of_origin(origin, cluster_spec, model_spec, as_json)
    with about(plan, line_finder(plan)):
        document = {**explain(cluster_spec, model_spec, named, target), "warnings": warnings}
    if trace:
        write_trace(trace, cluster_spec, model_spec, named)
        note(f"timeline: {trace}")
    if as_json:
        print_json(document)
    else:
        _print(document)


def _print(d: dict[str, Any]) -> None:
    from autotune.output import console, table

    out = console()
    state = "legal" if d["legal"] else "ILLEGAL"
    fits = "fits" if d["fits"] else "DOES NOT FIT"
    m = d["memory_GiB"]
    out.print(
        f"plan {d['id']}: {d['iteration_time_s']:.4g} s per iteration, {d['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU, "
        f"MFU {d['mfu']:.1%}, HFU {d['hfu']:.1%}; {state}; {fits}: {m['peak']:.1f} of {m['capacity']:.1f} GiB"
    )
    g = d["goodput"]
    out.print(f"goodput {g['fraction']:.1%} under the cluster's failure rates: {g['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU")
    for v in d["violations"]:
        out.print(f"  breaks {v['rule']}: {v['message']} (nearest: {v['nearest']})")
    total = d["iteration_time_s"]
    rows = [[k, f"{s:.4g}", f"{s / total:.1%}"] for k, s in d["breakdown_s"].items() if s > 0]
    out.print(table("time, heaviest stage", ["part", "s", "share"], [*rows, ["total", f"{total:.4g}", "100.0%"]], right={1, 2}))
    stages = _shown(d["stages"])
    keys = [k for k in stages[0]["time_s"] if any(s["time_s"][k] for s in stages)]
    rows = [[s["stage"], s["layers"], *(f"{s['time_s'][k]:.3f}" for k in keys), f"{sum(s['time_s'].values()):.3f}"] for s in stages]
    out.print(table("time per stage, s", ["stage", "layers", *keys, "total"], rows, right=set(range(1, len(keys) + 3))))
    keys = [k for k in stages[0]["memory_GiB"] if k != "total"]
    rows = [[s["stage"], s["layers"], *(f"{s['memory_GiB'][k]:.2f}" for k in [*keys, "total"])] for s in stages]
    out.print(table("memory per stage, GiB (2^30 bytes)", ["stage", "layers", *keys, "total"], rows, right=set(range(1, len(keys) + 3))))
    rail = d["rail"]
    rows = [[g["kind"], g["size"], g["count"], g["class"], f"{g['bytes'] / 1e9:,.2f}"] for g in rail["groups"]]
    out.print(table("process groups (" + ("rail-clean" if rail["compatible"] else "NOT rail-clean") + ")", ["kind", "size", "groups", "place", "GB per iteration"], rows, right={1, 2, 4}))
    out.print("what limits it: " + "; ".join(x["text"] for x in d["limits"]))
    for line in d["memory_phases"]["text"]:
        out.print(line)
    out.print("data-parallel ranks: " + d["data_parallel"]["text"])
    if "rule_of_thumb" in d:
        r = d["rule_of_thumb"]
        shape = f"T={r['tensor_parallel']} P={r['pipeline_parallel']} D={r['data_parallel']} micro-batch {r['micro_batch_size']} recompute {r['recompute']}"
        out.print(f"rule of thumb: {shape}: {r['iteration_time_s']:.4g} s, {r['time_ratio']:.2f}x this plan")
    for x in d["advice"][:5]:
        out.print(f"change: {x['text']}")
    out.print("taken for granted: " + "; ".join(d["assumptions"]))
    for line in d["conventions"]:
        out.print(line)


def _shown(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # Many stages are alike: show the first two, the last, and every stage that differs from its neighbour before.
    keep = []
    for i, s in enumerate(stages):
        before = stages[i - 1] if i else None
        alike = before and before["layers"] == s["layers"] and abs(before["time_s"]["compute"] - s["time_s"]["compute"]) < 1e-12
        if i in (0, 1, len(stages) - 1) or not alike:
            keep.append(s)
    return keep
