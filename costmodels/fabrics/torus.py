"""Two-dimensional torus of boards, without switches (the baseline of arXiv 2209.01346).

Board edges are joined to the neighbouring boards'. With uniform traffic the wrap-around bisection limits the rate: on an X x Y
grid of boards of r x c GPUs to 2 / (c X) of injection across and 2 / (r Y) down, whichever is less.
"""

from __future__ import annotations

from costmodels.fabrics.base import FabricInputs, Inventory, Reach
from costmodels.fabrics.boards import BoardFabric
from costmodels.types import Network


class Torus(BoardFabric):
    """Neighbour links only; distant pairs route through GPUs.

    >>> FABRIC.inventory(FabricInputs(gpus=1024, hb_size=4)).links
    1024
    """

    name = "torus"
    description = "2D torus of boards: no switches, neighbour links only"

    def build_network(self, inputs: FabricInputs) -> Network:
        grid = self.grid(inputs)
        share = min(1.0, 2 / (grid.columns * grid.across), 2 / (grid.rows * grid.down))
        rate = inputs.nic_Bps * share
        return self.make_network(inputs, any_to_any=True, reach=Reach(grid.board_gpus, inputs.gpus, rate, rate))

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        """One cable per pair of facing edge ports; a row or column of one board has none."""
        grid = self.grid(inputs)
        per_board = (grid.rows if grid.across > 1 else 0) + (grid.columns if grid.down > 1 else 0)
        links = grid.planes * grid.boards * per_board
        return Inventory(0, 0, 2 * links, links, inputs.gpus, 0, 0, links, 0, (), grid.planes)


FABRIC = Torus()
