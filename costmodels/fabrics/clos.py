"""Counting rules of folded-Clos (leaf-spine) networks of equal switches, one to three tiers.

Symbols: n endpoints, k ports per switch, o oversubscription (down : up). With o = 1 and sizes that fill the switches:
one tier n/k switches, two 3n/k, three 5n/k; links between switches 0, n, 2n; reach k, k^2/2, k^3/4. They reproduce
NVIDIA's DGX SuperPOD tables and Table 3 of arXiv 2505.09343.

Whole numbers: a leaf joins every spine with the same number of links, so the number of spines divides the leaf's
uplinks. `even=False` drops that rule and only packs ports (arXiv 2209.01346 counts so).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from costmodels.fabrics.base import FabricInputs, Inventory, Reach, everywhere, tiered

LARGEST_RADIX = 4096


class ClosShape(NamedTuple):
    """One Clos network. `down` and `up` are the ports of a leaf, `pod_leaves` the leaves under one set of spines."""

    tiers: int
    tier_switches: tuple[int, ...]
    switch_links: int
    max_endpoints: int
    down: int
    up: int
    pod_leaves: int


def split_ports(radix: int, ratio: float) -> tuple[int, int]:
    """Down and up ports of a switch with at most `ratio` down ports per up port.

    >>> split_ports(64, 1), split_ports(64, 2), split_ports(64, 7)
    ((32, 32), (42, 22), (56, 8))
    """
    down = min(radix - 1, max(1, math.floor(radix * ratio / (1 + ratio) + 1e-9)))
    return down, radix - down


def upper_switches(lower: int, uplinks: int, radix: int, even: bool = True) -> int:
    """Switches above `lower` switches with `uplinks` uplinks each.

    With `even`, every lower switch has the same number of links to every upper one.

    >>> upper_switches(64, 32, 64), upper_switches(24, 32, 64), upper_switches(24, 32, 64, even=False)
    (32, 16, 12)
    """
    needed = math.ceil(lower * uplinks / radix)
    if not even:
        return needed
    return next(s for s in range(needed, uplinks + 1) if uplinks % s == 0)


def reachable(radix: int, ratio: float, tiers: int, taper: str = "top") -> int:
    """The most endpoints of a Clos of `tiers` tiers.

    >>> [reachable(64, 1, t) for t in (1, 2, 3)]
    [64, 2048, 65536]
    """
    down1, down2 = _downs(radix, ratio, tiers, taper)
    return (radix, down1 * radix, down1 * down2 * radix)[tiers - 1]


def _downs(radix: int, ratio: float, tiers: int, taper: str) -> tuple[int, int]:
    """Down ports of a leaf and of a spine. The ratio applies at the top tier, or at the leaf with taper='leaf'."""
    at_leaf = tiers < 3 or taper == "leaf"
    return split_ports(radix, ratio if at_leaf else 1)[0], split_ports(radix, 1 if at_leaf else ratio)[0]


def clos(
    endpoints: int, radix: int, ratio: float = 1.0, *, tiers: int | None = None, taper: str = "top", even: bool = True
) -> ClosShape:
    """The smallest Clos for `endpoints` endpoints, or one of exactly `tiers` tiers.

    Raises ValueError, with the smallest radix that works, when three (or `tiers`) tiers do not reach.

    >>> clos(4096, 64).tier_switches, clos(2304, 144).tier_switches
    ((128, 128, 64), (32, 18))
    """
    choices = (tiers,) if tiers else (1, 2, 3)
    chosen = next((t for t in choices if reachable(radix, ratio, t, taper) >= endpoints), None)
    if chosen is None:
        raise ValueError(_too_small(endpoints, radix, ratio, choices[-1], taper))
    down, spine_down = _downs(radix, ratio, chosen, taper)
    up, spine_up = radix - down, radix - spine_down
    maximum = reachable(radix, ratio, tiers or 3, taper)
    if chosen == 1:
        return ClosShape(1, (1,), 0, maximum, radix, 0, 1)
    leaves = math.ceil(endpoints / down)
    if chosen == 2:
        spines = upper_switches(leaves, up, radix, even)
        return ClosShape(2, (leaves, spines), leaves * up, maximum, down, up, leaves)
    if not even:
        uplinks = leaves * up
        spines = math.ceil(uplinks / spine_down)
        core_links = math.ceil(uplinks * spine_up / spine_down)
        return ClosShape(
            3, (leaves, spines, math.ceil(core_links / radix)), uplinks + core_links, maximum, down, up, spine_down
        )
    return _three_tiers(leaves, down, up, spine_down, spine_up, radix, maximum)


def _three_tiers(
    leaves: int, down: int, up: int, spine_down: int, spine_up: int, radix: int, maximum: int
) -> ClosShape:
    """Equal pods of at most `spine_down` leaves; spine s of every pod meets the same cores."""
    pods = math.ceil(leaves / spine_down)
    pod_leaves = math.ceil(leaves / pods)
    spines = upper_switches(pod_leaves, up, spine_down)  # of one pod
    per_spine = math.ceil(pod_leaves * up / spines * spine_up / spine_down)  # uplinks
    cores = spines * upper_switches(pods, per_spine, radix)
    links = leaves * up + pods * spines * per_spine
    return ClosShape(3, (leaves, pods * spines, cores), links, maximum, down, up, pod_leaves)


def _too_small(endpoints: int, radix: int, ratio: float, tiers: int, taper: str) -> str:
    most = reachable(radix, ratio, tiers, taper)
    enough = next((k for k in range(radix + 1, LARGEST_RADIX + 1) if reachable(k, ratio, tiers, taper) >= endpoints), None)
    advice = f"the smallest switch_radix that works is {enough}" if enough else f"no switch of {LARGEST_RADIX} ports is enough"
    return f"{tiers} tiers of {radix}-port switches reach {most:,} endpoints, not {endpoints:,}; {advice}"


def clos_inventory(shape: ClosShape, radix: int, host_links: int, copies: int = 1, max_gpus: int = 0) -> Inventory:
    """The bill of materials of `copies` equal networks with `host_links` host links in all."""
    return tiered(
        tuple(s * copies for s in shape.tier_switches),
        radix,
        host_links,
        shape.switch_links * copies,
        max_gpus or shape.max_endpoints * copies,
        copies,
    )


def clos_reach(shape: ClosShape, inputs: FabricInputs, rails: int, taper: str = "top") -> Reach:
    """Tiers in GPUs. `rails`: GPUs of one domain that sit on different leaves (1 without rail wiring).

    The guaranteed rate beyond an oversubscribed tier is nic / o with everybody sending; the port split never gives less.
    """
    everyone = inputs.gpus
    tapered = inputs.nic_Bps / inputs.oversubscription
    if shape.tiers == 1:
        return everywhere(inputs)
    leaf = shape.down * rails
    if shape.tiers == 2:
        return Reach(leaf, everyone, tapered, tapered)
    return Reach(leaf, shape.down * shape.pod_leaves, tapered if taper == "leaf" else inputs.nic_Bps, tapered)
