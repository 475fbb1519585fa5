"""Rail-only network (arXiv 2307.12169): one separate Clos per rail, no spine between rails.

GPUs of different rails and domains talk through the HB domain: one NVLink hop to the local GPU on the destination's rail.
"""

from __future__ import annotations

import math

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory, no_network
from costmodels.fabrics.clos import ClosShape, clos, clos_inventory, clos_reach
from costmodels.types import Network


class RailOnly(Fabric):
    """K networks of N/K endpoints each, of one, two or three tiers by size. Table II of the paper (K = 256):

    >>> row = FabricInputs(gpus=32768, hb_size=256, radix=128)
    >>> FABRIC.inventory(row)[:3]
    (1, 256, 65536)
    """

    name = "rail-only"
    description = "Rail-only: a separate network per rail; other pairs relay through the HB domain"
    rail_tiers: int | None = None

    def shape(self, inputs: FabricInputs) -> ClosShape:
        """The network of one rail."""
        endpoints = math.ceil(inputs.gpus / self.domain(inputs))
        try:
            return clos(endpoints, inputs.radix, inputs.oversubscription, tiers=self.rail_tiers)
        except ValueError as error:
            raise ValueError(f"a rail has {endpoints:,} GPUs: {error}") from None

    def build_network(self, inputs: FabricInputs) -> Network:
        shape = self.shape(inputs)
        rails = self.domain(inputs)
        reach = clos_reach(shape, inputs, rails)
        return self.make_network(inputs, any_to_any=False, reach=reach._replace(pod_gpus=reach.pod_gpus * rails))

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        """As many rails share a single-tier switch as fit, each cut off from the others (as Table II counts)."""
        shape = self.shape(inputs)
        rails = self.domain(inputs)
        endpoints = math.ceil(inputs.gpus / rails)
        if endpoints == 1:
            return no_network(shape.max_endpoints * rails)
        bill = clos_inventory(shape, inputs.radix, inputs.gpus, rails)
        if shape.tiers > 1:
            return bill
        switches = math.ceil(rails / (inputs.radix // endpoints))
        return bill._replace(switches=switches, switch_ports=switches * inputs.radix, tier_switches=(switches,))


FABRIC = RailOnly()
