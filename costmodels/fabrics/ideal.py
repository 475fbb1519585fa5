"""The ideal machine: every GPU in one HB domain. A bound, not a product; it has no network to buy."""

from __future__ import annotations

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory, Reach
from costmodels.types import Network


class Ideal(Fabric):
    """K = N. The figure against which arXiv 2307.12169 measures its relative performance.

    >>> FABRIC.network(FabricInputs(gpus=1024, hb_size=8)).hb_size
    1024
    """

    name = "ideal"
    description = "All GPUs in one HB domain: the upper bound, no network to buy"

    def network(self, inputs: FabricInputs) -> Network:
        self.check(inputs)
        every = inputs._replace(nic_Bps=inputs.hb_Bps)
        reach = Reach(inputs.gpus, inputs.gpus, inputs.hb_Bps, inputs.hb_Bps)
        return self.make_network(every, any_to_any=True, reach=reach, hb_size=inputs.gpus)

    def inventory(self, inputs: FabricInputs) -> Inventory:
        self.check(inputs)
        return Inventory(0, 0, 0, 0, inputs.gpus, 0, 0, 0, 0, (), 0)


FABRIC = Ideal()
