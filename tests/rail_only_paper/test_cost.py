"""Network inventories: Table II, shared switches, small and partly filled clusters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import rail_only_cost as cost

# (GPUs, radix): tiers, switches and transceivers of the Clos and of rail-only with 256 GPUs a domain. Rail-only counts
# and all savings are the paper's Table II; the Clos counts follow from (2T-1) n/r and 2 T n.
TABLE_II = {
    (32768, 64): ((3, 2560, 196608), (2, 1536, 131072), 38.3, 37.5),
    (32768, 128): ((3, 1280, 196608), (1, 256, 65536), 76.6, 75.0),
    (32768, 256): ((2, 384, 131072), (1, 128, 65536), 62.1, 60.0),
    (65536, 64): ((3, 5120, 393216), (2, 3072, 262144), 38.3, 37.5),
    (65536, 128): ((3, 2560, 393216), (2, 1536, 262144), 38.3, 37.5),
    (65536, 256): ((3, 1280, 393216), (1, 256, 131072), 76.6, 75.0),
}


def savings(gpus: int, radix: int, hb_size: int) -> tuple[float, float]:
    clos, rail = cost.clos_inventory(gpus, radix), cost.rail_only_inventory(gpus, hb_size, radix)
    dollars = [cost.network_cost_usd(net.switches, net.transceivers, radix) for net in (clos, rail)]
    watts = [cost.network_power_w(net.switches, net.transceivers, radix) for net in (clos, rail)]
    return 100 * (1 - dollars[1] / dollars[0]), 100 * (1 - watts[1] / watts[0])


@pytest.mark.parametrize("row", TABLE_II, ids=str)
def test_table_ii(row: tuple[int, int]) -> None:
    clos, rail, cost_saved, power_saved = TABLE_II[row]
    gpus, radix = row
    assert cost.clos_inventory(gpus, radix) == clos
    assert cost.rail_only_inventory(gpus, 256, radix) == rail
    assert savings(gpus, radix, 256) == pytest.approx((cost_saved, power_saved), abs=0.05)


def test_only_domains_of_256_give_the_published_savings() -> None:
    published = {(32768, 64): 38, (32768, 128): 77, (32768, 256): 62, (65536, 64): 38, (65536, 128): 38, (65536, 256): 77}
    matching = [
        k for k in (2**i for i in range(12)) if all(abs(savings(*row, k)[0] - want) <= 0.5 for row, want in published.items())
    ]
    assert matching == [256]
    assert savings(32768, 64, 8)[0] == pytest.approx(0)
    assert savings(32768, 128, 8)[0] == pytest.approx(38.3, abs=0.05)


@given(endpoints=st.integers(2, 50000), radix=st.sampled_from([4, 16, 64, 128]))
def test_a_clos_has_ports_for_its_endpoints(endpoints: int, radix: int) -> None:
    tiers, switches, transceivers = cost.clos_inventory(endpoints, radix)
    assert cost.clos_capacity(tiers, radix) >= endpoints
    assert tiers == 1 or cost.clos_capacity(tiers - 1, radix) < endpoints
    # Every transceiver sits in a switch port, but for one per endpoint in the NIC.
    assert switches * radix >= transceivers - endpoints
    assert transceivers == 2 * tiers * endpoints


@given(gpus=st.integers(2, 20000), hb_size=st.integers(1, 512), radix=st.sampled_from([16, 64, 256]))
def test_rail_only_never_needs_more_tiers_than_a_clos(gpus: int, hb_size: int, radix: int) -> None:
    clos, rail = cost.clos_inventory(gpus, radix), cost.rail_only_inventory(gpus, hb_size, radix)
    assert rail.tiers <= clos.tiers
    assert rail.transceivers <= clos.transceivers
    if hb_size == 1:
        assert rail == clos


def test_rails_share_a_switch_only_whole() -> None:
    # 20 endpoints a rail on 64 ports: three rails a switch, so 8 rails take 3 switches, not 160/64 = 2.5.
    assert cost.rail_only_inventory(160, 8, 64) == (1, 3, 320)


def test_partly_filled_domain_counts_its_own_cables_only() -> None:
    full, partly = cost.rail_only_inventory(160, 8, 64), cost.rail_only_inventory(157, 8, 64)
    assert partly == (full.tiers, full.switches, 2 * 157)


@pytest.mark.parametrize("radix", [0, 2, 63, -8])
def test_impossible_radix(radix: int) -> None:
    with pytest.raises(ValueError, match="radix"):
        cost.clos_inventory(1024, radix)


def test_impossible_domain() -> None:
    with pytest.raises(ValueError, match="domain"):
        cost.rail_only_inventory(1024, 0, 64)


@pytest.mark.parametrize("row", TABLE_II, ids=str)
def test_the_planners_fabrics_count_the_same(row: tuple[int, int]) -> None:
    """`autotune network` counts by its own, wider rules; on the paper's table they must agree."""
    from costmodels import fabrics

    gpus, radix = row
    inputs = fabrics.FabricInputs(gpus=gpus, hb_size=256, radix=radix)
    for name, expected in (
        ("rail-optimized", cost.clos_inventory(gpus, radix)),
        ("rail-only", cost.rail_only_inventory(gpus, 256, radix)),
    ):
        bill = fabrics.get(name).inventory(inputs)
        assert (bill.tiers, bill.switches, bill.transceivers) == expected
