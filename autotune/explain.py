"""Where the time and the memory of a plan go, stage by stage, and what would help."""

from __future__ import annotations

from typing import Any

from autotune.constants import GIB
from autotune.evaluate import Evaluation, Pricing, evaluate, price_plan
from autotune.goodput import useful_share
from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec
from costmodels._jit import jit
from costmodels.iteration import hop_s
from costmodels.stages import stage_time


@jit
def point_stage_time(hw: Any, point: Any, dense: Any, moe: Any, edges: Any, stage: int) -> Any:
    """Time of one stage per micro-batch."""
    return stage_time(hw.model, hw.gpu, hw.stack, point, dense, moe, edges, stage)


@jit
def point_hop_s(hw: Any, point: Any) -> float:
    """Exposed seconds of one pipeline hand-over."""
    return hop_s(hw.model, hw.gpu, hw.net, hw.stack, point)


def stage_times(pricing: Pricing, stage_layers: tuple[int, ...]) -> list[tuple[float, float, dict[str, float]]]:
    """Per stage: (forward_s, backward_s) per micro-batch including hand-overs, and the parts per iteration."""
    point = pricing.point
    crossing = float(point_hop_s(pricing.hw, point)) * point.chunks
    found = []
    for i in range(len(stage_layers)):
        hw, p = pricing.at_stage(stage_layers, i)
        s = point_stage_time(hw, p, pricing.dense, pricing.moe, pricing.edges, i)
        m = point.micro_batches
        parts = {
            "compute": m * float(s.compute), "recompute": m * float(s.recompute), "tensor_comm": m * float(s.tensor),
            "context_comm": m * float(s.context), "expert_comm": m * float(s.expert), "pipeline_comm": 2 * m * crossing,
            "launch": m * float(s.launch),
        }  # fmt: skip
        found.append((float(s.forward) + crossing, float(s.backward) + crossing, parts))
    return found


def stage_rows(e: Evaluation, pricing: Pricing) -> list[dict[str, Any]]:
    """One row per stage whose seconds sum to the iteration time: own work, waiting, and what follows the pipeline."""
    tail = e.breakdown.data_comm + e.breakdown.optimizer + float(pricing.hw.stack.iteration_s)
    rows = []
    for i, (_, _, parts) in enumerate(stage_times(pricing, e.plan.stage_layers)):
        waiting = e.iteration_time_s - sum(parts.values()) - tail
        memory = e.stages[i]
        rows.append(
            {
                "stage": i,
                "layers": e.plan.stage_layers[i],
                "time_s": {
                    **parts, "waiting": waiting, "data_comm": e.breakdown.data_comm, "optimizer": e.breakdown.optimizer,
                    "iteration_overhead": float(pricing.hw.stack.iteration_s),
                },
                "memory_GiB": {**{k: v / GIB for k, v in memory._asdict().items()}, "total": sum(memory) / GIB},
            }
        )  # fmt: skip
    return rows


def explain(cluster: ClusterSpec, model: ModelSpec, plan: Plan, target: str = "megatron") -> dict[str, Any]:
    """The whole account of one plan: prediction, stages, what limits it, the rule-of-thumb plan, and the best single changes."""
    from autotune.answers import (
        assumptions,
        conventions,
        data_parallel_dependence,
        limits,
        oom_report,
        rule_of_thumb_plan,
        what_to_change,
    )

    e = evaluate(cluster, model, plan, target)
    document: dict[str, Any] = {**e.to_dict(), "legal": not e.violations, "violations": e.violations, "fits": e.fits}
    document["stages"] = stage_rows(e, price_plan(cluster, model, plan))
    share = useful_share(cluster, e.plan.gpus)
    document["goodput"] = {"fraction": share, "tokens_per_s_per_gpu": share * e.tokens_per_s_per_gpu}
    document["limits"] = limits(e)
    document["memory_phases"] = oom_report(e)
    if not e.fits:
        document["out_of_memory"] = document["memory_phases"]
    document["data_parallel"] = data_parallel_dependence(cluster, model, plan, target)
    thumb = rule_of_thumb_plan(cluster, model, target)
    if thumb is not None:
        other = evaluate(cluster, model, thumb, target)
        document["rule_of_thumb"] = {**other.to_dict(), "time_ratio": other.iteration_time_s / e.iteration_time_s}
    document["advice"] = what_to_change(cluster, model, e, target)
    document["conventions"] = conventions(cluster, model, e)
    document["assumptions"] = assumptions(cluster, model, plan)
    return document


def write_trace(path: str, cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> None:
    """The predicted timeline as a Chrome/Perfetto trace."""
    import json

    from autotune.errors import InputError
    from autotune.trace import pipeline_trace

    e = evaluate(cluster, model, plan, rail=False)
    pricing = price_plan(cluster, model, plan)
    times = [(f, b) for f, b, _ in stage_times(pricing, plan.stage_layers)]
    tail = [("gradients and parameters", e.breakdown.data_comm), ("optimizer", e.breakdown.optimizer)]
    try:
        trace = pipeline_trace(times, plan.pipeline_parallel, plan.virtual_stages, plan.micro_batches, name=model.name, tail=tail)
    except ValueError as error:
        raise InputError.of(str(error), key="--trace") from None
    with open(path, "w", encoding="utf-8") as f:
        json.dump(trace, f)
