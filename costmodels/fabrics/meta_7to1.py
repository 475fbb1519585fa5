"""Meta's Llama 3 training cluster (arXiv 2407.21783, section 3.3.1): full rate in a pod of 3,072 GPUs, 7:1 between pods.

A rack of 16 GPUs in two servers sits under one top-of-rack switch, so leaves are not rail-wired. 192 racks form a pod, eight
pods the cluster. The counts of switches above the racks are not published; they are derived here from the ratio and the
switch radix. RoCE.
"""

from __future__ import annotations

import math

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory, Reach, tiered
from costmodels.fabrics.clos import split_ports
from costmodels.types import Network

RACK_GPUS = 16
POD_RACKS = 192
PODS = 8
RATIO = 7.0


class Meta7To1(Fabric):
    """Racks of 16, pods of 3,072, at most 24,576 GPUs.

    >>> FABRIC.inventory(FabricInputs(gpus=24576)).max_gpus
    24576
    """

    name = "meta-7to1"
    description = "Meta Llama 3 cluster: pods of 3,072 GPUs at full rate, 7:1 between pods"
    transport = "roce"
    rail_wired = False

    def build_network(self, inputs: FabricInputs) -> Network:
        self._fits(inputs)
        pod = RACK_GPUS * POD_RACKS
        return self.make_network(inputs, any_to_any=True, reach=Reach(RACK_GPUS, pod, inputs.nic_Bps, inputs.nic_Bps / RATIO))

    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        self._fits(inputs)
        racks = math.ceil(inputs.gpus / RACK_GPUS)
        pods = math.ceil(racks / POD_RACKS)
        pod_links = RACK_GPUS * math.ceil(racks / pods)
        down, _ = split_ports(inputs.radix, RATIO)
        spines = pods * math.ceil(pod_links / (inputs.radix if pods == 1 else down)) if racks > 1 else 0
        core_links = pods * math.ceil(pod_links / RATIO) if pods > 1 else 0
        rack_links = RACK_GPUS * racks if racks > 1 else 0
        tiers = (racks, spines, math.ceil(core_links / inputs.radix))
        return tiered(tiers, inputs.radix, inputs.gpus, rack_links + core_links, RACK_GPUS * POD_RACKS * PODS)

    def _fits(self, inputs: FabricInputs) -> None:
        most = RACK_GPUS * POD_RACKS * PODS
        if inputs.gpus > most:
            raise ValueError(f"{self.name} has {PODS} pods of {RACK_GPUS * POD_RACKS:,} GPUs = {most:,}, not {inputs.gpus:,}")
        if inputs.radix < 2 * RACK_GPUS:
            raise ValueError(f"a rack switch of {self.name} needs 32 ports; the smallest switch_radix that works is 32")


FABRIC = Meta7To1()
