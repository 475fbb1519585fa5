"""Limits on search axes: from the model file's `search` section to lattice values."""

from __future__ import annotations

from typing import Any

from autotune.errors import InputError, Problem
from autotune.plan import RANK_ORDERS, RECOMPUTE
from autotune.specs import ModelSpec

_AXES = {
    "tensor_parallel": "tensor",
    "pipeline_parallel": "pipeline",
    "data_parallel": "data",
    "context_parallel": "context",
    "expert_parallel": "expert",
    "expert_tensor_parallel": "expert_tensor",
    "virtual_stages": "chunks",
    "micro_batch_size": "micro_batch",
    "sequence_parallel": "seq_parallel",
    "recompute": "recompute",
    "zero_stage": "zero",
    "rank_order": "order",
}


def lattice_limits(model: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Axis name -> allowed values, for the axes the model file limits.

    >>> from autotune.specs import SearchSpec
    >>> m = ModelSpec(name="m", num_layers=4, hidden_size=64, num_attention_heads=4, vocab_size=128, seq_length=64,
    ...               search=SearchSpec(tensor_parallel=[2, 4], recompute="full"))
    >>> lattice_limits(m)
    {'tensor': (2, 4), 'recompute': (2,)}
    """
    found: dict[str, tuple[int, ...]] = {}
    for key, axis in _AXES.items():
        value: Any = getattr(model.search, key)
        if value is None:
            continue
        values = value if isinstance(value, list) else [value]
        if key == "recompute":
            values = [RECOMPUTE.index(v) for v in values]
        elif key == "rank_order":
            bad = [v for v in values if v not in RANK_ORDERS]
            if bad:
                raise InputError([Problem(f"unknown rank order '{v}'; known: {', '.join(RANK_ORDERS)}", key="search.rank_order") for v in bad])
            values = [RANK_ORDERS.index(v) for v in values]
        found[axis] = tuple(int(v) for v in values)
    return found
