"""Predict every row, and resolve choices a row leaves open."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec
from autotune.validate.mapping import Scenario, Unscorable, scenarios
from autotune.validate.rows import GIB, Row


class Prediction(NamedTuple):
    """What the model says of one plan. `stage_bytes` are peaks with everything a GPU holds, `stage_reserve_bytes` the
    share of it outside the training framework's allocator. `refused` is the rule that forbids the plan, or empty."""

    time_s: float
    stage_bytes: tuple[float, ...]
    stage_reserve_bytes: tuple[float, ...]
    fits: bool
    refused: str = ""
    capacity_bytes: float = 0.0


Predictor = Callable[[ClusterSpec, ModelSpec, Plan], Prediction]

SLACK = 1.15  # how far a predicted peak may exceed the capacity of a GPU that ran the plan

# How each source measured memory: on which stage, and whether its figure is PyTorch's allocated or reserved bytes
# ("allocated": the CUDA context is not in it) or all a GPU held ("device").
FIRST_STAGE_STACKS = frozenset({"nanotron"})
# (the value: library workspaces PyTorch allocates beside the tensors the model counts).
ALLOCATED_BYTES = {"nanotron": 0.2 * GIB, "megatron-core-eager": 0.0, "torchtitan": 0.0}


@dataclass(frozen=True)
class Result:
    """One row scored or skipped. Memory in bytes; `fits` None when skipped."""

    row: Row
    stack: str = ""
    time_s: float | None = None
    memory_bytes: float | None = None
    fits: bool | None = None
    choices: str = ""
    skip_reason: str = ""
    scenario: Scenario | None = None


def plan_predictor() -> Predictor:
    """The shipped cost model as a predictor."""
    from autotune.evaluate import evaluate

    def predict(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> Prediction:
        e = evaluate(cluster, model, plan, rail=False)
        stages = tuple(float(sum(s)) for s in e.stages)
        reserve = tuple(float(s.reserve) for s in e.stages)
        # A run that another framework made may break a rule of the launch target evaluated here: priced, not refused.
        refused = "" if math.isfinite(e.iteration_time_s) else str(e.reason)
        return Prediction(float(e.iteration_time_s), stages, reserve, bool(e.fits), refused, float(e.capacity_bytes))

    return predict


def score(rows: Iterable[Row], predict: Predictor) -> list[Result]:
    """A result for every row, in order."""
    return [score_row(row, predict) for row in rows]


def score_row(row: Row, predict: Predictor) -> Result:
    """Predict one row. A row with neither time nor memory nor a failure to compare with is skipped."""
    if row.time_s is None and row.memory_bytes is None and row.status == "ok":
        return Result(row, skip_reason="neither time nor memory was printed")
    try:
        options = [(s, predict(s.cluster, s.model, s.plan)) for s in scenarios(row)]
    except Unscorable as reason:
        return Result(row, skip_reason=str(reason))
    usable = [(s, p) for s, p in options if math.isfinite(p.time_s) and p.time_s > 0]
    if not usable:
        if row.status != "ok" and options:
            return _result(row, *options[0])
        return Result(row, options[0][0].plan.stack, skip_reason=f"plan refused: {options[0][1].refused}")
    return _result(row, *choose(usable))


def choose(options: list[tuple[Scenario, Prediction]]) -> tuple[Scenario, Prediction]:
    """The reading a tuned run would have: the fastest that memory does not rule out, else the one that needs least.

    The run did complete, so a reading counts as possible while its predicted peak is within `SLACK` of the capacity.
    """
    if len(options) == 1:
        return options[0]
    allowed = [o for o in options if not o[1].refused] or options
    near = [o for o in allowed if max(o[1].stage_bytes, default=0.0) <= SLACK * o[1].capacity_bytes]
    if near:
        return min(near, key=lambda o: o[1].time_s)
    return min(allowed, key=lambda o: max(o[1].stage_bytes, default=0.0))


def _result(row: Row, scenario: Scenario, prediction: Prediction) -> Result:
    stack = scenario.plan.stack
    time_s = prediction.time_s if math.isfinite(prediction.time_s) and prediction.time_s > 0 else None
    fits = prediction.fits and not prediction.refused and not scenario.illegal
    return Result(row, stack, time_s, memory_of(prediction, stack), fits, scenario.choices, "", scenario)


def memory_of(prediction: Prediction, stack: str) -> float | None:
    """Predicted bytes in the terms in which this framework's runs report them; None without a prediction."""
    if not prediction.stage_bytes:
        return None
    totals = prediction.stage_bytes
    if stack in ALLOCATED_BYTES:
        totals = tuple(t - r + ALLOCATED_BYTES[stack] for t, r in zip(totals, prediction.stage_reserve_bytes, strict=True))
    return totals[0] if stack in FIRST_STAGE_STACKS else max(totals)
