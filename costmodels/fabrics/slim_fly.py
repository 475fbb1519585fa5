"""Slim Fly: switches in a graph of diameter two (Besta and Hoefler, SC 2014), counted as in arXiv 2505.09343, Table 3.

For q = 4w + d with d in -1, 0, 1: 2 q^2 switches of network degree kn = (3q - d)/2, p = ceil(kn/2) GPUs each. A graph of this
kind is known for prime powers q only; the count is taken for every q, as the cited table does with q = 28.
"""

from __future__ import annotations

from typing import NamedTuple

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory, Reach, tiered
from costmodels.types import Network


class SlimFlyShape(NamedTuple):
    """Parameter q, network degree, GPUs per switch."""

    q: int
    degree: int
    hosts: int

    @property
    def gpus(self) -> int:
        """GPUs of the whole graph."""
        return 2 * self.q**2 * self.hosts


def shapes(radix: int) -> list[SlimFlyShape]:
    """All Slim Fly shapes that switches of this radix allow, smallest first.

    >>> shapes(64)[-1], shapes(64)[-1].gpus
    (SlimFlyShape(q=28, degree=42, hosts=21), 32928)
    """
    found = []
    for q in range(3, radix):
        d = {0: 0, 1: 1, 3: -1}.get(q % 4)
        if d is None:
            continue
        degree = (3 * q - d) // 2
        hosts = (degree + 1) // 2
        if degree + hosts <= radix:
            found.append(SlimFlyShape(q, degree, hosts))
    return found


class SlimFly(Fabric):
    """Any-to-any within two switch hops; rates assume adaptive routing of balanced traffic.

    >>> bill = FABRIC.inventory(FabricInputs(gpus=32928))
    >>> bill.switches, bill.switch_links
    (1568, 32928)
    """

    name = "slim-fly"
    description = "Slim Fly: a direct graph of switches with diameter two"
    rail_wired = False

    def shape(self, inputs: FabricInputs) -> SlimFlyShape:
        """The smallest graph that holds the cluster."""
        found = next((s for s in shapes(inputs.radix) if s.gpus >= inputs.gpus), None)
        if found is None:
            most = max((s.gpus for s in shapes(inputs.radix)), default=0)
            enough = next((k for k in range(5, 4097) if any(s.gpus >= inputs.gpus for s in shapes(k)[-1:])), None)
            advice = f"; the smallest switch_radix that works is {enough}" if enough else ""
            raise ValueError(f"slim-fly with {inputs.radix}-port switches reaches {most:,} GPUs, not {inputs.gpus:,}{advice}")
        return found

    def build_network(self, inputs: FabricInputs) -> Network:
        hosts = self.shape(inputs).hosts
        return self.make_network(
            inputs, any_to_any=True, reach=Reach(hosts, inputs.gpus, inputs.nic_Bps, inputs.nic_Bps)
        )

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        shape = self.shape(inputs)
        most = max(s.gpus for s in shapes(inputs.radix))
        return tiered((2 * shape.q**2,), inputs.radix, inputs.gpus, shape.q**2 * shape.degree, most)


FABRIC = SlimFly()
