"""One hardware setting made ready to search: its lattice, price table and cell bounds, and the scoring of cell batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from autotune.parallel import default_jobs, run_parallel
from costmodels.edges import EdgeCost
from costmodels.layer import LayerCost
from costmodels.records import record_view
from searchspaces.kernel import (
    N_EDGE,
    N_LAYER,
    AxisValues,
    Hardware,
    Table,
    bound_cells,
    build_table,
    empty_results,
    score_cells,
)
from searchspaces.lattice import Cell, Lattice

BATCHES_PER_JOB = 16  # cells differ in cost: enough batches that none is waited for long


class CellResult(NamedTuple):
    """The exact outcome of one cell."""

    time_s: float  # inf when nothing is feasible
    best_index: int  # inner index of the best point, -1 when none
    over_bytes: float  # how far the closest non-fitting point is over the limit, inf when none
    over_index: int
    counts: tuple[int, ...]  # points by reason code


@dataclass
class CellSearch:
    """Everything needed to score cells of one setting."""

    hw: Hardware
    lattice: Lattice
    axes: AxisValues
    cells: np.ndarray
    key_of: np.ndarray
    table: Table
    bounds: np.ndarray

    @classmethod
    def prepare(cls, hw: Hardware, lattice: Lattice, jobs: int = 0) -> CellSearch:
        """Price all layer keys and bound all cells."""
        axes = AxisValues(*lattice.axes)
        cells = np.array(lattice.cells, dtype=np.int64).reshape(-1, 4)
        keys, key_of = np.unique(cells[:, [0, 2, 3]], axis=0, return_inverse=True)
        key_of = key_of.reshape(-1).astype(np.int64)
        floats = [np.zeros((len(keys), *lattice.shape[:3], n)) for n in (N_LAYER, N_LAYER, N_EDGE)]
        parts = np.array_split(np.arange(len(keys)), max(1, min(len(keys), 16)))
        run_parallel(
            build_table, [(hw, keys[p], axes, *(f[p[0] : p[-1] + 1] for f in floats)) for p in parts if len(p)], jobs
        )
        kinds = (LayerCost, LayerCost, EdgeCost)
        table = Table(*(record_view(f, kind) for f, kind in zip(floats, kinds, strict=True)))
        bounds = np.empty(len(cells))
        bound_cells(hw, cells, key_of, axes, table, bounds)
        return cls(hw, lattice, axes, cells, key_of, table, bounds)

    def order(self) -> np.ndarray:
        """Cell numbers, most promising first; cells that break a rule as a whole (infinite bound) come last."""
        return np.argsort(self.bounds, kind="stable")

    def score(self, numbers: list[int], jobs: int = 0, backend: str = "threading") -> list[CellResult]:
        """Exact results of the numbered cells."""
        share = max(1, len(numbers) // (BATCHES_PER_JOB * (jobs or default_jobs())))
        batches = [numbers[i : i + share] for i in range(0, len(numbers), share)]
        found = run_parallel(self._score_batch, [(batch,) for batch in batches], jobs, backend)
        return [result for batch in found for result in batch]

    def _score_batch(self, numbers: list[int]) -> list[CellResult]:
        n_b = len(self.axes.micro_batch)
        counts, best, miss = empty_results(len(numbers) * n_b)
        which = np.array(numbers, dtype=np.int64)
        score_cells(self.hw, self.cells[which], self.key_of[which], self.axes, self.table, counts, best, miss)
        return [merge_units(counts[i : i + n_b], best[i : i + n_b], miss[i : i + n_b]) for i in range(0, len(counts), n_b)]

    def cell(self, number: int) -> Cell:
        """The degrees of a numbered cell."""
        return self.lattice.cells[number]


def merge_units(counts: Any, best: Any, miss: Any) -> CellResult:
    """Merge the units of one cell: associative and independent of order (ties go to the lowest index)."""
    b = min(range(len(best)), key=lambda i: (best[i, 0], best[i, 1]))
    o = min(range(len(miss)), key=lambda i: (miss[i, 0], miss[i, 1]))
    return CellResult(
        float(best[b, 0]), int(best[b, 1]), float(miss[o, 0]), int(miss[o, 1]), tuple(int(c) for c in counts.sum(axis=0))
    )
