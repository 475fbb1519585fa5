"""Switches, transceivers, dollars and watts of a Clos and of a rail-only network.

This is the inventory behind Table II of "Rail-only: A Low-Cost High-Performance Network for Training LLMs with Trillion
Parameters" (arXiv 2307.12169). A network is a non-blocking folded Clos of radix-r switches over its endpoints. A
rail-optimised cluster has one such network over all N GPUs. A rail-only cluster has K separate ones, one per rail, each
over the N/K GPUs that have the same place in their high-bandwidth domain of K GPUs.

The savings follow K: it is the size of the high-bandwidth domain of the plan, not of the server. Table II uses K = 256.
"""

from __future__ import annotations

from typing import NamedTuple

from costmodels._jit import jit

# Per unit, from the footnote to Table II.
SWITCH_PORT_USD = 694.0
TRANSCEIVER_USD = 199.0
SWITCH_PORT_W = 18.0
TRANSCEIVER_W = 9.0


class NetworkInventory(NamedTuple):
    """What a network is built of: tiers (0 = no network), switches, transceivers (two per cable)."""

    tiers: int
    switches: int
    transceivers: int


@jit
def clos_capacity(tiers: int, radix: int) -> int:
    """Endpoints of the largest non-blocking folded Clos with this many tiers: `2 (r/2)^T`.

    >>> [clos_capacity(t, 64) for t in (1, 2, 3)]
    [64, 2048, 65536]
    """
    return 2 * (radix // 2) ** tiers


@jit
def clos_tiers(endpoints: int, radix: int) -> int:
    """Fewest switch tiers that join the endpoints without blocking; 0 when there is nothing to join.

    One tier up to r endpoints, two up to r^2/2, three up to r^3/4. Raises ValueError for a radix below 4 or odd.

    >>> [clos_tiers(n, 64) for n in (1, 64, 65, 2048, 2049, 65536)]
    [0, 1, 2, 2, 3, 3]
    """
    if radix < 4 or radix % 2 == 1:
        raise ValueError("the switch radix must be even and at least 4")
    if endpoints <= 1:
        return 0
    tiers = 1
    while clos_capacity(tiers, radix) < endpoints:
        tiers += 1
    return tiers


@jit
def clos_inventory(endpoints: int, radix: int) -> NetworkInventory:
    """Inventory of one non-blocking folded Clos.

    Every tier but the top gives half its ports to each side, so it takes 2n/r switches and the top takes n/r:
    (2T-1) n/r in all, each tier rounded up to whole switches. Each endpoint has one cable per tier, and a cable has two
    transceivers: 2 T n.

    >>> clos_inventory(32768, 64)
    NetworkInventory(tiers=3, switches=2560, transceivers=196608)
    >>> clos_inventory(100, 64)
    NetworkInventory(tiers=2, switches=6, transceivers=400)
    """
    tiers = clos_tiers(endpoints, radix)
    if tiers == 0:
        return NetworkInventory(0, 0, 0)
    half = radix // 2
    lower = (endpoints + half - 1) // half
    top = (endpoints + radix - 1) // radix
    return NetworkInventory(tiers, (tiers - 1) * lower + top, 2 * tiers * endpoints)


@jit
def rail_only_inventory(gpus: int, hb_size: int, radix: int) -> NetworkInventory:
    """Inventory of a rail-only network: K networks of N/K endpoints each.

    A rail that needs only part of one switch shares it with other whole rails, in separate groups of ports. Rails are
    sized for full domains when the last domain is partly filled. Raises ValueError when the domain holds no GPU.

    >>> rail_only_inventory(32768, 256, 64)
    NetworkInventory(tiers=2, switches=1536, transceivers=131072)
    >>> rail_only_inventory(32768, 256, 256)  # 128 endpoints a rail: two rails share a switch
    NetworkInventory(tiers=1, switches=128, transceivers=65536)
    >>> rail_only_inventory(256, 256, 64)
    NetworkInventory(tiers=0, switches=0, transceivers=0)
    """
    if hb_size < 1:
        raise ValueError("the high-bandwidth domain must hold at least one GPU")
    endpoints = (gpus + hb_size - 1) // hb_size
    rail = clos_inventory(endpoints, radix)
    if rail.tiers == 0:
        return rail
    if rail.tiers == 1:
        rails_per_switch = radix // endpoints
        switches = (hb_size + rails_per_switch - 1) // rails_per_switch
    else:
        switches = hb_size * rail.switches
    return NetworkInventory(rail.tiers, switches, 2 * rail.tiers * gpus)


@jit
def network_cost_usd(
    switches: int, transceivers: int, radix: int, port_usd: float = SWITCH_PORT_USD, transceiver_usd: float = TRANSCEIVER_USD
) -> float:
    """Dollars: a price per switch port plus one per transceiver. Cables and NICs are not counted.

    >>> network_cost_usd(256, 65536, 128) / 1e6
    35.782656
    """
    return port_usd * radix * switches + transceiver_usd * transceivers


@jit
def network_power_w(
    switches: int, transceivers: int, radix: int, port_w: float = SWITCH_PORT_W, transceiver_w: float = TRANSCEIVER_W
) -> float:
    """Watts: a draw per switch port plus one per transceiver.

    >>> network_power_w(256, 65536, 128) / 1e6
    1.179648
    """
    return port_w * radix * switches + transceiver_w * transceivers
