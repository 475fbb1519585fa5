"""Counts the arithmetic of the kernel by running it uncompiled on numbers that count (see `autotune.bench`)."""

from __future__ import annotations

from typing import Any

import numpy as np

COUNT = [0]


class Counted(float):
    """A float that counts each arithmetic operation and comparison made with it.

    >>> COUNT[0] = 0
    >>> float(Counted(2.0) * 3 + 1), COUNT[0]
    (7.0, 2)
    """

    __hash__ = float.__hash__


def _counting(name: str, comparison: bool) -> Any:
    plain = getattr(float, name)

    def operation(self: Counted, other: Any) -> Any:
        COUNT[0] += 1
        result = plain(self, float(other))
        return result if comparison or result is NotImplemented else Counted(result)

    return operation


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    for _side in ("", "r"):
        setattr(Counted, f"__{_side}{_name}__", _counting(f"__{_side}{_name}__", False))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Counted, f"__{_name}__", _counting(f"__{_name}__", True))


def count() -> float:
    """Floating-point operations and comparisons per priced point over some cells of the lattice; integer bookkeeping is left out."""
    from autotune.bench import CLUSTER, MODEL, SETTING
    from autotune.cells import CellSearch
    from autotune.search import lattice_of
    from autotune.setting import hardware, target_rules
    from searchspaces import kernel
    from searchspaces.rules import OK

    hw = hardware(CLUSTER, MODEL, SETTING, target_rules("megatron"))._replace(memory_limit_bytes=1e18)
    lattice = lattice_of(hw, MODEL, SETTING)
    wanted = {(8, 8, 1, 1), (4, 16, 1, 1), (8, 1, 2, 1)}
    lattice = type(lattice)(lattice.model, lattice.gpus, lattice.global_batch, tuple(c for c in lattice.cells if tuple(c) in wanted), lattice.axes)
    cells = CellSearch.prepare(hw, lattice, 1)
    records: dict[str, Any] = {k: _Fields(getattr(hw, k)) for k in ("model", "gpu", "net", "stack")}
    counting = hw._replace(**records)
    rows: list[Any] = [_Rows(t) for t in cells.table]
    score_unit: Any = kernel.score_unit
    points = 0
    total = 0
    for i, cell in enumerate(lattice.cells):
        for ib in range(3):
            counts, best, miss = kernel.empty_results(1)
            k = int(cells.key_of[i])
            table = kernel.Table(*rows)
            COUNT[0] = 0
            sync = np.empty((len(cells.axes.order), len(cells.axes.zero), 2), dtype=object)  # holds counting numbers
            score_unit(counting, *(int(d) for d in cell), ib, cells.axes, table, k, sync, counts[0], best[0], miss[0])
            total += COUNT[0]
            points += int(counts[0][OK])
    return total / points


class _Fields:
    """A record whose numbers count."""

    def __init__(self, record: Any) -> None:
        for name in record.dtype.names:
            value = record[name]
            setattr(self, name, Counted(float(value)) if isinstance(value, (float, np.floating)) else int(value))


class _Rows:
    def __init__(self, table: Any) -> None:
        self.table = table

    def __getitem__(self, index: Any) -> _Fields:
        return _Fields(self.table[index])


if __name__ == "__main__":
    print(count())
