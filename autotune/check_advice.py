"""Single changes to a plan, priced: the one that helps most, and what repairs a plan that is not sound."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from autotune.errors import InputError
from autotune.evaluate import Evaluation, evaluate
from autotune.legality import balanced_stage_layers, violations
from autotune.plan import RECOMPUTE, Plan
from autotune.specs import ClusterSpec, ModelSpec

_DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel", "virtual_stages", "micro_batch_size")
_MAX_ZERO = {"megatron": 1, "deepspeed": 3, "torchtitan": 3, "nanotron": 1}


def single_changes(model: ModelSpec, plan: Plan, best: Plan | None, target: str) -> Iterator[tuple[str, Any, Plan]]:
    """(field, value, plan) for plans one field away; the data parallel degree takes up the GPUs, stages are split evenly again.

    >>> m = ModelSpec(name="m", num_layers=8, hidden_size=64, num_attention_heads=8, vocab_size=128, seq_length=64)
    >>> p = Plan(data_parallel=8, global_batch_size=64, stage_layers=(8,))
    >>> [(f, v) for f, v, _ in single_changes(m, p, None, "megatron")][:2]
    [('tensor_parallel', 2), ('pipeline_parallel', 2)]
    """
    for field in _DEGREES:
        now = getattr(plan, field)
        wished = {now * 2, now // 2, getattr(best, field) if best else now} - {now, 0}
        for value in sorted(wished):
            changed = _rescaled(model, plan, {field: value})
            if changed is not None:
                yield field, value, changed
    for kind in RECOMPUTE:
        if kind != plan.recompute:
            yield "recompute", kind, dataclasses.replace(plan, recompute=kind, recompute_num_layers=None)
    stages = {*range(_MAX_ZERO.get(target, 1) + 1), best.zero_stage if best else plan.zero_stage}
    for stage in sorted(stages - {plan.zero_stage}):
        if stage < 2 or plan.pipeline_parallel == 1:
            yield "zero_stage", stage, dataclasses.replace(plan, zero_stage=stage)
    if plan.tensor_parallel > 1:
        yield "sequence_parallel", not plan.sequence_parallel, dataclasses.replace(plan, sequence_parallel=not plan.sequence_parallel)


def _rescaled(model: ModelSpec, plan: Plan, fields: dict[str, Any]) -> Plan | None:
    changed = dataclasses.replace(plan, **fields)
    inner = changed.tensor_parallel * changed.pipeline_parallel * changed.context_parallel
    if plan.gpus % inner:
        return None
    more: dict[str, Any] = {"data_parallel": plan.gpus // inner}
    if "pipeline_parallel" in fields:
        more["stage_layers"] = balanced_stage_layers(model.num_layers, changed.pipeline_parallel)
        if changed.pipeline_parallel == 1:
            more["virtual_stages"] = 1
    if changed.tensor_parallel == 1:
        more["sequence_parallel"] = False
    return dataclasses.replace(changed, **more)


def advise(cluster: ClusterSpec, model: ModelSpec, plan: Plan, now: Evaluation | None, best: Plan | None, target: str, limit: int = 5) -> list[dict[str, Any]]:
    """Sound plans one change away, fastest first: those that repair a plan that is not sound, or beat one that is."""
    sound = now is not None and not now.reason
    found = []
    for field, value, changed in single_changes(model, plan, best, target):
        if violations(model, changed, target):
            continue
        try:
            e = evaluate(cluster, model, changed, target, rail=False)
        except (InputError, ValueError, ZeroDivisionError):
            continue
        if e.fits and (not sound or now is None or e.iteration_time_s < 0.995 * now.iteration_time_s):
            found.append((e.iteration_time_s, field, value, changed))
    found.sort(key=lambda x: x[0])
    advice = []
    for time_s, field, value, changed in found[: limit * 2]:
        if evaluate(cluster, model, changed, target).reason or len(advice) >= limit:
            continue
        advice.append(_worded(plan, now, sound, time_s, field, value))
    return advice


def _worded(plan: Plan, now: Evaluation | None, sound: bool, time_s: float, field: str, value: Any) -> dict[str, Any]:
    gain = None if now is None else 1 - time_s / now.iteration_time_s
    effect = f"{gain:.1%} less time" if sound and gain is not None else "makes it sound"
    text = f"{field} {_shown(getattr(plan, field))} -> {_shown(value)}: {effect} ({time_s:.4g} s per iteration)"
    return {"text": text, "change": {field: value}, "iteration_time_s": time_s, "gain": gain if sound else None}


def _shown(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
