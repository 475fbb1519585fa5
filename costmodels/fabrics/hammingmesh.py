"""HammingMesh (arXiv 2209.01346, SC 2022): boards of GPUs, board rows and columns joined by switched trees.

West and east edge ports of a row of boards go to row trees, north and south ports to column trees. One switch serves all GPU
lines of a board row if its 2 x lines x boards ports suffice, else one switch per line, else a two-level tree.
Global rate: a board sends through 2 (rows + columns) of its 4 rows columns ports, and a byte between boards that share
neither row nor column uses two of them: 1/(2a) of the injection rate for boards of a x a. Rings along rows and columns do
better than that; the model prices all traffic at the global rate.
"""

from __future__ import annotations

import math

from costmodels.fabrics.base import FabricInputs, Inventory, Reach
from costmodels.fabrics.boards import DIRECTIONS, BoardFabric
from costmodels.fabrics.clos import upper_switches
from costmodels.types import Network


def tree(lines: int, ends: int, radix: int) -> tuple[int, int, int]:
    """Switches, ports and internal links that join `lines` GPU lines with `ends` edge ports each.

    >>> tree(2, 32, 64), tree(4, 64, 64), tree(2, 128, 64)
    ((1, 64, 0), (4, 256, 0), (12, 256, 256))
    """
    ports = lines * ends
    if ports <= radix:
        return 1, ports, 0
    if ends <= radix:
        return math.ceil(lines / (radix // ends)), ports, 0
    leaves = math.ceil(ports / (radix // 2))
    if leaves > radix:
        raise ValueError(f"a two-level tree of {radix}-port switches joins {radix * radix // 2:,} ports, not {ports:,}")
    up = radix - radix // 2
    return leaves + upper_switches(leaves, up, radix), ports, leaves * up


class HammingMesh(BoardFabric):
    """Half of the cables between boards and switches are short (copper), half long; links inside trees are long.

    Hx2Mesh with 16 x 16 boards and four planes, as in Table II of the paper:

    >>> bill = FABRIC.inventory(FabricInputs(gpus=1024, hb_size=4, options={"planes": 4}))
    >>> bill.switches, bill.host_links
    (128, 8192)
    """

    name = "hammingmesh"
    description = "HammingMesh: boards of GPUs, rows and columns of boards joined by switches"

    def build_network(self, inputs: FabricInputs) -> Network:
        grid = self.grid(inputs)
        share = (grid.rows + grid.columns) / (DIRECTIONS * grid.rows * grid.columns)
        rate = inputs.nic_Bps * min(1.0, share)
        row = grid.across * grid.board_gpus
        return self.make_network(inputs, any_to_any=True, reach=Reach(grid.board_gpus, row, rate, rate))

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        grid = self.grid(inputs)
        row = tree(grid.rows, 2 * grid.across, inputs.radix)
        column = tree(grid.columns, 2 * grid.down, inputs.radix)
        switches, ports, internal = (
            grid.planes * (grid.down * r + grid.across * c) for r, c in zip(row, column, strict=True)
        )
        links = ports + internal
        most = (inputs.radix**2 // 4 // grid.rows) * (inputs.radix**2 // 4 // grid.columns) * grid.board_gpus
        return Inventory(
            tiers=2 if internal else 1,
            switches=switches,
            transceivers=2 * links,
            links=links,
            max_gpus=most,
            switch_ports=switches * inputs.radix,
            host_links=ports,
            switch_links=internal,
            copper_links=ports // 2,
            tier_switches=(switches,),
            networks=grid.planes,
        )


FABRIC = HammingMesh()
