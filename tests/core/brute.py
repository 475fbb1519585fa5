"""The search by brute force: plain nested loops over every axis value, one public function call per point.

Nothing of the kernel or the lattice is used: axes, order of rules, counting and choice are written again here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from autotune.evaluate import point_stage_memory, price_point
from costmodels.edges import price_edges
from costmodels.groups import unreachable_group
from costmodels.layer import LayerCost, LayerKey, price_layer
from costmodels.records import as_record
from searchspaces.kernel import Hardware
from searchspaces.legality import point_reason
from searchspaces.rules import MEMORY, OK, RAIL
from searchspaces.splits import make_point


@dataclass
class Found:
    """Every feasible point by cell, in the order of the loops, and all points by reason."""

    counts: Counter[int] = field(default_factory=Counter)
    feasible: dict[tuple[int, int, int, int], list[tuple[float, Any]]] = field(default_factory=dict)
    over: list[tuple[float, Any]] = field(default_factory=list)  # (bytes over the limit, point)

    def best_by_cell(self) -> list[tuple[float, Any]]:
        """The fastest point of each cell (the first of equals), fastest cell first."""
        return sorted((min(points, key=lambda p: p[0]) for points in self.feasible.values()), key=lambda p: p[0])


def divisors(n: int) -> list[int]:
    """Divisors in ascending order."""
    return [d for d in range(1, n + 1) if n % d == 0]


def inner_points(hw: Hardware, limits: dict[str, tuple[int, ...]], T: int, P: int, C: int, E: int) -> list[tuple[int, Any]]:
    """(recompute mode, point) for every value of the inner axes of one cell."""
    model = hw.model

    def keep(axis: str, values: list[int]) -> list[int]:
        return [v for v in values if v in limits.get(axis, values)]

    heads = [t for t in divisors(hw.gpus) if t <= model.heads]
    modes = [v for v in range(6) if min(v, 2) in limits.get("recompute", (0, 1, 2))]
    points = []
    for b in keep("micro_batch", [d for d in divisors(hw.batch) if d <= 64]):
        for X in keep("expert_tensor", sorted({1, *keep("tensor", heads)}) if model.experts else [1]):
            for sp in keep("seq_parallel", [1, 0]):
                for split in (0, 1, 2):
                    for v in keep("chunks", list(range(1, min(24, max(1, int(model.layers) // 2)) + 1))):
                        for mode in modes:
                            for order in keep("order", [0, 1]):
                                for zero in keep("zero", [0, 1, 2, 3]):
                                    point = make_point(model.layers, hw.gpus, hw.batch, T, P, C, E, b, X, sp, split, v, zero, mode, order)
                                    points.append((mode, point))
    return points


def cells_of(hw: Hardware, limits: dict[str, tuple[int, ...]]) -> list[tuple[int, int, int, int]]:
    """Every (T, P, C, E) of divisors of the GPU count that multiplies to no more than it."""
    model, n = hw.model, hw.gpus

    def keep(axis: str, values: list[int]) -> list[int]:
        return [v for v in values if v in limits.get(axis, values)]

    return [
        (T, P, C, E)
        for T in keep("tensor", [d for d in divisors(n) if d <= model.heads])
        for P in keep("pipeline", [d for d in divisors(n) if d <= model.layers])
        for C in keep("context", [d for d in divisors(n) if 2 * d <= model.seq])
        for E in keep("expert", [d for d in divisors(int(model.experts)) if d <= n] if model.experts else [1])
        if T * P * C <= n and E * P <= n and ("data" not in limits or n // (T * P * C) in limits["data"])
    ]


def search_all(hw: Hardware, limits: dict[str, tuple[int, ...]]) -> Found:
    """Price or reject every point."""
    found = Found()
    prices: dict[Any, Any] = {}
    for cell in cells_of(hw, limits):
        for mode, point in inner_points(hw, limits, *cell):
            reason = first_reason(hw, cell, mode, point)
            if reason == OK:
                key = LayerKey(point.tensor, point.context, point.expert, point.expert_tensor, point.micro_batch, point.seq_parallel)
                if key not in prices:
                    prices[key] = price_key(hw, key)
                over = peak_bytes(hw, point, prices[key]) - hw.memory_limit_bytes
                if over > 0.0:
                    reason = MEMORY
                    found.over.append((over, point))
                else:
                    time_s = float(price_point(hw, point, *prices[key]).time_s)
                    found.feasible.setdefault(cell, []).append((time_s, point))
            found.counts[reason] += 1
    return found


def first_reason(hw: Hardware, cell: tuple[int, int, int, int], mode: int, point: Any) -> int:
    """The first rule that a point breaks, in the order of the axes: rails after the rank order, before the sharding stage."""
    without_zero = int(point_reason(hw.model, hw.rules, hw.gpus, hw.batch, *cell, mode, point._replace(zero=0)))
    if without_zero != OK:
        return without_zero
    if unreachable_group(hw.net, point, hw.model.experts, hw.model.tied):
        return RAIL
    return int(point_reason(hw.model, hw.rules, hw.gpus, hw.batch, *cell, mode, point))


def price_key(hw: Hardware, key: LayerKey) -> tuple[Any, Any, Any]:
    """Level-1 prices of one key: dense layer, expert layer (zeros for a dense model), edges."""
    dense = price_layer(hw.model, hw.gpu, hw.net, hw.stack, key, 0)
    moe = LayerCost(*(0.0,) * len(LayerCost._fields))
    if hw.model.experts > 0:
        moe = price_layer(hw.model, hw.gpu, hw.net, hw.stack, key, 1)
    edges = price_edges(
        hw.model, hw.gpu, hw.net, hw.stack, key.tensor, key.context, key.expert, key.expert_tensor, key.micro_batch, key.seq_parallel
    )
    return as_record(dense), as_record(moe), as_record(edges)


def peak_bytes(hw: Hardware, point: Any, prices: tuple[Any, Any, Any]) -> float:
    """Memory of the fullest of all stages."""
    return max(sum(point_stage_memory(hw, point, *prices, stage)) for stage in range(point.pipeline))
