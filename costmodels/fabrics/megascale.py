"""ByteDance MegaScale (arXiv 2402.15627, section 3.6): rail-wired 1:1 Clos whose leaf ports are split in two.

64-port 400G switches, 32 down and 32 up at each layer; a ToR splits each port down into two of 200G, so 64 servers
share a set of ToRs. NICs run at half the port rate. RoCE.
"""

from __future__ import annotations

import math

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory
from costmodels.fabrics.clos import clos, clos_inventory, clos_reach
from costmodels.types import Network

SPLIT = 2  # NICs per leaf port


class MegaScale(Fabric):
    """Up to three layers by size; links between switches run at twice the NIC rate, so there are half as many.

    >>> FABRIC.network(FabricInputs(gpus=12288, nic_Bps=25e9)).leaf_gpus
    512
    """

    name = "megascale"
    description = "ByteDance MegaScale: 1:1 Clos, rail-wired, leaf ports split for NICs of half their rate"
    transport = "roce"

    def fixed(self, inputs: FabricInputs) -> FabricInputs:
        return inputs._replace(oversubscription=1.0)

    def build_network(self, inputs: FabricInputs) -> Network:
        shape = clos(math.ceil(inputs.gpus / SPLIT), inputs.radix)
        reach = clos_reach(shape, inputs, self.domain(inputs))
        reach = reach._replace(leaf_gpus=reach.leaf_gpus * SPLIT, pod_gpus=reach.pod_gpus * SPLIT)
        return self.make_network(inputs, any_to_any=True, reach=reach)

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        shape = clos(math.ceil(inputs.gpus / SPLIT), inputs.radix)
        return clos_inventory(shape, inputs.radix, inputs.gpus, max_gpus=shape.max_endpoints * SPLIT)


FABRIC = MegaScale()
