"""How many GPUs: the fewest that fit, what more of them buy, and what to do with a number that does not divide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autotune.answers.rule import FULL, RuleOfThumb, default_setting, rule_of_thumb_plan, shape
from autotune.answers.sharding import state_floor_GiB
from autotune.cluster_checks import gpu_counts, gpu_of
from autotune.constants import GIB
from autotune.errors import InputError
from autotune.evaluate import evaluate
from autotune.plan import Plan
from autotune.setting import Setting
from autotune.specs import ClusterSpec, ModelSpec

SECONDS_PER_DAY = 86400.0


def smallest_memory_plan(cluster: ClusterSpec, model: ModelSpec, setting: Setting, target: str = "megatron") -> Plan | None:
    """The first plan with full recompute and micro-batch 1 that fits on one setting; None when none does."""
    rule = RuleOfThumb(cluster, model, target, setting)
    for degrees in rule.tries(((FULL,),)):
        plan = rule.plan(degrees, 1)
        if plan is not None:
            return plan
    return None


def min_gpus(cluster: ClusterSpec, model: ModelSpec, target: str = "megatron", most: int = 4096) -> dict[str, Any]:
    """The fewest GPUs of the cluster's kind on which training fits: `{"gpus", "plan", "floor_GiB_per_gpu", "text"}`.

    Counts up to one HB domain are tried one by one, then whole domains; `gpus` is None above `most`. The rule of least
    memory: full recompute, micro-batch 1. Sharding gains with every replica, so more GPUs can do what no plan of fewer can.
    """
    base = default_setting(cluster, model)
    domain = domain_size(cluster)
    limit_GiB = gpu_of(cluster).memory_GiB
    for count in _counts(domain, most):
        if state_floor_GiB(model, count, cluster.stack) > limit_GiB:
            continue
        setting = replace(base, gpus=count, hb_domain_size=min(domain, count))
        plan = _fit(cluster, model, setting, target)
        if plan is not None:
            peak = evaluate(cluster, model, plan, target, rail=False).peak_bytes / GIB
            text = f"{count} x {gpu_of(cluster).name} is the fewest that fits: {shape(plan)}, {peak:.1f} GiB"
            return {"gpus": count, "plan": plan.to_dict(), "floor_GiB_per_gpu": state_floor_GiB(model, count, cluster.stack), "text": text}
    return {"gpus": None, "plan": None, "floor_GiB_per_gpu": state_floor_GiB(model, most, cluster.stack), "text": f"no plan fits on up to {most} GPUs"}


def domain_size(cluster: ClusterSpec) -> int:
    """GPUs of one HB domain when there are enough of them: the file's size, or the accelerator's."""
    size = cluster.hb_domain.size
    if isinstance(size, list):
        return max(size)
    return size or gpu_of(cluster).scale_up_domain


def _counts(domain: int, most: int) -> list[int]:
    counts = [*range(1, domain + 1)]
    step, n = domain, domain
    while n + step <= most:
        n += step
        counts.append(n)
        if n >= 8 * step:  # beyond eight steps, steps twice as large: the answer stays within an eighth
            step *= 2
    return counts


def _fit(cluster: ClusterSpec, model: ModelSpec, setting: Setting, target: str) -> Plan | None:
    try:
        return smallest_memory_plan(cluster, model, setting, target)
    except InputError:
        return None


def gpu_count_table(cluster: ClusterSpec, model: ModelSpec, counts: list[int], target: str = "megatron") -> list[dict[str, Any]]:
    """The rule-of-thumb plan on several GPU counts: tokens/s, MFU and days for `training.tokens`.

    `{"gpus", "plan", "tokens_per_s", "tokens_per_s_per_gpu", "mfu", "days_to_train"}`; `plan` None where nothing fits.
    """
    base = default_setting(cluster, model)
    rows = []
    for count in counts:
        setting = replace(base, gpus=count, hb_domain_size=min(domain_size(cluster), count))
        row: dict[str, Any] = {"gpus": count, "plan": None}
        try:
            whole = count % setting.hb_domain_size == 0
            plan = rule_of_thumb_plan(cluster, model, target, setting) if whole else None
        except InputError:
            plan = None
        if plan is not None:
            e = evaluate(cluster, model, plan, target, rail=False)
            total = e.tokens_per_s_per_gpu * count
            days = model.training.tokens / total / SECONDS_PER_DAY if model.training.tokens else None
            row |= {
                "plan": plan.to_dict(), "tokens_per_s": total, "tokens_per_s_per_gpu": e.tokens_per_s_per_gpu, "mfu": e.mfu,
                "days_to_train": days,
            }  # fmt: skip
        rows.append(row)
    return rows


def useful_gpu_counts(cluster: ClusterSpec, model: ModelSpec, gpus: int, target: str = "megatron") -> dict[str, Any]:
    """What to do with `gpus` GPUs when that number divides badly: `{"best", "idle", "rows", "text"}`.

    Compares using all of them with the nearest smaller counts (whole HB domains above one domain), each with its
    rule-of-thumb plan, by total tokens per second. Leaving GPUs idle can be the faster way.
    """
    k = min(domain_size(cluster), gpus)
    below = list(range(gpus, max(0, gpus - 8), -1)) if gpus <= k else [n for n in range(gpus // k * k, 0, -k)][:6]
    powers = [1 << i for i in range(gpus.bit_length()) if 1 << i <= gpus]
    counts = sorted({*below, *powers[-2:]}, reverse=True)
    rows = [r for r in gpu_count_table(cluster, model, counts, target) if r["plan"]]
    if not rows:
        return {"best": None, "idle": None, "rows": [], "text": f"nothing fits on {gpus} GPUs or slightly fewer"}
    best = max(rows, key=lambda r: r["tokens_per_s"])
    idle = gpus - best["gpus"]
    text = f"use {best['gpus']} of {gpus} GPUs: {best['tokens_per_s']:,.0f} tokens/s"
    if idle:
        text += f", {idle} idle"
    return {"best": best["gpus"], "idle": idle, "rows": rows, "text": text}


def size_report(cluster: ClusterSpec, model: ModelSpec, counts: list[int] | None = None, target: str = "megatron") -> dict[str, Any]:
    """How many GPUs: `{"min_gpus", "plan", "state_GiB", "by_gpus", "global_batch_size", "idle", "text"}`.

    `by_gpus` compares the counts given, by default the fewest that fit, doubled up to eight times as many, and the cluster's
    own. `idle` says which GPUs of the cluster's largest count are better left out, or is empty.
    """
    least = min_gpus(cluster, model, target)
    own = gpu_counts(cluster)
    if counts is None:
        counts = sorted({*own, *(least["gpus"] << i for i in range(4))}) if least["gpus"] else sorted(own)
    useful = useful_gpu_counts(cluster, model, max(own), target)
    return {
        "min_gpus": least["gpus"],
        "plan": least["plan"],
        "state_GiB": state_floor_GiB(model, 1, cluster.stack),
        "by_gpus": gpu_count_table(cluster, model, counts, target),
        "global_batch_size": default_setting(cluster, model).global_batch_size,
        "idle": useful["text"] if useful["idle"] else "",
        "text": least["text"],
    }
