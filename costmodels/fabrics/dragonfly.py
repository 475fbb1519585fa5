"""Dragonfly (Kim et al., ISCA 2008): groups of fully joined switches, groups fully joined, balanced p = h = a/2.

Counted as in arXiv 2505.09343, Table 3: g a switches, g a (a-1)/2 links inside groups and g a h / 2 between them.
"""

from __future__ import annotations

import math

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory, Reach, tiered
from costmodels.types import Network


class Dragonfly(Fabric):
    """Any-to-any; rates assume adaptive routing of balanced traffic.

    >>> bill = FABRIC.inventory(FabricInputs(gpus=261632))
    >>> bill.switches, bill.switch_links
    (16352, 384272)
    """

    name = "dragonfly"
    description = "Dragonfly: fully joined groups of switches, groups joined by global links"
    rail_wired = False

    def groups(self, inputs: FabricInputs) -> tuple[int, int]:
        """Hosts per switch p and groups g. A switch has p hosts, 2p-1 links in its group and p out of it."""
        hosts = inputs.radix // 4
        most = self.most(inputs.radix)
        if inputs.gpus > most:
            enough = next((k for k in range(4, 4097, 4) if self.most(k) >= inputs.gpus), None)
            advice = f"; the smallest switch_radix that works is {enough}" if enough else ""
            raise ValueError(f"dragonfly with {inputs.radix}-port switches reaches {most:,} GPUs, not {inputs.gpus:,}{advice}")
        return hosts, math.ceil(inputs.gpus / (2 * hosts * hosts))

    def most(self, radix: int) -> int:
        """GPUs of the balanced maximum, g = a h + 1."""
        hosts = radix // 4
        return (2 * hosts * hosts + 1) * 2 * hosts * hosts

    def build_network(self, inputs: FabricInputs) -> Network:
        hosts, _ = self.groups(inputs)
        reach = Reach(hosts, 2 * hosts * hosts, inputs.nic_Bps, inputs.nic_Bps)
        return self.make_network(inputs, any_to_any=True, reach=reach)

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        hosts, groups = self.groups(inputs)
        routers = 2 * hosts
        inside = groups * routers * (routers - 1) // 2
        between = groups * routers * hosts // 2 if groups > 1 else 0
        return tiered((groups * routers,), inputs.radix, inputs.gpus, inside + between, self.most(inputs.radix))


FABRIC = Dragonfly()
