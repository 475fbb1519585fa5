"""Named price sets. Published sets differ by a factor of five per switch, so one comparison uses one set.

Network only: switches, optics and cables between domains. NICs, GPUs and the links inside an HB domain are not in it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from costmodels.fabrics.base import Inventory

UNKNOWN = math.nan


class PriceSet(NamedTuple):
    """Dollars and watts per unit. NaN: the source gives none, so the result is unknown where the unit occurs."""

    name: str
    source: str
    switch_port_usd: float
    transceiver_usd: float = 0.0
    switch_link_usd: float = 0.0  # per link between switches
    copper_link_usd: float = 0.0  # per short link
    optical_link_usd: float = 0.0  # per link that is not short
    switch_port_W: float = UNKNOWN
    transceiver_W: float = UNKNOWN
    optical_port_usd: float = UNKNOWN  # per port of an optical circuit switch
    optical_port_W: float = UNKNOWN


PRICE_SETS: dict[str, PriceSet] = {
    "rail-only-paper": PriceSet(
        "rail-only-paper",
        "arXiv 2307.12169, footnote to Table II: 694 $ and 18 W per switch port, 199 $ and 9 W per transceiver (400G)",
        switch_port_usd=694.0,
        transceiver_usd=199.0,
        switch_port_W=18.0,
        transceiver_W=9.0,
    ),
    "deepseek": PriceSet(
        "deepseek",
        "fitted to the five totals of arXiv 2505.09343, Table 3: 84 k$ per 64-port 400G switch, 0.44 k$ per link between switches",
        switch_port_usd=84e3 / 64,
        switch_link_usd=440.0,
    ),
    "hammingmesh": PriceSet(
        "hammingmesh",
        "arXiv 2209.01346: 14,280 $ per 64-port switch, 603 $ per optical and 272 $ per copper cable",
        switch_port_usd=14280.0 / 64,
        copper_link_usd=272.0,
        optical_link_usd=603.0,
    ),
}
DEFAULT_PRICES = "rail-only-paper"


def price_set(name: str) -> PriceSet:
    """A price set by name.

    >>> price_set("deepseek").switch_port_usd * 64
    84000.0
    """
    if name not in PRICE_SETS:
        raise ValueError(f"unknown price set '{name}'; known: {', '.join(PRICE_SETS)}")
    return PRICE_SETS[name]


def _times(count: int, price: float) -> float:
    """Nothing bought costs nothing, even at an unknown price."""
    return count * price if count else 0.0


def cost_usd(bill: Inventory, prices: PriceSet) -> float:
    """Dollars of a network; NaN when a unit it needs has no price.

    >>> from costmodels.fabrics import FabricInputs, get
    >>> bill = get("rail-only").inventory(FabricInputs(gpus=32768, hb_size=256, radix=128))
    >>> cost_usd(bill, price_set("rail-only-paper")) / 1e6
    35.782656
    """
    return (
        _times(bill.switch_ports, prices.switch_port_usd)
        + _times(bill.transceivers, prices.transceiver_usd)
        + _times(bill.switch_links, prices.switch_link_usd)
        + _times(bill.copper_links, prices.copper_link_usd)
        + _times(bill.links - bill.copper_links, prices.optical_link_usd)
        + _times(bill.optical_ports, prices.optical_port_usd)
    )


def power_w(bill: Inventory, prices: PriceSet) -> float:
    """Watts of switches and transceivers; NaN when the set has no power figures.

    >>> from costmodels.fabrics import FabricInputs, get
    >>> bill = get("rail-only").inventory(FabricInputs(gpus=32768, hb_size=256, radix=128))
    >>> power_w(bill, price_set("rail-only-paper")) / 1e6
    1.179648
    """
    return (
        _times(bill.switch_ports, prices.switch_port_W)
        + _times(bill.transceivers, prices.transceiver_W)
        + _times(bill.optical_ports, prices.optical_port_W)
    )
