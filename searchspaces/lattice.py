"""The lattice of plans: cells (T, P, C, E) and, inside each, a mixed-radix lattice of the remaining axes.

A point's index within its cell is a mixed-radix number over the inner axes, most significant first: micro-batch,
expert-tensor degree, sequence parallelism, split, chunks, recompute mode, rank order, sharding stage. Nothing is
materialised: the kernel walks indexes, and `Lattice.point` decodes one. The size is known before anything is scored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from costmodels.types import Model, Point
from searchspaces.splits import make_point

EVEN, BALANCED, LIGHT_LAST = 0, 1, 2


class Cell(NamedTuple):
    """A block of plans that share their tensor, pipeline, context and expert degrees."""

    tensor: int
    pipeline: int
    context: int
    expert: int


class Axes(NamedTuple):
    """Values of the inner axes as integer arrays, in index order."""

    micro_batch: np.ndarray
    expert_tensor: np.ndarray
    seq_parallel: np.ndarray
    split: np.ndarray
    chunks: np.ndarray
    recompute: np.ndarray  # 0 none, 1 selective, 2..5 full over the first 1/4, 2/4, 3/4, 4/4 of each chunk
    order: np.ndarray
    zero: np.ndarray


@dataclass(frozen=True)
class Lattice:
    """All plans of one hardware cell.

    >>> from costmodels.examples import TINY
    >>> lattice = Lattice.build(TINY, gpus=8, global_batch=16)
    >>> lattice.size == len(lattice.cells) * lattice.inner_size
    True
    >>> cell = Cell(2, 2, 1, 1)
    >>> index = 12345 % lattice.inner_size
    >>> lattice.encode(*lattice.decode(index)) == index
    True
    """

    model: Model
    gpus: int
    global_batch: int
    cells: tuple[Cell, ...]
    axes: Axes

    @classmethod
    def build(
        cls,
        model: Model,
        gpus: int,
        global_batch: int,
        limits: dict[str, tuple[int, ...]] | None = None,
        max_micro_batch: int = 64,
    ) -> Lattice:
        """Every divisor of the GPU count on each degree axis, restricted by `limits` (axis name -> legal values)."""
        limits = limits or {}

        def keep(name: str, values: list[int]) -> list[int]:
            allowed = limits.get(name)
            return values if allowed is None else [v for v in values if v in allowed]

        divisors = divisors_of(gpus)
        tensor = keep("tensor", [d for d in divisors if d <= model.heads])
        pipeline = keep("pipeline", [d for d in divisors if d <= model.layers])
        context = keep("context", [d for d in divisors if 2 * d <= model.seq])
        expert = keep("expert", [d for d in divisors_of(model.experts) if d <= gpus] if model.experts else [1])
        cells = [
            Cell(t, p, c, e)
            for t in tensor
            for p in pipeline
            for c in context
            for e in expert
            if t * p * c <= gpus and e * p <= gpus
        ]
        if "data" in limits:
            cells = [c for c in cells if gpus // (c.tensor * c.pipeline * c.context) in limits["data"]]
        expert_tensor = sorted({1, *tensor}) if model.experts else [1]
        axes = Axes(
            *(
                np.array(values, dtype=np.int64)
                for values in (
                    keep("micro_batch", [d for d in divisors_of(global_batch) if d <= max_micro_batch]),
                    keep("expert_tensor", expert_tensor),
                    keep("seq_parallel", [1, 0]),
                    [EVEN, BALANCED, LIGHT_LAST],
                    keep("chunks", [v for v in range(1, min(24, max(1, model.layers // 2)) + 1)]),
                    _recompute_values(limits.get("recompute")),
                    keep("order", [0, 1]),
                    keep("zero", [0, 1, 2, 3]),
                )
            )
        )
        return cls(model, gpus, global_batch, tuple(cells), axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the inner axes."""
        return tuple(len(a) for a in self.axes)

    @property
    def inner_size(self) -> int:
        """Points of one cell."""
        n = 1
        for length in self.shape:
            n *= length
        return n

    @property
    def size(self) -> int:
        """Points of the whole lattice."""
        return len(self.cells) * self.inner_size

    def decode(self, index: int) -> tuple[int, ...]:
        """Axis positions of an inner index."""
        digits = []
        for length in reversed(self.shape):
            index, digit = divmod(index, length)
            digits.append(digit)
        return tuple(reversed(digits))

    def encode(self, *digits: int) -> int:
        """Inner index of axis positions."""
        index = 0
        for length, digit in zip(self.shape, digits, strict=True):
            index = index * length + digit
        return index

    def point(self, cell: Cell, index: int) -> Point:
        """The point behind an inner index of a cell. Legality is not checked (`searchspaces.legality.point_reason`)."""
        digits = self.decode(index)
        b, x, sp, split, v, mode, order, zero = (int(axis[i]) for axis, i in zip(self.axes, digits, strict=True))
        t, p, c, e = cell
        return make_point(self.model.layers, self.gpus, self.global_batch, t, p, c, e, b, x, sp, split, v, zero, mode, order)


def _recompute_values(limit: tuple[int, ...] | None) -> list[int]:
    values = [0, 1, 2, 3, 4, 5]
    return values if limit is None else [v for v in values if min(v, 2) in limit]


def divisors_of(n: int) -> list[int]:
    """All divisors in ascending order.

    >>> divisors_of(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})
