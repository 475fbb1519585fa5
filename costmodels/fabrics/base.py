"""What a network fabric is: what it is asked, what it answers, and the base class of all fabrics.

A fabric turns the hardware figures of a cluster into the numbers the collective model needs (`network`) and into a
bill of materials (`inventory`). One fabric is one module of this package that defines `FABRIC`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from costmodels.types import Network

NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})

# One-way latency of a 64-byte message, host to host: through one switch, and what two more switches add.
# arXiv 2505.09343 (ISCA 2025), Table 5: InfiniBand 2.8 / 3.7 us, RoCE 3.6 / 5.6 us, NVLink 3.33 us.
LATENCY_S = {"ib": 2.8e-6, "roce": 3.6e-6}
TIER_LATENCY_S = {"ib": 0.9e-6, "roce": 2.0e-6}
HB_LATENCY_S = 3.3e-6


class FabricInputs(NamedTuple):
    """What a fabric is asked. Bandwidth per GPU and one direction, bytes/s; latencies in seconds.

    `None` means the fabric's own default. `options` are the settings of one fabric (see `Fabric.options`).

    >>> FabricInputs(gpus=1024).nic_Bps
    50000000000.0
    """

    gpus: int
    hb_size: int = 8
    hb_Bps: float = 450e9
    nic_Bps: float = 50e9
    radix: int = 64  # ports of every switch
    oversubscription: float = 1.0  # down : up
    nic_efficiency: float | None = None  # large-message share of the NIC rate
    latency_s: float | None = None  # one step through one switch
    hb_latency_s: float | None = None
    mesh: bool = False
    nvls: bool = False
    options: Mapping[str, Any] = NO_OPTIONS


class Inventory(NamedTuple):
    """The bill of materials of a network. Counts; money and watts follow from a price set (`costmodels.fabrics.prices`)."""

    tiers: int
    switches: int
    transceivers: int  # two per link: every link counted as optical
    links: int  # host links and links between switches
    max_gpus: int  # the most GPUs this shape reaches with these switches
    switch_ports: int  # ports bought, used or not
    host_links: int
    switch_links: int
    copper_links: int  # links short enough for passive copper, for price sets that tell them apart
    tier_switches: tuple[int, ...]  # switches per tier, from the GPUs upwards
    networks: int  # separate networks: 1, or one per rail or plane
    optical_ports: int = 0  # ports of optical circuit switches, counted in `switches` but not in `switch_ports`


def no_network(max_gpus: int) -> Inventory:
    """The empty bill of materials.

    >>> no_network(8).switches
    0
    """
    return Inventory(0, 0, 0, 0, max_gpus, 0, 0, 0, 0, (), 0)


def tiered(
    tier_switches: tuple[int, ...], radix: int, host_links: int, switch_links: int, max_gpus: int, networks: int = 1
) -> Inventory:
    """The bill of materials of packet switches of `radix` ports, every host link short.

    >>> tiered((8, 4), 64, 256, 256, 2048).switch_ports
    768
    """
    tiers = tuple(s for s in tier_switches if s)
    switches, links = sum(tiers), host_links + switch_links
    return Inventory(
        tiers=len(tiers),
        switches=switches,
        transceivers=2 * links,
        links=links,
        max_gpus=max_gpus,
        switch_ports=switches * radix,
        host_links=host_links,
        switch_links=switch_links,
        copper_links=host_links,
        tier_switches=tiers,
        networks=networks,
    )


class Fabric(ABC):
    """A network fabric. Stateless; subclasses are instantiated once, as `FABRIC` in their module."""

    name: str = ""
    description: str = ""
    transport: str = "ib"
    nic_efficiency: float = 0.85
    rail_wired: bool = True  # a leaf serves one local index of many domains, not whole nodes
    dual_homed: bool = False  # each NIC is on two leaves
    optical: bool = False  # circuit switches
    priced: bool = True  # False: a thought experiment, nothing to buy
    options: Mapping[str, str] = NO_OPTIONS  # accepted options and what each means

    def network(self, inputs: FabricInputs) -> Network:
        """The fabric as a collective sees it. Raises ValueError when it cannot be built."""
        self.check(inputs)
        return self.build_network(self.fixed(inputs))

    def inventory(self, inputs: FabricInputs) -> Inventory:
        """Switches, links and transceivers. Raises ValueError when it cannot be built."""
        self.check(inputs)
        return self.build_inventory(self.fixed(inputs))

    def fixed(self, inputs: FabricInputs) -> FabricInputs:
        """The inputs with whatever this fabric does not leave open (its ratio, its domain) put in."""
        return inputs

    @abstractmethod
    def build_network(self, inputs: FabricInputs) -> Network:
        """`network` of checked inputs."""

    @abstractmethod
    def build_inventory(self, inputs: FabricInputs) -> Inventory:
        """`inventory` of checked inputs."""

    def domain(self, inputs: FabricInputs) -> int:
        """HB-domain size, never above the cluster."""
        return min(inputs.hb_size, inputs.gpus)

    def check(self, inputs: FabricInputs) -> None:
        """Refuse numbers that mean nothing and options this fabric does not have."""
        for key in ("gpus", "hb_size"):
            if getattr(inputs, key) < 1:
                raise ValueError(f"{key} must be at least 1, got {getattr(inputs, key)}")
        for key in ("hb_Bps", "nic_Bps"):
            if not getattr(inputs, key) > 0:
                raise ValueError(f"{key} must be positive, got {getattr(inputs, key)}")
        if inputs.radix < 2:
            raise ValueError(f"a switch needs at least 2 ports, got {inputs.radix}")
        if not 1 <= inputs.oversubscription < float("inf"):
            raise ValueError(f"oversubscription must be at least 1, got {inputs.oversubscription}")
        known = {"transport": "", **self.options}
        for key in inputs.options:
            if key not in known:
                raise ValueError(f"fabric {self.name} has no option '{key}'; it knows {', '.join(sorted(known))}")
        if inputs.options.get("transport", "ib") not in LATENCY_S:
            raise ValueError(f"transport must be one of {', '.join(LATENCY_S)}, got {inputs.options['transport']!r}")

    def integer_option(self, inputs: FabricInputs, key: str, default: int) -> int:
        """A whole-number option of at least 1."""
        value = inputs.options.get(key, default)
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise ValueError(f"option {key} of fabric {self.name} must be a whole number of at least 1, got {value!r}")
        return int(value)

    def make_network(self, inputs: FabricInputs, *, any_to_any: bool, reach: Reach) -> Network:
        """A `Network` from the tiers a fabric reaches, with this fabric's defaults filled in."""
        transport = str(inputs.options.get("transport", self.transport))
        gpus = inputs.gpus
        return Network(
            gpus=gpus,
            hb_size=self.domain(inputs),
            hb_Bps=inputs.hb_Bps,
            hb_latency_s=HB_LATENCY_S if inputs.hb_latency_s is None else inputs.hb_latency_s,
            mesh=int(inputs.mesh),
            nvls=int(inputs.nvls),
            nic_Bps=inputs.nic_Bps,
            nic_eff=self.nic_efficiency if inputs.nic_efficiency is None else inputs.nic_efficiency,
            latency_s=LATENCY_S[transport] if inputs.latency_s is None else inputs.latency_s,
            hop_latency_s=TIER_LATENCY_S[transport],
            any_to_any=int(any_to_any),
            leaf_gpus=min(gpus, reach.leaf_gpus),
            pod_gpus=min(gpus, max(reach.leaf_gpus, reach.pod_gpus)),
            pod_Bps=reach.pod_Bps,
            core_Bps=reach.core_Bps,
        )


class Reach(NamedTuple):
    """How far each tier reaches (consecutive GPUs, rails counted together) and the rate beyond it with all sending."""

    leaf_gpus: int
    pod_gpus: int
    pod_Bps: float
    core_Bps: float


def everywhere(inputs: FabricInputs) -> Reach:
    """Every GPU at the NIC rate, in one tier."""
    return Reach(inputs.gpus, inputs.gpus, inputs.nic_Bps, inputs.nic_Bps)
