"""How a search result is shown and saved."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from typing import Any, TextIO

from autotune.cluster_checks import gpu_of
from autotune.constants import GIB
from autotune.errors import AutotuneError
from autotune.evaluate import Evaluation
from autotune.goodput import useful_share
from autotune.outdir import OutputFolder
from autotune.output import console, jsonable, table, warn
from autotune.plan import Plan
from autotune.search import SearchOptions, SearchResult, search
from autotune.setting import Setting
from autotune.specs import ClusterSpec, ModelSpec

COLUMNS = ("T", "P", "D", "C", "E", "v", "micro", "m", "SP", "recompute", "ZeRO", "iteration s", "tokens/s/GPU", "MFU", "peak GiB", "bubble", "exposed comm")


def recompute_text(plan: Plan) -> str:
    """`none`, `selective`, `full`, or `full 3/6` layers of each chunk.

    >>> recompute_text(Plan(recompute="full", recompute_num_layers=3, stage_layers=(6,)))
    'full 3/6'
    """
    if plan.recompute_num_layers is None:
        return plan.recompute
    return f"full {plan.recompute_num_layers}/{-(-max(plan.stage_layers) // plan.virtual_stages)}"


def plan_row(e: Evaluation) -> list[str]:
    """One plan as table cells, in the order of `COLUMNS`."""
    p, b = e.plan, e.breakdown
    comm = b.tensor_comm + b.context_comm + b.expert_comm + b.pipeline_comm + b.data_comm
    return [
        str(p.tensor_parallel), str(p.pipeline_parallel), str(p.data_parallel), str(p.context_parallel), str(p.expert_parallel),
        str(p.virtual_stages), str(p.micro_batch_size), str(p.micro_batches), "yes" if p.sequence_parallel else "no",
        recompute_text(p), str(p.zero_stage), f"{e.iteration_time_s:.3f}", f"{e.tokens_per_s_per_gpu:,.0f}", f"{e.mfu:.1%}",
        f"{e.peak_bytes / GIB:.1f}", f"{b.pipeline_bubble / e.iteration_time_s:.1%}", f"{comm / e.iteration_time_s:.1%}",
    ]  # fmt: skip


def training_text(e: Evaluation, cluster: ClusterSpec, model: ModelSpec) -> str:
    """Days, GPU-hours and dollars of a run of `training.tokens`, or the empty string."""
    run = training_run(e, cluster, model)
    if not run:
        return ""
    text = f"{model.training.tokens:.3g} tokens: {run['days']:.1f} days, {run['gpu_hours']:,.0f} GPU-hours"
    if "usd" in run:
        text += f", ${run['usd']:,.0f}"
    return text + f" at {run['goodput']:.1%} goodput"


def training_run(e: Evaluation, cluster: ClusterSpec, model: ModelSpec) -> dict[str, float]:
    """Length and price of the whole run, failures included; empty without `training.tokens`."""
    if not model.training.tokens:
        return {}
    goodput = useful_share(cluster, e.plan.gpus)
    seconds = model.training.tokens / (e.tokens_per_s_per_gpu * e.plan.gpus) / goodput
    run = {"days": seconds / 86400, "gpu_hours": seconds / 3600 * e.plan.gpus, "goodput": goodput}
    price = cluster.prices.gpu_hour_usd or gpu_of(cluster).usd_per_hour
    if price:
        run["usd"] = run["gpu_hours"] * price
    return run


def print_result(result: SearchResult, cluster: ClusterSpec, model: ModelSpec, out: str | None, written: dict[str, Any]) -> None:
    """The table of plans, the account of the search, and where the launch files are."""
    out_console = console()
    report = result.report
    if result.plans:
        codesign = bool(result.settings)
        columns = ["", *(("GPUs", "HB size", "HB GB/s", "NIC Gb/s", "batch") if codesign else ()), *COLUMNS]
        rows = []
        for i, e in enumerate(result.plans):
            extra = _setting_cells(result.plan_settings[i]) if codesign else []
            rows.append([str(i + 1), *extra, *plan_row(e)])
        best = result.plans[0]
        title = f"{model.name} on {best.plan.gpus} x {gpu_of(cluster).name}, {best.plan.fabric}"
        title += ", best plan of each setting" if codesign else f", HB domain {best.plan.hb_domain_size}, batch {best.plan.global_batch_size}"
        out_console.print(table(title, columns, rows, right=set(range(len(columns))) - {columns.index("SP"), columns.index("recompute")}))
        text = training_text(best, cluster, model)
        if text:
            out_console.print(text)
    rejected = ", ".join(f"{k} {n:,}" for k, n in sorted(report["rejected"].items(), key=lambda x: -x[1]))
    out_console.print(
        f"{report['optimality']}; {report['points_scored']:,} scored in {report['elapsed_s']:.2f} s "
        f"({report['points_per_s']:,.0f} points/s, {report['cpu_s']:.2f} CPU s, {report['trials']} trials)"
    )
    out_console.print(f"rejected: {rejected}")
    out_console.print("MFU: full-attention model FLOPs over the dense peak of the training precision. GiB = 2^30 bytes.")
    for line in answer_lines(result.answers):
        out_console.print(line)
    if result.pareto:
        rows = [[str(v) for v in r["setting"].values()] + [f"{v:.4g}" for v in r["objectives"].values()] for r in result.pareto]
        out_console.print(table("Pareto front", [*result.pareto[0]["setting"], *result.pareto[0]["objectives"]], rows))
    if out:
        out_console.print(f"launch files: {out} ({', '.join(f'{t}/' for t in written if t != 'plan')})")


def answer_lines(answers: dict[str, Any]) -> list[str]:
    """What limits the best plan, what else there is, and what to change first, a line each."""
    if not answers:
        return []
    lines = ["what limits it: " + "; ".join(x["text"] for x in answers["limits"][:3])]
    if "different_shape" in answers:
        d = answers["different_shape"]
        lines.append(f"another shape: {d['text']}: {d['time_ratio']:.2f}x the time")
    if "rule_of_thumb" in answers:
        r = answers["rule_of_thumb"]
        state = f"{r['time_ratio']:.2f}x the time" if r["fits"] else "does not fit"
        lines.append(f"rule of thumb: {r['text']}: {state}")
    if answers["changes"]:
        lines.append("change first: " + "; ".join(x["text"] for x in answers["changes"][:3]))
    return lines


def _setting_cells(s: Setting) -> list[str]:
    rates = (f"{s.hb_bandwidth_GBps:.4g}", f"{s.nic_Gbps:.4g}")
    return [str(s.gpus), str(s.hb_domain_size), *rates, str(s.global_batch_size)]


def write_csv(result: SearchResult, stream: TextIO) -> None:
    """The plans, one line each: fields of the plan, prediction, breakdown. Below them those that came closest to fitting.

    `reject_reason` is empty for a plan that runs.
    """
    rows = []
    for e in [*result.plans, *result.misses]:
        d = e.to_dict()
        flat = {k: v for k, v in d.items() if not isinstance(v, (dict, list))}
        flat["stage_layers"] = " ".join(map(str, d["stage_layers"]))
        flat["memory_peak_GiB"] = flat["peak_gib"] = d["memory_GiB"]["peak"]
        flat["reject_reason"] = e.reason
        flat.update({f"{k}_s": v for k, v in d["breakdown_s"].items()})
        rows.append(flat)
    if rows:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_result(
    folder: OutputFolder, result: SearchResult, cluster: ClusterSpec, model: ModelSpec, targets: list[str], options: SearchOptions,
    warnings: list[str],
) -> dict[str, Any]:  # fmt: skip
    """`result.json`, `plan.yaml` and one folder per target. A further target that cannot run the best plan gets its own best.

    `warnings` are lines about the inputs, for `result.json`.
    """
    from autotune.emit import emit, write_targets

    folder.write("result.json", json.dumps(jsonable({**result.to_dict(), "warnings": warnings}), indent=1))
    if not result.plans:
        return {}
    plan = result.plans[0].plan
    runnable, others = [], []
    for target in targets:
        try:
            emit(target, cluster, model, plan)
            runnable.append(target)
        except AutotuneError:
            others.append(target)
    written = write_targets(folder, runnable, cluster, model, plan)
    for target in others:
        try:
            own = search(cluster, model, replace(options, target=target, top=1, storage=None, study=False)).plans[0].plan
            files = emit(target, cluster, model, own)
        except AutotuneError as e:
            warn(f"no files for {target}: {e.message.splitlines()[0]}")
            continue
        from autotune.emit import is_executable

        for name, text in files.items():
            folder.write(f"{target}/{name}", text, executable=is_executable(text))
        written[target] = list(files)
        warn(f"{target} cannot run the best plan; its folder holds its own best")
    return written
