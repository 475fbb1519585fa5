"""Rails of optical circuit switches in place of packet switches (arXiv 2507.08119, "Photonic Rails in ML Datacenters").

A circuit joins exactly two NIC ports. With two ports per NIC, each to its own optical switch, every process group along a
rail is a ring. Circuits are set up for one kind of group at a time and moved at phase boundaries (`rings` = 1), or stay and
share the NIC among that many kinds of groups. Only neighbours on a ring are joined: a group that needs all-to-all
across domains would have to forward, which is not priced; such plans come out too fast.
"""

from __future__ import annotations

import math

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory, Reach, no_network
from costmodels.types import Network

NIC_PORTS = 2


class OcsRails(Fabric):
    """A rail must fit one optical switch, so the reach is K x its ports.

    >>> bill = FABRIC.inventory(FabricInputs(gpus=512, radix=64))
    >>> bill.switches, bill.switch_ports, bill.optical_ports, bill.max_gpus
    (16, 0, 1024, 512)
    """

    name = "ocs-rails"
    description = "Rails of optical circuit switches: rings along a rail, no packet switch"
    optical = True
    options = {
        "ocs_ports": "ports of an optical switch (default: switch_radix)",
        "rings": "kinds of process groups that share the circuits at once (default 1: moved between phases)",
    }

    def ports(self, inputs: FabricInputs) -> int:
        """Ports of one optical switch; refuses a rail that does not fit."""
        ports = self.integer_option(inputs, "ocs_ports", inputs.radix)
        rail = math.ceil(inputs.gpus / self.domain(inputs))
        if rail > ports:
            raise ValueError(
                f"a rail of {rail:,} GPUs must fit one optical switch of {ports} ports; "
                f"the smallest switch_radix (or ocs_ports) that works is {rail}"
            )
        return ports

    def build_network(self, inputs: FabricInputs) -> Network:
        self.ports(inputs)
        rate = inputs.nic_Bps / self.integer_option(inputs, "rings", 1)
        return self.make_network(inputs, any_to_any=False, reach=Reach(self.domain(inputs), inputs.gpus, rate, rate))

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        """An optical switch takes as many rail planes as fit. Transceivers sit at the NICs only."""
        ports, rails = self.ports(inputs), self.domain(inputs)
        rail = math.ceil(inputs.gpus / rails)
        if rail == 1:
            return no_network(ports * rails)
        switches = math.ceil(rails * NIC_PORTS / (ports // rail))
        links = NIC_PORTS * inputs.gpus
        return Inventory(
            tiers=1,
            switches=switches,
            transceivers=links,
            links=links,
            max_gpus=ports * rails,
            switch_ports=0,
            host_links=links,
            switch_links=0,
            copper_links=0,
            tier_switches=(switches,),
            networks=rails * NIC_PORTS,
            optical_ports=switches * ports,
        )


FABRIC = OcsRails()
