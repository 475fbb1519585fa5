"""Sensitivity curves: every cell of a grid of hardware or batch values, re-optimised over all plans."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

from autotune.cluster_checks import cluster_problems
from autotune.codesign import search_settings
from autotune.errors import InputError, Problem, did_you_mean
from autotune.outdir import OutputFolder
from autotune.output import jsonable
from autotune.search import SearchOptions
from autotune.setting import AXES, Setting, setting_axes
from autotune.specs import ClusterSpec, ModelSpec, Range

INTEGER_AXES = ("gpus", "hb_domain_size", "global_batch_size")
LABELS = {
    "gpus": "GPUs",
    "hb_domain_size": "HB-domain size (GPUs)",
    "hb_bandwidth_GBps": "HB bandwidth per GPU, one direction (GB/s)",
    "nic_Gbps": "NIC rate per GPU (Gb/s)",
    "fabric": "fabric",
    "global_batch_size": "global batch (sequences)",
}


def parse_vary(texts: Iterable[str]) -> dict[str, list[Any]]:
    """`AXIS=v1,v2,...`, or `AXIS=low:high:step`, or `AXIS=low:high:xN` (times N), one per `--vary`.

    >>> parse_vary(["hb_domain_size=8:64:x2", "nic_Gbps=200,400"])
    {'hb_domain_size': [8, 16, 32, 64], 'nic_Gbps': [200.0, 400.0]}
    """
    found: dict[str, list[Any]] = {}
    problems = []
    for text in texts:
        axis, _, values = text.partition("=")
        axis = axis.strip()
        if axis not in AXES:
            problems.append(Problem(f"unknown axis '{axis}'{did_you_mean(axis, list(AXES))}; axes: {', '.join(AXES)}", key="--vary"))
        elif axis in found:
            problems.append(Problem(f"axis '{axis}' is given twice", key="--vary"))
        else:
            try:
                found[axis] = _values(axis, values)
            except (ValueError, OverflowError) as e:
                problems.append(Problem(f"'{text}': {e}", key="--vary"))
    if problems:
        raise InputError(problems)
    return found


def _values(axis: str, text: str) -> list[Any]:
    parts = [p.strip() for p in text.split(":")]
    if axis == "fabric":
        values: list[Any] = [p.strip() for p in text.split(",") if p.strip()]
    elif len(parts) == 3:
        values = _progression(float(parts[0]), float(parts[1]), parts[2])
    else:
        values = [float(p) for p in text.split(",") if p.strip()]
    if not values:
        raise ValueError("no values")
    if axis == "fabric":
        return values
    if any(not 0 < v < 1e12 for v in values):
        raise ValueError("values must be positive numbers")
    if axis in INTEGER_AXES:
        if any(v != int(v) for v in values):
            raise ValueError("values must be whole numbers")
        return [int(v) for v in values]
    return values


def _progression(low: float, high: float, step: str) -> list[float]:
    factor = float(step[1:]) if step.startswith("x") else None
    add = None if factor else float(step)
    if high < low or (factor is not None and factor <= 1) or (add is not None and add <= 0):
        raise ValueError("a progression needs low <= high and a step that grows")
    values = [low]
    while len(values) < 10_000:
        following = values[-1] * factor if factor else values[-1] + (add or 0)
        if following > high * (1 + 1e-9):
            return values
        values.append(following)
    raise ValueError("more than 10,000 values")


def sweep(cluster: ClusterSpec, model: ModelSpec, vary: dict[str, list[Any]], options: SearchOptions) -> dict[str, Any]:
    """One row per cell of the grid. Cells that cannot run carry their reason instead of a time."""
    if not vary:
        raise InputError.of(f"give at least one --vary AXIS=values; axes: {', '.join(AXES)}", key="--vary")
    axes = setting_axes(cluster, model) if "global_batch_size" not in vary else setting_axes(cluster, _with_batch(model, vary))
    for axis in AXES:
        if axis in vary:
            axes[axis] = vary[axis]
        elif isinstance(axes[axis], Range) or len(axes[axis]) != 1:
            raise InputError.of(f"the files leave {axis} open; fix it, or name it with --vary {axis}=...", key=axis)
    _check_fabrics(cluster, vary)
    order = [*vary, *(a for a in AXES if a not in vary)]
    settings = [Setting(**dict(zip(order, combo, strict=True))) for combo in product(*(axes[a] for a in order))]
    options = replace(options, top=1, objectives=("time",), trials=len(settings))
    result = search_settings(cluster, model, axes, settings, options)
    by_setting = {tuple(r["setting"][a] for a in AXES): r for r in result.settings}
    rows = [_row(s, by_setting.get(tuple(getattr(s, a) for a in AXES)), vary) for s in settings]
    _add_relative(rows, list(vary))
    return {"axes": vary, "rows": rows, "search": result.report, "inputs": result.inputs, "interrupted": result.interrupted}


def _with_batch(model: ModelSpec, vary: dict[str, list[Any]]) -> ModelSpec:
    training = model.training.model_copy(update={"global_batch_size": vary["global_batch_size"][0]})
    return model.model_copy(update={"training": training})


def _check_fabrics(cluster: ClusterSpec, vary: dict[str, list[Any]]) -> None:
    for name in vary.get("fabric", []):
        network = cluster.network.model_copy(update={"fabric": name})
        wrong = [m for k, m in cluster_problems(cluster.model_copy(update={"network": network})) if k == "network.fabric"]
        if wrong:
            raise InputError.of(wrong[0], key="--vary fabric")


def _row(setting: Setting, found: dict[str, Any] | None, vary: dict[str, list[Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {a: getattr(setting, a) for a in vary}
    row.update(iteration_time_s=None, relative_performance=None, tokens_per_s_per_gpu=None, mfu=None, reason="", plan=None)
    if found is None:
        row["reason"] = "interrupted"
    elif found["plan"] is None:
        divides = setting.gpus % setting.hb_domain_size == 0
        row["reason"] = found.get("refused") or ("nothing legal and fits" if divides else "hb_domain_size does not divide gpus")
    else:
        row.update({k: found[k] for k in ("iteration_time_s", "tokens_per_s_per_gpu", "mfu", "plan")})
    return row


def _add_relative(rows: list[dict[str, Any]], axes: list[str]) -> None:
    # Relative performance: throughput per GPU over the best of the curve, i.e. at equal values of all axes but the first.
    best: dict[tuple[Any, ...], float] = {}
    for r in rows:
        if r["iteration_time_s"] is not None:
            key = tuple(r[a] for a in axes[1:])
            best[key] = max(best.get(key, 0.0), r["tokens_per_s_per_gpu"])
    for r in rows:
        if r["iteration_time_s"] is not None:
            r["relative_performance"] = r["tokens_per_s_per_gpu"] / best[tuple(r[a] for a in axes[1:])]


PLAN_COLUMNS = (
    "tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel",
    "virtual_stages", "micro_batch_size", "sequence_parallel", "recompute", "recompute_num_layers", "zero_stage", "rank_order", "id",
)  # fmt: skip


def sweep_csv(document: dict[str, Any]) -> str:
    """The rows as CSV, the varied axes first."""
    fields = [*document["axes"], "iteration_time_s", "relative_performance", "tokens_per_s_per_gpu", "mfu", "reason", *PLAN_COLUMNS]
    text = io.StringIO()
    writer = csv.DictWriter(text, fields, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for r in document["rows"]:
        writer.writerow({**r, **{k: v for k, v in (r.get("plan") or {}).items() if k in PLAN_COLUMNS}})
    return text.getvalue()


def write_sweep(folder: OutputFolder, document: dict[str, Any], title: str) -> list[str]:
    """`sweep.csv`, `sweep.json`, and curves of iteration time and of relative performance over the first axis."""
    from autotune.plotting import line_chart

    folder.write("sweep.csv", sweep_csv(document))
    folder.write("sweep.json", json.dumps(jsonable(document), indent=1))
    axes = list(document["axes"])
    first, others = axes[0], axes[1:]
    for quantity, label in (("iteration_time_s", "iteration time (s)"), ("relative_performance", "relative performance")):
        series: dict[str, tuple[list[float], list[float]]] = {}
        for r in document["rows"]:
            if r[quantity] is None:
                continue
            name = ", ".join(f"{a}={r[a]:g}" if not isinstance(r[a], str) else f"{a}={r[a]}" for a in others) or title
            xs, ys = series.setdefault(name, ([], []))
            xs.append(float(document["axes"][first].index(r[first])) if first == "fabric" else float(r[first]))
            ys.append(r[quantity])
        if series:
            log = first != "fabric" and min(document["axes"][first]) > 0 and max(document["axes"][first]) / min(document["axes"][first]) >= 8
            line_chart(folder.file(quantity), title, LABELS[first], label, series, logx=log)
    return ["sweep.csv", "sweep.json", "iteration_time_s.svg", "relative_performance.svg"]
