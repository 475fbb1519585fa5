"""Layer counts that do not divide: which pipeline sizes are even, and how to share out the rest.

61, 78, 94 or 126 layers are ordinary. An uneven split is a plan like any other: every layout here holds all layers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autotune.legality import balanced_stage_layers


@dataclass(frozen=True)
class Layout:
    """Layers per stage and what the split does: even, balanced, light-last or edges-counted."""

    name: str
    stage_layers: tuple[int, ...]


def even_pipelines(layers: int, candidates: Iterable[int], edges: int = 0) -> list[int]:
    """Pipeline degrees that give every stage the same number of units.

    `edges` counts embedding and loss as layers: 2 for both. 126 layers and both edges make 128 units, which is why models
    of 126 layers are cut in powers of two.

    >>> even_pipelines(126, [2, 4, 8, 16]), even_pipelines(126, [2, 4, 8, 16], edges=2), even_pipelines(61, [2, 4, 8, 16])
    ([2], [2, 4, 8, 16], [])
    """
    return [p for p in candidates if (layers + edges) % p == 0 and p <= layers]


def edges_counted(layers: int, stages: int, embedding: bool = True, loss: bool = True) -> tuple[int, ...] | None:
    """Layers per stage when embedding and loss each take the place of one layer; None when that does not come out even.

    >>> edges_counted(6, 4), edges_counted(126, 16)[:2], edges_counted(61, 4)
    ((1, 2, 2, 1), (7, 8), None)
    """
    units = layers + int(embedding) + int(loss)
    if units % stages or stages < 2:
        return None
    each = units // stages
    counts = [each] * stages
    counts[0] -= int(embedding)
    counts[-1] -= int(loss)
    return tuple(counts) if min(counts) >= 0 else None


def light_last(layers: int, stages: int) -> tuple[int, ...] | None:
    """All stages equal but the last, which takes what is left; None when nothing is left for it.

    >>> light_last(94, 4), light_last(126, 8)
    ((24, 24, 24, 22), (16, 16, 16, 16, 16, 16, 16, 14))
    """
    each = -(-layers // stages)
    rest = layers - each * (stages - 1)
    return (each,) * (stages - 1) + (rest,) if rest >= 1 else None


def layouts(layers: int, stages: int) -> list[Layout]:
    """Ways to share out the layers, each holding all of them, no two alike.

    >>> for layout in layouts(46, 4):
    ...     print(layout.name, layout.stage_layers)
    edges counted (11, 12, 12, 11)
    light last (12, 12, 12, 10)
    >>> layouts(80, 4)[0]
    Layout(name='even', stage_layers=(20, 20, 20, 20))
    """
    found: dict[tuple[int, ...], str] = {}
    if layers % stages == 0:
        found[(layers // stages,) * stages] = "even"
    counted = edges_counted(layers, stages)
    if counted:
        found.setdefault(counted, "edges counted")
    found.setdefault(balanced_stage_layers(layers, stages), "balanced")
    light = light_last(layers, stages)
    if light:
        found.setdefault(light, "light last")
    return [Layout(name, counts) for counts, name in found.items()]


def chunk_layer_choices(layers: int, stages: int) -> list[int]:
    """Layers per model chunk that an interleaved even pipeline can have: the divisors of a stage's layers.

    >>> chunk_layer_choices(40, 8), chunk_layer_choices(61, 8)
    ([1, 5], [])
    """
    if layers % stages:
        return []
    each = layers // stages
    return [n for n in range(1, each + 1) if each % n == 0]
