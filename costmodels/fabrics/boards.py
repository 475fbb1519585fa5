"""Grids of boards: GPUs on a board form a small mesh, board edges lead to other boards (HammingMesh, torus).

Every GPU has four ports (north, east, south, west) in each plane. A board is `rows` x `columns` GPUs and counts as the HB
domain, its links taken as given by the cluster.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from costmodels.fabrics.base import Fabric, FabricInputs

DIRECTIONS = 4


class BoardGrid(NamedTuple):
    """`down` x `across` boards of `rows` x `columns` GPUs, in `planes` planes."""

    rows: int
    columns: int
    down: int
    across: int
    planes: int

    @property
    def boards(self) -> int:
        """Boards of the grid."""
        return self.down * self.across

    @property
    def board_gpus(self) -> int:
        """GPUs of a board."""
        return self.rows * self.columns


def near_square(n: int) -> tuple[int, int]:
    """The two factors of n that lie closest together, smaller first.

    >>> near_square(8), near_square(16), near_square(7)
    ((2, 4), (4, 4), (1, 7))
    """
    small = next(f for f in range(math.isqrt(n), 0, -1) if n % f == 0)
    return small, n // small


class BoardFabric(Fabric):
    """Options and grid shared by the fabrics of boards."""

    rail_wired = False
    options = {
        "board_rows": "GPUs down a board (default: the HB domain as near to square as it goes)",
        "board_columns": "GPUs across a board",
        "grid_columns": "boards across the grid (default: near square)",
        "planes": "copies of the network, four ports per GPU in each (default 1)",
    }

    def grid(self, inputs: FabricInputs) -> BoardGrid:
        """The grid that holds the cluster. Raises ValueError unless boards are whole HB domains."""
        size = self.domain(inputs)
        square = near_square(size)
        rows = self.integer_option(inputs, "board_rows", square[0])
        columns = self.integer_option(inputs, "board_columns", size // rows if size % rows == 0 else square[1])
        if rows * columns != size:
            raise ValueError(f"a board of {rows} x {columns} GPUs is not the HB domain of {size}")
        boards = math.ceil(inputs.gpus / size)
        across = self.integer_option(inputs, "grid_columns", math.ceil(math.sqrt(boards)))
        return BoardGrid(rows, columns, math.ceil(boards / across), across, self.integer_option(inputs, "planes", 1))
