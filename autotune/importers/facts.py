"""What the parsers find out, before it becomes a cluster file."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Nic:
    """One network port of a host. `Gbps` is 0 when the source does not say."""

    name: str
    device: str = ""  # as NCCL_IB_HCA names it, e.g. mlx5_0
    Gbps: float = 0.0
    rate_source: str = ""


@dataclass
class Host:
    """One machine: its GPUs, the NVLinks between them, and its NICs with their distance to each GPU."""

    source: str
    gpus: int = 0
    product: str = ""  # the driver's or the scheduler's name of the GPU; empty when unknown
    product_source: str = ""
    memory_MiB: float = 0.0
    links: list[list[int]] = field(default_factory=list)  # NVLinks between each pair; empty when unknown
    switch_links: int = 0  # NVLinks of one GPU into NVSwitches, where the source shows switches
    nvlink_seen: bool = False
    nvlink_told: bool = True  # False: the source is silent on NVLink rather than showing that there is none
    nics: list[Nic] = field(default_factory=list)
    nics_told: bool = True
    near: list[list[str]] = field(default_factory=list)  # GPU x NIC: PIX, PXB, PHB, NODE or SYS
    whole: bool = True  # False: the source shows a part of the machine
    notes: list[str] = field(default_factory=list)


@dataclass
class Topology:
    """What a scheduler knows of the network: nodes and how switches group them."""

    source: str
    nodes: list[str] = field(default_factory=list)
    groups: dict[str, list[str]] = field(default_factory=dict)  # leaf switch or block -> nodes
    kind: str = "flat"  # tree | block | flat
    tiers: int = 0
    oversubscription: float = 0.0  # 0 = not known
    block_sizes: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Inventory:
    """GPUs as a scheduler lists them."""

    source: str
    nodes: list[str] = field(default_factory=list)
    gpus_per_node: int = 0
    product: str = ""
    notes: list[str] = field(default_factory=list)
