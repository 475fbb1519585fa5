"""The rail-only form of Alibaba HPN's second tier (SIGCOMM 2024, Table 4): 16 planes in place of 2, 122,880 GPUs in a pod.

An aggregation switch then meets one ToR per segment in place of eight, so a pod holds eight times the segments. The paper
kept the any-to-any form in production, for mixture-of-experts and multi-tenant traffic.
"""

from __future__ import annotations

import math

from costmodels.fabrics.base import FabricInputs, Inventory, Reach, no_network, tiered
from costmodels.fabrics.hpn import AGG_DOWN, PLANES, SWITCH_PORTS, TOR_RATIO, TOR_UP, Hpn
from costmodels.types import Network


class HpnRailOnly(Hpn):
    """One pod of 120 segments; no tier above it.

    >>> FABRIC.inventory(FabricInputs(gpus=122880)).networks
    16
    """

    name = "hpn-rail-only"
    description = "Alibaba HPN with a rail-only second tier: one pod of up to 122,880 GPUs"

    def pod_segments(self, inputs: FabricInputs) -> int:
        return AGG_DOWN

    def build_network(self, inputs: FabricInputs) -> Network:
        self._fits(inputs)
        rate = inputs.nic_Bps / TOR_RATIO
        return self.make_network(inputs, any_to_any=False, reach=Reach(self.segment_gpus(inputs), inputs.gpus, rate, rate))

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        self._fits(inputs)
        rails = self.domain(inputs)
        most = self.segment_gpus(inputs) * AGG_DOWN
        if rails == inputs.gpus:
            return no_network(most)
        segments = math.ceil(inputs.gpus / self.segment_gpus(inputs))
        tors = segments * rails * PLANES
        aggs, links = (TOR_UP * PLANES * rails, tors * TOR_UP) if segments > 1 else (0, 0)
        return tiered((tors, aggs), SWITCH_PORTS, PLANES * inputs.gpus, links, most, PLANES * rails)

    def _fits(self, inputs: FabricInputs) -> None:
        most = self.segment_gpus(inputs) * AGG_DOWN
        if inputs.gpus > most:
            raise ValueError(f"{self.name} has no tier above its pod of {most:,} GPUs; {inputs.gpus:,} were asked")


FABRIC = HpnRailOnly()
