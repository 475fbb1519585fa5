"""Identities, bounds and refusals that hold for every fabric."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.fabrics import FabricInputs, get, names
from costmodels.fabrics.base import LATENCY_S
from costmodels.fabrics.clos import clos, reachable, split_ports, upper_switches
from costmodels.fabrics.prices import PRICE_SETS, cost_usd, power_w, price_set

CLOS = ["rail-only", "rail-optimized", "fat-tree"]


@pytest.mark.parametrize("name", names())
def test_network_and_inventory_agree_for_every_fabric(name):
    inputs = FabricInputs(gpus=512, hb_size=8)
    net, bill = get(name).network(inputs), get(name).inventory(inputs)
    assert net.gpus == 512
    assert 1 <= net.leaf_gpus <= net.pod_gpus <= 512
    assert 0 < net.core_Bps <= net.pod_Bps <= net.nic_Bps
    assert bill.max_gpus >= 512
    assert bill.switches == sum(bill.tier_switches)
    assert bill.links == bill.host_links + bill.switch_links
    assert net.any_to_any == 0 or bill.networks <= 4


@pytest.mark.parametrize("name", names())
def test_rates_scale_with_the_nic(name):
    slow, fast = (get(name).network(FabricInputs(gpus=512, nic_Bps=b, hb_Bps=450e9)) for b in (25e9, 50e9))
    if name != "ideal":
        assert fast.nic_Bps == 2 * slow.nic_Bps
        assert fast.core_Bps == pytest.approx(2 * slow.core_Bps)


def test_rail_only_reach_is_on_rails_only():
    net = get("rail-only").network(FabricInputs(gpus=16384))
    assert (net.any_to_any, net.leaf_gpus, net.pod_gpus) == (0, 256, 16384)
    assert get("rail-optimized").network(FabricInputs(gpus=16384)).any_to_any == 1


def test_tier_boundaries_of_rail_only():
    """512, 16,384 and 524,288 GPUs at G = 8, k = 64; a single switch per rail serves 4,608 GPUs at G = 72."""
    tiers = {n: get("rail-only").inventory(FabricInputs(gpus=n)).tiers for n in (512, 520, 16384, 16392, 524288)}
    assert tiers == {512: 1, 520: 2, 16384: 2, 16392: 3, 524288: 3}
    assert get("rail-only").inventory(FabricInputs(gpus=4608, hb_size=72)).tiers == 1
    with pytest.raises(ValueError, match="smallest switch_radix that works is 65"):
        get("rail-only").inventory(FabricInputs(gpus=524296))


def test_a_domain_of_everything_needs_no_rail():
    bill = get("rail-only").inventory(FabricInputs(gpus=256, hb_size=256))
    assert (bill.tiers, bill.switches, bill.links) == (0, 0, 0)
    assert get("rail-only").network(FabricInputs(gpus=4, hb_size=8)).hb_size == 4


@pytest.mark.parametrize("name", CLOS)
@pytest.mark.parametrize("gpus", [64, 1024, 4096])
def test_ratio_one_is_the_full_clos(name, gpus):
    plain = FabricInputs(gpus=gpus)
    assert get(name).inventory(plain) == get(name).inventory(plain._replace(oversubscription=1.0))
    net = get(name).network(plain)
    assert net.core_Bps == net.pod_Bps == net.nic_Bps


@given(ratio=st.floats(1, 16), step=st.floats(1e-9, 1e-3))
@settings(max_examples=50, deadline=None)
def test_rate_is_continuous_and_falls_with_the_ratio(ratio, step):
    def rate(o):
        return get("rail-optimized").network(FabricInputs(gpus=16384, oversubscription=o)).core_Bps

    assert rate(ratio) == pytest.approx(50e9 / ratio)
    assert rate(ratio) >= rate(ratio + step) >= rate(ratio) * (1 - 2 * step)


@given(st.integers(2, 256).map(lambda n: 2 * n), st.floats(1, 32))
@settings(max_examples=80, deadline=None)
def test_port_split_keeps_the_promised_ratio(radix, ratio):
    down, up = split_ports(radix, ratio)
    assert down + up == radix and down >= 1 and up >= 1
    assert down / up <= ratio * (1 + 1e-9) or down == 1


@given(n=st.integers(1, 3000), radix=st.sampled_from([8, 16, 24, 64, 144]), ratio=st.sampled_from([1.0, 2.0, 4.0, 7.0]))
@settings(max_examples=150, deadline=None)
def test_a_clos_has_ports_for_all_its_links(n, radix, ratio):
    """Every tier has enough ports for the links below and above it, and every endpoint a port."""
    if n > reachable(radix, ratio, 3):
        with pytest.raises(ValueError, match="smallest switch_radix that works"):
            clos(n, radix, ratio)
        return
    shape = clos(n, radix, ratio)
    assert shape.max_endpoints >= n
    if shape.tiers == 1:
        assert n <= radix
        return
    leaves = shape.tier_switches[0]
    assert leaves * shape.down >= n > (leaves - 1) * shape.down
    leaf_links = leaves * shape.up
    if shape.tiers == 2:
        assert shape.switch_links == leaf_links
        assert shape.tier_switches[1] * radix >= leaf_links
        assert shape.up % shape.tier_switches[1] == 0  # equal links from each leaf to each spine
    else:
        core_links = shape.switch_links - leaf_links
        assert shape.tier_switches[1] * radix >= leaf_links + core_links
        assert shape.tier_switches[2] * radix >= core_links


@given(st.integers(1, 64), st.integers(1, 64))
def test_upper_switches_divide_the_uplinks(lower, uplinks):
    upper = upper_switches(lower, uplinks, 64)
    assert uplinks % upper == 0
    assert upper * 64 >= lower * uplinks


def test_a_radix_named_as_smallest_works_and_one_less_does_not():
    inputs = FabricInputs(gpus=70000)
    with pytest.raises(ValueError, match="smallest switch_radix that works is 66"):
        get("fat-tree").inventory(inputs)
    assert get("fat-tree").inventory(inputs._replace(radix=66)).tiers == 3
    with pytest.raises(ValueError):
        get("fat-tree").inventory(inputs._replace(radix=65))


@pytest.mark.parametrize("name", ["slim-fly", "dragonfly"])
def test_direct_graphs_name_a_radix_that_works(name):
    with pytest.raises(ValueError, match="smallest switch_radix that works is (\\d+)") as error:
        get(name).inventory(FabricInputs(gpus=300000))
    radix = int(str(error.value).rsplit(" ", 1)[1])
    assert get(name).inventory(FabricInputs(gpus=300000, radix=radix)).max_gpus >= 300000


@pytest.mark.parametrize("name", ["clos-2to1", "clos-4to1"])
def test_named_ratios_do_not_take_the_clusters(name):
    ratio = int(name[5])
    for asked in (1.0, 7.0):
        net = get(name).network(FabricInputs(gpus=16384, oversubscription=asked))
        assert net.core_Bps == pytest.approx(50e9 / ratio)
        assert net.pod_Bps == 50e9
    same = get("rail-optimized").inventory(FabricInputs(gpus=16384, oversubscription=ratio))
    assert get(name).inventory(FabricInputs(gpus=16384)) == same


def test_ideal_is_one_domain_and_nvl72_brings_its_own():
    ideal = get("ideal").network(FabricInputs(gpus=1024, hb_size=8))
    assert (ideal.hb_size, ideal.nic_Bps) == (1024, ideal.hb_Bps)
    rack = get("nvl72-rails").network(FabricInputs(gpus=4608, hb_size=8))
    assert (rack.hb_size, rack.hb_Bps, rack.any_to_any) == (72, 900e9, 0)


def test_optical_rails_have_no_packet_switch():
    bill = get("ocs-rails").inventory(FabricInputs(gpus=512, radix=64))
    assert (bill.switch_ports, bill.optical_ports) == (0, 1024)
    assert math.isnan(cost_usd(bill, price_set("rail-only-paper")))  # no published price of an optical port
    known = price_set("rail-only-paper")._replace(optical_port_usd=100.0, optical_port_W=0.5)
    assert cost_usd(bill, known) == 1024 * 100 + 1024 * 199
    assert power_w(bill, known) == 1024 * 0.5 + 1024 * 9
    half = get("ocs-rails").network(FabricInputs(gpus=512, options={"rings": 2}))
    assert half.core_Bps == 25e9
    with pytest.raises(ValueError, match="works is 128"):
        get("ocs-rails").inventory(FabricInputs(gpus=1024, radix=64))


def test_hammingmesh_boards_are_domains():
    net = get("hammingmesh").network(FabricInputs(gpus=1024, hb_size=16))
    assert net.core_Bps == pytest.approx(50e9 / 8)  # 1/(2a), a = 4
    with pytest.raises(ValueError, match="not the HB domain"):
        get("hammingmesh").network(FabricInputs(gpus=1024, hb_size=8, options={"board_rows": 3}))


def test_latency_follows_transport_unless_given():
    inputs = FabricInputs(gpus=1024)
    assert get("rail-only").network(inputs).latency_s == LATENCY_S["ib"]
    assert get("rail-only").network(inputs._replace(options={"transport": "roce"})).latency_s == LATENCY_S["roce"]
    assert get("hpn").network(inputs).latency_s == LATENCY_S["roce"]
    assert get("hpn").network(inputs._replace(latency_s=1e-6)).latency_s == 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpus": 0}, "gpus must be at least 1"),
        ({"hb_size": 0}, "hb_size must be at least 1"),
        ({"nic_Bps": 0.0}, "nic_Bps must be positive"),
        ({"hb_Bps": float("nan")}, "hb_Bps must be positive"),
        ({"radix": 1}, "at least 2 ports"),
        ({"oversubscription": 0.5}, "oversubscription must be at least 1"),
        ({"options": {"colour": 1}}, "has no option 'colour'"),
        ({"options": {"transport": "token-ring"}}, "transport must be one of"),
    ],
)
@pytest.mark.parametrize("name", names())
def test_bad_inputs_are_refused(name, change, message):
    inputs = FabricInputs(gpus=512)._replace(**change)
    for ask in (get(name).network, get(name).inventory):
        with pytest.raises(ValueError, match=message):
            ask(inputs)


def test_unknown_names_get_a_suggestion():
    with pytest.raises(ValueError, match="did you mean 'fat-tree'"):
        get("fattree")
    with pytest.raises(ValueError, match="known: rail-only-paper, deepseek, hammingmesh"):
        price_set("free")


def test_price_sets_say_where_they_come_from_and_leave_unknown_power_unknown():
    bill = get("fat-tree").inventory(FabricInputs(gpus=1024))
    for prices in PRICE_SETS.values():
        assert "arXiv" in prices.source
        assert cost_usd(bill, prices) > 0
    assert math.isnan(power_w(bill, price_set("deepseek")))
