"""Reads a plan for judging: one that contradicts itself is judged, not refused."""

from __future__ import annotations

from typing import Any

from autotune.errors import InputError
from autotune.load import load_document, load_plan
from autotune.plan import Plan
from autotune.specs import ModelSpec

# Contradictions that are rules of legality; everything else wrong with a file stays an input error.
_JUDGED = ("global_batch_size", "micro_batch_size", "micro_batches", "stage_layers", "expert_parallel")
_DERIVED = ("micro_batches", "distributed_optimizer", "id")


def lenient_plan(path: str, model: ModelSpec) -> Plan:
    """The plan of a file, also when its batch, stages or expert degrees do not add up."""
    try:
        return load_plan(path, model)
    except InputError as e:
        if not e.problems or any(p.key not in _JUDGED or "must be" in p.message or "unknown" in p.message for p in e.problems):
            raise
        data = _fields(load_document(path).data)
        known = {k: v for k, v in data.items() if k in Plan.__dataclass_fields__ and k not in _DERIVED}
        layers = known.get("stage_layers")
        known["stage_layers"] = tuple(layers) if isinstance(layers, list) and all(isinstance(n, int) and n >= 0 for n in layers) else ()
        if not known["stage_layers"]:
            from autotune.legality import balanced_stage_layers

            known["stage_layers"] = balanced_stage_layers(model.num_layers, known.get("pipeline_parallel", 1))
        return Plan(**known)


def _fields(data: Any) -> dict[str, Any]:
    if isinstance(data, dict) and isinstance(data.get("plans"), list) and data["plans"]:
        data = data["plans"][0]
    if isinstance(data, dict):
        for key in ("plan", "best"):
            if isinstance(data.get(key), dict) and "tensor_parallel" not in data:
                data = data[key]
    return data if isinstance(data, dict) else {}
