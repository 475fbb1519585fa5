"""Plans from files: bare plans, plans with predictions beside them, and result documents of `autotune search`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from autotune.errors import InputError, Problem
from autotune.plan import Plan
from autotune.schema_errors import show
from autotune.specs import MAX_GPUS, ModelSpec
from autotune.yaml_lines import Document

# What `search` prints beside a plan's own fields. Read past; a plan says what to run, not how good it is.
RESULT_KEYS = frozenset(
    {
        "iteration_time_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "mfu", "hfu", "memory_GiB",
        "capacity_GiB", "capacity_bytes", "breakdown_s", "stages", "rail", "reason", "violations", "nearest", "fits",
        "feasible", "legal", "gpus", "rank", "objective", "value", "cost", "goodput", "energy", "days", "gpu_hours",
        "dollars", "usd", "tokens_per_s", "model", "versions", "inputs", "description", "comment",
        "cluster_hash", "model_hash", "tool_version",
    }
)  # fmt: skip
_BATCHES = ("global_batch_size", "micro_batch_size", "micro_batches")
_MAX_BATCH = 100_000_000


def plan_from(document: Document, model: ModelSpec | None = None, consistent: bool = True) -> Plan:
    """The plan a document holds: bare, under `plan` or `best`, or the first of `plans`. `consistent` as in `Plan.from_dict`.

    >>> from autotune.yaml_lines import parse
    >>> plan_from(parse("{tensor_parallel: 8, data_parallel: 2, global_batch_size: 4, stage_layers: [32], mfu: 0.4}")).gpus
    16
    """
    data, prefix = _plan_part(document)
    if len(data) > 500:
        raise InputError.of(f"is not a plan: it has {len(data):,} keys", document.file, document.line_of(prefix))
    fields = {key: _whole(value) for key, value in data.items() if key not in RESULT_KEYS}
    problems = [Problem(m, document.file, document.line_of((*prefix, k)), k) for k, m in _out_of_range(fields)]
    if "stage_layers" not in fields:
        split = _even_split(fields, model)
        if split is None and model is None:
            where = document.line_of(prefix)
            problems.append(
                Problem("is required: the layers of each pipeline stage", document.file, where, "stage_layers")
            )
        elif split is not None:  # else the number of stages is at fault, which is told below
            fields["stage_layers"] = split
    if problems:
        raise InputError(problems)
    try:
        plan = Plan.from_dict(fields, document.file, consistent)
    except InputError as e:
        lined = [Problem(p.message, document.file, document.line_of((*prefix, p.key)), p.key) for p in e.problems]
        raise InputError(sorted(lined, key=lambda p: p.line)) from None
    problems = [Problem(m, document.file, document.line_of((*prefix, k)), k) for k, m in _unknown_names(plan, fields)]
    if problems:
        raise InputError(problems)
    return plan


def origin_of(document: Document) -> dict[str, str]:
    """The hashes of the cluster and the model that a plan file was made for, as far as it carries them.

    They stand beside the plan's fields, or in a result document under `inputs`.

    >>> from autotune.yaml_lines import parse
    >>> origin_of(parse("{plans: [{tensor_parallel: 8}], inputs: {cluster_hash: 12ab, model_hash: 34cd, target: megatron}}"))
    {'cluster_hash': '12ab', 'model_hash': '34cd'}
    """
    plan, _ = _plan_part(document)
    whole = document.data if isinstance(document.data, dict) else {}
    asked = whole.get("inputs")
    places = [asked if isinstance(asked, dict) else {}, whole, plan]  # the nearest to the plan wins
    return {key: place[key] for place in places for key in ("cluster_hash", "model_hash") if isinstance(place.get(key), str)}


def line_finder(path: str) -> Callable[[str], int]:
    """Tells the line of a key in a plan file that was read before; 0 where the file does not have it. Reads it when asked."""

    def find(key: str) -> int:
        from autotune.load import load_document

        if not key or path == "-":  # standard input cannot be read twice
            return 0
        document = load_document(path)
        data, prefix = _plan_part(document)
        return document.line_of((*prefix, key)) if key in data else 0

    return find


def _plan_part(document: Document) -> tuple[dict[str, Any], tuple[str | int, ...]]:
    data: Any = document.data
    prefix: tuple[str | int, ...] = ()
    if data is None:
        raise InputError.of("is empty", document.file)
    if isinstance(data, dict) and "plans" in data:
        plans = data["plans"]
        if not isinstance(plans, list) or not plans:
            raise InputError.of("holds no plan: 'plans' is empty", document.file, document.line_of(("plans",)), "plans")
        data, prefix = plans[0], ("plans", 0)
    elif isinstance(data, dict):
        for key in ("plan", "best"):
            if isinstance(data.get(key), dict) and "tensor_parallel" not in data:
                data, prefix = data[key], (key,)
                break
    if not isinstance(data, dict):
        raise InputError.of(
            f"must be a mapping of plan fields, got {show(data)}", document.file, document.line_of(prefix)
        )
    if not any(key in data for key in ("tensor_parallel", "pipeline_parallel", "data_parallel", "stage_layers")):
        message = "is not a plan: it has none of tensor_parallel, pipeline_parallel, data_parallel, stage_layers"
        raise InputError.of(message, document.file, document.line_of(prefix))
    return data, prefix


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return [_whole(v) for v in value] if isinstance(value, list) else value


def _out_of_range(fields: dict[str, Any]) -> list[tuple[str, str]]:
    wrong = []
    degrees = 1
    for key, value in fields.items():
        if isinstance(value, bool):
            continue
        if (
            isinstance(value, float)
            and not math.isfinite(value)
            or isinstance(value, (int, float))
            and abs(value) > 1e15
        ):
            wrong.append((key, f"must be finite and of sensible size, got {show(value)}"))
        elif isinstance(value, int) and value > (_MAX_BATCH if key in _BATCHES else MAX_GPUS):
            wrong.append((key, f"must be at most {_MAX_BATCH if key in _BATCHES else MAX_GPUS:,}, got {show(value)}"))
        elif isinstance(value, int) and key in (
            "tensor_parallel",
            "pipeline_parallel",
            "data_parallel",
            "context_parallel",
        ):
            degrees *= max(value, 1)
        elif isinstance(value, list) and (
            len(value) > 100_000 or any(isinstance(v, int) and v > 100_000 for v in value)
        ):
            wrong.append((key, "lists more than 100,000 stages or layers"))
    if degrees > MAX_GPUS:
        wrong.append(("data_parallel", f"the degrees multiply to {degrees:,} GPUs; at most {MAX_GPUS:,} are supported"))
    sharded, stage = fields.get("distributed_optimizer"), fields.get("zero_stage")
    if isinstance(sharded, bool) and isinstance(stage, int) and sharded != (stage >= 1):
        wrong.append(("distributed_optimizer", f"is {str(sharded).lower()}, but zero_stage is {stage}"))
    return wrong


def _even_split(fields: dict[str, Any], model: ModelSpec | None) -> list[int] | None:
    stages = fields.get("pipeline_parallel", 1)
    if model is None or isinstance(stages, bool) or not isinstance(stages, int) or not 1 <= stages <= 100_000:
        return None
    base, extra = divmod(model.num_layers, stages)
    return [base + (1 if i < extra else 0) for i in range(stages)]


def _unknown_names(plan: Plan, fields: dict[str, Any]) -> list[tuple[str, str]]:
    from autotune.cluster_checks import fabric_problem, stack_problem

    wrong = []
    if "fabric" in fields and (message := fabric_problem(plan.fabric)):
        wrong.append(("fabric", message))
    if "stack" in fields and (message := stack_problem(plan.stack)):
        wrong.append(("stack", message))
    return wrong
