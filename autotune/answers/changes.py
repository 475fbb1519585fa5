"""What to change: every single change of a plan, job or cluster, re-priced, most helpful first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autotune.cluster_checks import gpu_of
from autotune.constants import GB, GIB, hb_rates
from autotune.errors import InputError
from autotune.evaluate import Evaluation, evaluate
from autotune.legality import balanced_stage_layers
from autotune.plan import RANK_ORDERS, RECOMPUTE, Plan
from autotune.specs import ClusterSpec, ModelSpec, Range

WORTH_SAYING = 0.002  # gain below which a change is noise
Search = Callable[[ClusterSpec, ModelSpec], Evaluation | None]


@dataclass(frozen=True)
class Change:
    """One thing done differently. `kind`: plan (free), job (changes the training), hardware (costs money)."""

    name: str
    kind: str
    text: str
    plan: Plan
    model: ModelSpec
    cluster: ClusterSpec


def what_to_change(
    cluster: ClusterSpec,
    model: ModelSpec,
    evaluation: Evaluation,
    target: str = "megatron",
    search: Search | None = None,
    top: int | None = None,
) -> list[dict[str, Any]]:
    """Single changes that help, most helpful first, each re-evaluated.

    `{"name", "kind", "text", "gain", "tokens_per_s_per_gpu", "peak_GiB", "fits", "plan"}`; `gain` is of tokens per second
    per GPU. Illegal changes and those that do not fit are left out. For a plan that does not fit, every change that makes
    it fit is listed, the fastest first, and failing that those that save most memory (`fits` is then false).
    `search`, if given, finds the best plan of a changed job or cluster; otherwise the same plan is priced on it.
    """
    found = []
    for change in _changes(cluster, model, evaluation.plan):
        priced = _price(change, target, search)
        if priced is not None:
            found.append((change, priced))
    rows = [_row(c, e, evaluation) for c, e in found]
    fitting = [r for r in rows if r["fits"]]
    if evaluation.fits:
        chosen = sorted((r for r in fitting if r["gain"] >= WORTH_SAYING), key=lambda r: -r["gain"])
    elif fitting:
        chosen = sorted(fitting, key=lambda r: -r["gain"])
    else:
        chosen = sorted((r for r in rows if r["saves_GiB"] > 0), key=lambda r: r["peak_GiB"])
    return chosen if top is None else chosen[:top]


def _price(change: Change, target: str, search: Search | None) -> Evaluation | None:
    try:
        if search is not None and change.kind != "plan":
            return search(change.cluster, change.model)
        priced = evaluate(change.cluster, change.model, change.plan, target, rail=False)
        if priced.violations or _beyond_target(change.model, change.plan, target):
            return None
        if priced.fits:  # rails are looked at last: it is the dear part
            priced = evaluate(change.cluster, change.model, change.plan, target)
    except (InputError, ValueError):
        return None
    return None if priced.reason in ("rule", "rail") else priced


def _beyond_target(model: ModelSpec, plan: Plan, target: str) -> bool:
    from autotune.emit import find_target
    from autotune.emit.base import beyond

    found = beyond(find_target(target).capabilities, model, plan)
    return any(not p.key.startswith("training.") for p in found)  # how the model is trained is the user's choice


def _row(change: Change, priced: Evaluation, before: Evaluation) -> dict[str, Any]:
    gain = priced.tokens_per_s_per_gpu / before.tokens_per_s_per_gpu - 1.0
    saves = (before.peak_bytes - priced.peak_bytes) / GIB
    if before.fits:
        text = f"{change.text}: {gain:+.1%} tokens/s per GPU"
    elif priced.fits:
        text = f"{change.text}: fits, {priced.peak_bytes / GIB:.1f} GiB"
    else:
        text = f"{change.text}: {saves:.1f} GiB less, still {(priced.peak_bytes - priced.capacity_bytes) / GIB:.1f} GiB over"
    return {
        "name": change.name, "kind": change.kind, "text": text, "gain": gain,
        "tokens_per_s_per_gpu": priced.tokens_per_s_per_gpu, "peak_GiB": priced.peak_bytes / GIB, "saves_GiB": saves,
        "fits": priced.fits, "plan": priced.plan.to_dict(),
    }  # fmt: skip


def _changes(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> Iterator[Change]:
    for name, text, fields in [*_memory_changes(plan), *_degree_changes(plan), *_schedule_changes(plan)]:
        changed = _with(plan, model, fields)
        if changed is not None:
            yield Change(name, "plan", text, changed, model, cluster)
    yield from _job_changes(cluster, model, plan)
    yield from _hardware_changes(cluster, model, plan)


def _with(plan: Plan, model: ModelSpec, fields: dict[str, Any]) -> Plan | None:
    """The plan with some fields replaced; stages are shared out again and the batch must still divide."""
    if "pipeline_parallel" in fields:
        if fields["pipeline_parallel"] > model.num_layers:
            return None
        fields = {"virtual_stages": 1, **fields, "stage_layers": balanced_stage_layers(model.num_layers, fields["pipeline_parallel"])}
    changed = dataclasses.replace(plan, **fields)
    step = changed.micro_batch_size * changed.data_parallel
    inside = changed.gpus // changed.pipeline_parallel
    if changed.global_batch_size % step or inside % (changed.expert_parallel * changed.expert_tensor_parallel):
        return None
    return changed


def _memory_changes(plan: Plan) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for mode in RECOMPUTE:
        if mode != plan.recompute or plan.recompute_num_layers is not None:
            yield "recompute", f"recompute {mode} instead of {plan.recompute}", {"recompute": mode, "recompute_num_layers": None}
    if plan.data_parallel * plan.context_parallel > 1:
        for stage in range(4):
            if stage != plan.zero_stage:
                yield "zero_stage", f"ZeRO stage {stage} instead of {plan.zero_stage}", {"zero_stage": stage}
    if plan.tensor_parallel > 1:
        word = "off" if plan.sequence_parallel else "on"
        yield "sequence_parallel", f"sequence parallelism {word}", {"sequence_parallel": not plan.sequence_parallel}


def _degree_changes(plan: Plan) -> Iterator[tuple[str, str, dict[str, Any]]]:
    d = plan.data_parallel
    for axis in ("tensor_parallel", "pipeline_parallel", "context_parallel"):
        n = getattr(plan, axis)
        word = axis.replace("_", " ")
        if n % 2 == 0:
            extra = {"sequence_parallel": plan.sequence_parallel and n > 2} if axis == "tensor_parallel" else {}
            yield axis, f"{word} {n // 2} and data parallel {2 * d}", {axis: n // 2, "data_parallel": 2 * d, **extra}
        if d % 2 == 0:
            extra = {"sequence_parallel": True} if axis == "tensor_parallel" else {}
            yield axis, f"{word} {2 * n} and data parallel {d // 2}", {axis: 2 * n, "data_parallel": d // 2, **extra}
    t, p = plan.tensor_parallel, plan.pipeline_parallel
    if t % 2 == 0:
        fields = {"tensor_parallel": t // 2, "pipeline_parallel": 2 * p, "sequence_parallel": plan.sequence_parallel and t > 2}
        yield "pipeline_parallel", f"tensor parallel {t // 2} and pipeline parallel {2 * p}", fields
    if p % 2 == 0:
        fields = {"tensor_parallel": 2 * t, "pipeline_parallel": p // 2, "sequence_parallel": True}
        yield "tensor_parallel", f"tensor parallel {2 * t} and pipeline parallel {p // 2}", fields
    e = plan.expert_parallel
    if e > 1:
        for n in (e // 2, 2 * e):
            yield "expert_parallel", f"expert parallel {n} instead of {e}", {"expert_parallel": n}


def _schedule_changes(plan: Plan) -> Iterator[tuple[str, str, dict[str, Any]]]:
    b = plan.micro_batch_size
    yield "micro_batch_size", f"micro-batch {2 * b} instead of {b}", {"micro_batch_size": 2 * b}
    if b % 2 == 0:
        yield "micro_batch_size", f"micro-batch {b // 2} instead of {b}", {"micro_batch_size": b // 2}
    if plan.pipeline_parallel > 1:
        most = max(plan.stage_layers)
        legal = [v for v in range(1, most + 1) if all(n % v == 0 for n in plan.stage_layers)]
        at = legal.index(plan.virtual_stages) if plan.virtual_stages in legal else -1
        near = legal if at < 0 else [*legal[max(0, at - 1) : at], *legal[at + 1 : at + 2]]
        for v in near:
            yield "virtual_stages", f"{v} model chunks per stage instead of {plan.virtual_stages}", {"virtual_stages": v}
        other = next(o for o in RANK_ORDERS if o != plan.rank_order)
        yield "rank_order", f"rank order {other}", {"rank_order": other}


def _job_changes(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> Iterator[Change]:
    double = 2 * plan.global_batch_size
    training = model.training.model_copy(update={"global_batch_size": double})
    yield Change(
        "global_batch_size", "job", f"global batch {double} instead of {plan.global_batch_size}",
        dataclasses.replace(plan, global_batch_size=double), model.model_copy(update={"training": training}), cluster,
    )  # fmt: skip
    if model.training.precision != "fp8" and gpu_of(cluster).fp8_TFLOPS is not None:
        training = model.training.model_copy(update={"precision": "fp8"})
        yield Change("precision", "job", "fp8 matrix products", plan, model.model_copy(update={"training": training}), cluster)


def _hardware_changes(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> Iterator[Change]:
    fixed = {"gpus": plan.gpus}
    k = 2 * plan.hb_domain_size
    if plan.gpus % k == 0:
        hb = cluster.hb_domain.model_copy(update={"size": k})
        changed = cluster.model_copy(update={**fixed, "hb_domain": hb})
        yield Change("hb_domain_size", "hardware", f"HB domain of {k} GPUs instead of {plan.hb_domain_size}",
                     dataclasses.replace(plan, hb_domain_size=k), model, changed)  # fmt: skip
    rates = hb_rates(cluster)
    rate = 2 * (rates.max if isinstance(rates, Range) else rates[0] / GB)
    hb = cluster.hb_domain.model_copy(update={"size": plan.hb_domain_size, "bandwidth_GBps": rate})
    changed = cluster.model_copy(update={**fixed, "hb_domain": hb})
    yield Change("hb_bandwidth_GBps", "hardware", f"HB bandwidth {rate:g} GB/s instead of {rate / 2:g} (one direction)", plan, model, changed)
    nic = 2 * plan.nic_Gbps
    net = cluster.network.model_copy(update={"nic_Gbps": nic})
    changed = cluster.model_copy(update={**fixed, "network": net})
    yield Change("nic_Gbps", "hardware", f"NICs of {nic:g} Gb/s instead of {plan.nic_Gbps:g}",
                 dataclasses.replace(plan, nic_Gbps=nic), model, changed)  # fmt: skip
