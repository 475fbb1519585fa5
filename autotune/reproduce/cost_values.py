"""Values of the cost and all-to-all claims (C1-C5, E1-E2)."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.reproduce.claims import Values
from autotune.reproduce.settings import (
    A100_HB_BPS,
    A100_NIC_BPS,
    H100_HB_BPS,
    H100_NIC_BPS,
    INFERRED_PORT_W,
    TABLE_II_HB_SIZE,
    TABLE_II_ROWS,
)
from costmodels.rail_only_cost import (
    SWITCH_PORT_W,
    NetworkInventory,
    clos_inventory,
    network_cost_usd,
    network_power_w,
    rail_only_inventory,
)
from costmodels.rail_only_traffic import all_to_all_share


@dataclass(frozen=True)
class CostRow:
    """One row of Table II: a rail-optimised Clos against rail-only networks for the same GPUs and switches."""

    gpus: int
    radix: int
    clos: NetworkInventory
    rail: NetworkInventory

    def _usd(self, inventory: NetworkInventory) -> float:
        return network_cost_usd(inventory.switches, inventory.transceivers, self.radix)

    def _w(self, inventory: NetworkInventory, port_w: float) -> float:
        return network_power_w(inventory.switches, inventory.transceivers, self.radix, port_w)

    @property
    def clos_usd(self) -> float:
        """Dollars of the Clos."""
        return self._usd(self.clos)

    @property
    def saved_usd(self) -> float:
        """Dollars rail-only saves."""
        return self.clos_usd - self._usd(self.rail)

    @property
    def cost_saved_percent(self) -> float:
        """Dollars saved in percent of the Clos."""
        return 100 * self.saved_usd / self.clos_usd

    def clos_w(self, port_w: float = SWITCH_PORT_W) -> float:
        """Watts of the Clos."""
        return self._w(self.clos, port_w)

    def saved_w(self, port_w: float = SWITCH_PORT_W) -> float:
        """Watts rail-only saves."""
        return self.clos_w(port_w) - self._w(self.rail, port_w)

    def power_saved_percent(self, port_w: float = SWITCH_PORT_W) -> float:
        """Watts saved in percent of the Clos."""
        return 100 * self.saved_w(port_w) / self.clos_w(port_w)


def table_ii() -> list[CostRow]:
    """All rows of Table II.

    >>> [(row.gpus, row.radix, round(row.cost_saved_percent, 1)) for row in table_ii()][:2]
    [(32768, 64, 38.3), (32768, 128, 76.6)]
    """
    return [
        CostRow(gpus, radix, clos_inventory(gpus, radix), rail_only_inventory(gpus, TABLE_II_HB_SIZE, radix))
        for gpus, radix in TABLE_II_ROWS
    ]


def table_ii_quantities(row: CostRow) -> dict[str, float]:
    """The row's counts and savings, by the names the claims use."""
    name = f"{row.gpus}/{row.radix} "
    quantities = {
        "Clos tiers": row.clos.tiers,
        "Clos switches": row.clos.switches,
        "Clos transceivers": row.clos.transceivers,
        "tiers": row.rail.tiers,
        "switches": row.rail.switches,
        "switches fewer": row.clos.switches - row.rail.switches,
        "transceivers": row.rail.transceivers,
        "transceivers fewer": row.clos.transceivers - row.rail.transceivers,
        "cost saved %": row.cost_saved_percent,
        "power saved %": row.power_saved_percent(),
    }
    return {name + quantity: value for quantity, value in quantities.items()}


def _published_quantities(rows: list[CostRow], published: list[str]) -> Values:
    known = {name: value for row in rows for name, value in table_ii_quantities(row).items()}
    parts = {name: known[name] for name in published}
    return Values(parts, {name: value for name, value in known.items() if name not in parts})


def _moe_shares() -> Values:
    """E1 on the DeepSpeed-MoE 1.3B shape, with and without the dense layers that experts replace."""
    layers, expert_layers, hidden, vocab, seq, gpus, batch = 24, 12, 2048, 51200, 2048, 128, 512
    dense = 12.0 * layers * hidden**2 + (vocab + seq) * hidden
    without_experts = dense - expert_layers * 8.0 * hidden**2

    def percent(shared_parameters: float, capacity: float) -> float:
        return 100 * all_to_all_share(expert_layers, hidden, batch * seq / gpus, gpus, shared_parameters, capacity, 2.0)

    return Values(
        {"all dense parameters reduced": percent(dense, 1.0), "experts not reduced": percent(without_experts, 1.0)},
        {"all dense parameters reduced, capacity 1.25": percent(dense, 1.25)},
    )


def cost_values(published: list[str]) -> dict[str, Values]:
    """What the model gives for C1 to C5, E1 and E2; `published` names the quantities of Table II that were printed.

    >>> round(cost_values([])["C5"].parts["Clos"], 2)
    4.72
    """
    rows = table_ii()
    cost, power = [row.cost_saved_percent for row in rows], [row.power_saved_percent() for row in rows]
    dollars = {n: [row.saved_usd / 1e6 for row in rows if row.gpus == n] for n in (32768, 65536)}
    watts = [row.saved_w(INFERRED_PORT_W) / 1e6 for row in rows]
    printed_watts = [row.saved_w() / 1e6 for row in rows]
    first = rows[0]
    return {
        "C1": _published_quantities(rows, published),
        "C2": Values({"least cost": min(cost), "most cost": max(cost), "least power": min(power), "most power": max(power)}),
        "C3": Values(
            {f"best of {n:,} GPUs": max(saved) for n, saved in dollars.items()},
            {"least of all rows": min(min(saved) for saved in dollars.values())},
        ),
        "C4": Values(
            {"least": min(watts), "most": max(watts)},
            {"least, 18 W": min(printed_watts), "most, 18 W": max(printed_watts)},
        ),
        "C5": Values(
            {"Clos": first.clos_w() / 1e6},
            {"Clos, 17.5 W": first.clos_w(INFERRED_PORT_W) / 1e6},
        ),
        "C5-cost": Values({"Clos": first.clos_usd / 1e6}),
        "E1": _moe_shares(),
        "E2": Values({"A100": 100 * A100_NIC_BPS / A100_HB_BPS, "H100": 100 * H100_NIC_BPS / H100_HB_BPS}),
    }
