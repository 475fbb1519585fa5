"""Which part of memory depends on data parallelism, what recomputing saves, and the least that training state can take."""

from __future__ import annotations

import dataclasses
from typing import Any

from autotune.constants import GIB, model_constants, stack_constants
from autotune.errors import InputError
from autotune.evaluate import Evaluation, evaluate, price_plan
from autotune.plan import RECOMPUTE, Plan
from autotune.specs import ClusterSpec, ModelSpec
from costmodels.parameters import total_parameters
from costmodels.pipeline import in_flight
from costmodels.stages import stage_moe_layers
from searchspaces.lattice import divisors_of

TIGHT = 0.95  # of the capacity: above it, what the model leaves out may decide
SHARDED = {0: (), 1: ("optimizer",), 2: ("optimizer", "gradients"), 3: ("optimizer", "gradients", "weights")}


def verdict(evaluation: Evaluation) -> str:
    """`invalid` (breaks a rule), `does_not_fit`, `tight` (above 95 % of the capacity) or `fits`."""
    if evaluation.violations:
        return "invalid"
    if not evaluation.fits:
        return "does_not_fit"
    return "tight" if evaluation.peak_bytes > TIGHT * evaluation.capacity_bytes else "fits"


def state_bytes_per_parameter(stack: str) -> float:
    """Weights, gradients and optimizer state of one parameter without any sharding.

    >>> state_bytes_per_parameter("megatron-core")
    18.0
    """
    s = stack_constants(stack)
    return s.weight_memory_bytes + s.grad_memory_bytes + s.optimizer_memory_bytes


def state_floor_GiB(model: ModelSpec, gpus: int, stack: str = "megatron-core") -> float:
    """Training state per GPU if all of it were shared out evenly: no plan needs less (activations come on top).

    >>> from autotune.load import load_model
    >>> round(state_floor_GiB(load_model("qwen3-235b-a22b"), 64), 1)
    61.6
    """
    return state_bytes_per_parameter(stack) * int(total_parameters(model_constants(model))) / gpus / GIB


def data_parallel_dependence(cluster: ClusterSpec, model: ModelSpec, plan: Plan, target: str = "megatron") -> dict[str, Any]:
    """How a plan's memory changes when it is copied to fewer replicas.

    `{"parts", "depends_GiB", "by_data_parallel": [{"data_parallel", "gpus", "peak_GiB", "fits"}], "smallest_that_fits", "text"}`.
    `parts` are those divided by the data-parallel (and context) ranks under the plan's ZeRO stage; the global batch is kept
    by running more micro-batches.
    """
    parts = SHARDED[plan.zero_stage]
    here = evaluate(cluster, model, plan, target, rail=False)
    worst = max(here.stages, key=sum)
    depends = sum(getattr(worst, p) for p in parts) / GIB
    rows: list[dict[str, Any]] = []
    for d in divisors_of(plan.data_parallel):
        try:
            e = evaluate(cluster, model, dataclasses.replace(plan, data_parallel=d), target, rail=False)
        except (InputError, ValueError, ZeroDivisionError):
            continue
        if not e.violations:
            rows.append({"data_parallel": d, "gpus": e.plan.gpus, "peak_GiB": e.peak_bytes / GIB, "fits": e.fits})
    smallest = next((r["data_parallel"] for r in rows if r["fits"]), None)
    return {
        "parts": list(parts), "depends_GiB": depends, "by_data_parallel": rows, "smallest_that_fits": smallest,
        "text": _dependence_text(plan, parts, depends, smallest),
    }  # fmt: skip


def _dependence_text(plan: Plan, parts: tuple[str, ...], depends: float, smallest: int | None) -> str:
    if not parts:
        return "nothing is sharded over data-parallel ranks (ZeRO 0): memory does not depend on their number"
    if plan.data_parallel * plan.context_parallel == 1:
        return "there is one data-parallel rank: sharding saves nothing"
    names = {"optimizer": "optimizer state", "gradients": "gradients", "weights": "weights"}
    what = ", ".join(names[p] for p in parts)
    text = f"divided by {plan.data_parallel * plan.context_parallel} ranks: {what}; {depends:.1f} GiB here, more on fewer replicas"
    return text + ("; no number of replicas fits" if smallest is None else f"; it fits down to data parallel {smallest}")


def recompute_options(cluster: ClusterSpec, model: ModelSpec, plan: Plan, target: str = "megatron") -> list[dict[str, Any]]:
    """The plan under every recompute mode: `{"recompute", "stored_GiB", "peak_GiB", "fits", "iteration_time_s"}`.

    `stored_GiB` is what the first stage keeps between forward and backward for all micro-batches in flight, without the
    one layer that is alive in full while it is run again.
    """
    rows = []
    for mode in RECOMPUTE:
        changed = dataclasses.replace(plan, recompute=mode, recompute_num_layers=None)
        e = evaluate(cluster, model, changed, target, rail=False)
        rows.append(
            {
                "recompute": mode, "stored_GiB": stored_bytes(cluster, model, changed) / GIB, "peak_GiB": e.peak_bytes / GIB,
                "fits": e.fits, "iteration_time_s": e.iteration_time_s,
            }  # fmt: skip
        )
    return rows


def stored_bytes(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> float:
    """Activations that the first stage's layers keep for all micro-batches in flight."""
    pricing = price_plan(cluster, model, plan)
    point = pricing.point
    layers = plan.stage_layers[0]
    moe = float(stage_moe_layers(pricing.hw.model, point, 0, layers))
    field = ("act_none_bytes", "act_selective_bytes", "act_full_bytes")[RECOMPUTE.index(plan.recompute)]
    kept = (layers - moe) * getattr(pricing.dense, field) + (moe * getattr(pricing.moe, field) if moe else 0.0)
    return float(in_flight(point.pipeline, point.chunks, point.micro_batches, 0) * kept)
