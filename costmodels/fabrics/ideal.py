"""The ideal machine: every GPU in one HB domain. A bound, not a product; it has no network to buy."""

from __future__ import annotations

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory, everywhere, no_network
from costmodels.types import Network


class Ideal(Fabric):
    """K = N. The figure against which arXiv 2307.12169 measures its relative performance.

    >>> FABRIC.network(FabricInputs(gpus=1024, hb_size=8)).hb_size
    1024
    """

    name = "ideal"
    description = "All GPUs in one HB domain: the upper bound, no network to buy"
    rail_wired = False
    priced = False

    def fixed(self, inputs: FabricInputs) -> FabricInputs:
        return inputs._replace(hb_size=inputs.gpus, nic_Bps=inputs.hb_Bps)

    def build_network(self, inputs: FabricInputs) -> Network:
        return self.make_network(inputs, any_to_any=True, reach=everywhere(inputs))

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        return no_network(inputs.gpus)


FABRIC = Ideal()
