"""Full fat tree without rail wiring: a leaf serves whole nodes. Oversubscription makes it a tapered Clos."""

from __future__ import annotations

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory
from costmodels.fabrics.clos import ClosShape, clos, clos_inventory, clos_reach
from costmodels.types import Network


class FatTree(Fabric):
    """Any-to-any Clos of one to three tiers. With radix k a leaf holds k/2 consecutive GPUs: 4 nodes of 8 at k = 64.

    `oversubscription` thins the links below the top tier (or above the leaves with `taper: leaf`).

    >>> FABRIC.inventory(FabricInputs(gpus=2048)).tier_switches
    (64, 32)
    """

    name = "fat-tree"
    description = "Fat tree (Clos), one to three tiers; a leaf serves whole nodes"
    rail_wired = False
    options = {
        "taper": "where oversubscription applies with three tiers: top (default) or leaf",
        "even_spines": "false: pack ports without equal links from each leaf to each spine",
        "planes": "parallel copies of the network, one NIC port of the GPU in each (default 1)",
    }

    def shape(self, inputs: FabricInputs) -> ClosShape:
        """The Clos of one plane."""
        even = bool(inputs.options.get("even_spines", True))
        return clos(inputs.gpus, inputs.radix, inputs.oversubscription, taper=self.taper(inputs), even=even)

    def taper(self, inputs: FabricInputs) -> str:
        """Where oversubscription applies."""
        taper = str(inputs.options.get("taper", "top"))
        if taper not in ("top", "leaf"):
            raise ValueError(f"option taper of fabric {self.name} must be top or leaf, got {taper!r}")
        return taper

    def build_network(self, inputs: FabricInputs) -> Network:
        shape = self.shape(inputs)
        rails = self.domain(inputs) if self.rail_wired else 1
        return self.make_network(inputs, any_to_any=True, reach=clos_reach(shape, inputs, rails, self.taper(inputs)))

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        shape = self.shape(inputs)
        planes = self.integer_option(inputs, "planes", 1)
        return clos_inventory(shape, inputs.radix, inputs.gpus * planes, planes, max_gpus=shape.max_endpoints)


FABRIC = FatTree()
