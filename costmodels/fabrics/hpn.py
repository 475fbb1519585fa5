"""Alibaba HPN 7.0 (SIGCOMM 2024, doi 10.1145/3651890.3672265): dual-ToR, dual-plane, rail-wired segments, 15:1 to the core.

Each NIC has two 200G ports to two ToRs in two planes. A 51.2T ToR has 128 such ports down and 60 x 400G up; an aggregation
switch has 120 x 400G down (to every ToR of its plane in the pod) and 8 up. With 8 rails a pod has 15 segments of 1,024 GPUs.
Switches are fixed, so the cluster's `switch_radix` is not used; a switch counts as 128 ports of 400G.
"""

from __future__ import annotations

import math

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory, Reach, no_network, tiered
from costmodels.types import Network

SWITCH_PORTS = 128  # 400G ports of a 51.2T switch
TOR_DOWN = 128  # 200G ports: NICs of one rail in a segment
TOR_UP = 60  # 400G ports: one to each aggregation switch of the plane
AGG_DOWN = 120
AGG_UP = 8
PLANES = 2
TOR_RATIO = TOR_DOWN * 200 / (TOR_UP * 400)


class Hpn(Fabric):
    """Any-to-any pods of 15,360 GPUs (8 rails); 240 ToRs and 120 aggregation switches each.

    >>> FABRIC.inventory(FabricInputs(gpus=15360)).tier_switches
    (240, 120)
    """

    name = "hpn"
    description = "Alibaba HPN 7.0: dual-plane, dual-ToR, pods of 15,360 GPUs, 15:1 to the core"
    transport = "roce"
    dual_homed = True

    def segment_gpus(self, inputs: FabricInputs) -> int:
        """GPUs under one set of ToRs."""
        return TOR_DOWN * self.domain(inputs)

    def pod_segments(self, inputs: FabricInputs) -> int:
        """Segments of a pod: an aggregation switch has a link to each ToR of its plane."""
        segments = AGG_DOWN // self.domain(inputs)
        if segments < 1:
            raise ValueError(f"{self.name} carries at most {AGG_DOWN} rails, not {self.domain(inputs)}")
        return segments

    def build_network(self, inputs: FabricInputs) -> Network:
        segment = self.segment_gpus(inputs)
        pod_Bps = inputs.nic_Bps / TOR_RATIO
        reach = Reach(segment, segment * self.pod_segments(inputs), pod_Bps, pod_Bps * AGG_UP / AGG_DOWN)
        return self.make_network(inputs, any_to_any=True, reach=reach)

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        """Every started segment has all its ToRs and every started pod all its aggregation switches."""
        rails = self.domain(inputs)
        if rails == inputs.gpus:
            return no_network(self.segment_gpus(inputs) * self.pod_segments(inputs) * SWITCH_PORTS)
        segments = math.ceil(inputs.gpus / self.segment_gpus(inputs))
        pods = math.ceil(segments / self.pod_segments(inputs))
        tors = segments * rails * PLANES
        aggs = TOR_UP * PLANES * pods if segments > 1 else 0
        core_links = aggs * AGG_UP if pods > 1 else 0
        links = (tors * TOR_UP if segments > 1 else 0) + core_links
        most = self.segment_gpus(inputs) * self.pod_segments(inputs) * SWITCH_PORTS
        tiers = (tors, aggs, math.ceil(core_links / SWITCH_PORTS))
        return tiered(tiers, SWITCH_PORTS, PLANES * inputs.gpus, links, most, PLANES)


FABRIC = Hpn()
