"""Switch and link counts, costs and rates that were published, to the unit where the source prints integers."""

from __future__ import annotations

import pytest

from costmodels.fabrics import FabricInputs, get, names
from costmodels.fabrics.prices import cost_usd, power_w, price_set


def bill(fabric, gpus, **inputs):
    return get(fabric).inventory(FabricInputs(gpus=gpus, **inputs))


# NVIDIA DGX SuperPOD B200 reference architecture: 64-port 400G switches.
SUPERPOD_B200 = [
    (512, (16, 8)),
    (1024, (32, 16)),
    (2048, (64, 32)),
    (4096, (128, 128, 64)),
    (8192, (256, 256, 128)),
    (16384, (512, 512, 256)),
]


@pytest.mark.parametrize("fabric", ["rail-optimized", "fat-tree"])
@pytest.mark.parametrize(("gpus", "tiers"), SUPERPOD_B200)
def test_superpod_b200(fabric, gpus, tiers):
    got = bill(fabric, gpus)
    assert got.tier_switches == tiers
    assert got.host_links == gpus
    assert got.switch_links == gpus * (len(tiers) - 1)  # N cables at each level
    assert got.transceivers == 2 * got.links


# NVIDIA DGX SuperPOD B300 XDR: 144-port switches. The rows of 2,304 and 4,608 GPUs taught the divisor rule.
@pytest.mark.parametrize(
    ("gpus", "tiers"), [(576, (8, 4)), (1152, (16, 8)), (2304, (32, 18)), (4608, (64, 36)), (10368, (144, 72))]
)
def test_superpod_b300(gpus, tiers):
    got = bill("rail-optimized", gpus, radix=144)
    assert got.tier_switches == tiers
    assert got.switch_links == gpus


# arXiv 2505.09343, Table 3, 64-port switches: endpoints, switches, links between switches, total in M$.
DEEPSEEK = [
    ("fat-tree", 2048, 96, 2048, 9),
    ("multi-plane", 16384, 768, 16384, 72),
    ("fat-tree", 65536, 5120, 131072, 491),
    ("slim-fly", 32928, 1568, 32928, 146),
    ("dragonfly", 261632, 16352, 384272, 1522),
]


@pytest.mark.parametrize(("fabric", "gpus", "switches", "links", "cost_musd"), DEEPSEEK)
def test_deepseek_table(fabric, gpus, switches, links, cost_musd):
    got = bill(fabric, gpus)
    assert (got.switches, got.switch_links) == (switches, links)
    # The two prices are fitted to these totals: a regression, not evidence.
    assert cost_usd(got, price_set("deepseek")) / 1e6 == pytest.approx(cost_musd, rel=0.02)


def test_multi_plane_fills_at_the_published_size():
    assert bill("multi-plane", 16384).max_gpus == 16384
    assert bill("fat-tree", 1).max_gpus == 65536
    with pytest.raises(ValueError, match="smallest switch_radix that works"):
        bill("multi-plane", 16392)


# arXiv 2307.12169, Table II, 256 GPUs per domain: GPUs, radix, Clos, rail-only as (tiers, switches, transceivers), savings.
TABLE_II = [
    (32768, 64, (3, 2560, 196608), (2, 1536, 131072), 38.3, 37.5, 58.5, 1.77),
    (32768, 128, (3, 1280, 196608), (1, 256, 65536), 76.6, 75.0, 117.0, 3.54),
    (32768, 256, (2, 384, 131072), (1, 128, 65536), 62.1, 60.0, 58.5, 1.77),
    (65536, 64, (3, 5120, 393216), (2, 3072, 262144), 38.3, 37.5, 117.0, 3.54),
    (65536, 128, (3, 2560, 393216), (2, 1536, 262144), 38.3, 37.5, 117.0, 3.54),
    (65536, 256, (3, 1280, 393216), (1, 256, 131072), 76.6, 75.0, 234.1, 7.08),
]


@pytest.mark.parametrize(("gpus", "radix", "clos", "rail", "cost_pct", "power_pct", "saved_musd", "saved_mw"), TABLE_II)
def test_rail_only_table_2(gpus, radix, clos, rail, cost_pct, power_pct, saved_musd, saved_mw):
    a = bill("rail-optimized", gpus, hb_size=256, radix=radix)
    b = bill("rail-only", gpus, hb_size=256, radix=radix)
    assert a[:3] == clos
    assert b[:3] == rail
    prices = price_set("rail-only-paper")
    cost_a, cost_b, power_a, power_b = cost_usd(a, prices), cost_usd(b, prices), power_w(a, prices), power_w(b, prices)
    assert 100 * (1 - cost_b / cost_a) == pytest.approx(cost_pct, abs=0.05)
    assert 100 * (1 - power_b / power_a) == pytest.approx(power_pct, abs=0.05)
    assert (cost_a - cost_b) / 1e6 == pytest.approx(saved_musd, abs=0.05)
    assert (power_a - power_b) / 1e6 == pytest.approx(saved_mw, abs=0.005)


def test_rail_only_saves_nothing_at_servers_of_eight():
    """At K = 8 a rail of 4,096 GPUs needs as many tiers as the Clos: Table II is a statement about large domains."""
    prices = price_set("rail-only-paper")
    clos, rail = bill("rail-optimized", 32768), bill("rail-only", 32768)
    assert cost_usd(rail, prices) == cost_usd(clos, prices)


# Alibaba HPN 7.0, SIGCOMM 2024 (doi 10.1145/3651890.3672265).
def test_hpn_pod():
    pod = bill("hpn", 15360)
    assert pod.tier_switches == (240, 120)
    assert bill("hpn", 1024).tier_switches == (16,)
    net = get("hpn").network(FabricInputs(gpus=30720))
    assert (net.leaf_gpus, net.pod_gpus) == (1024, 15360)
    assert net.nic_Bps / net.pod_Bps == pytest.approx(1.067, abs=0.001)
    assert net.pod_Bps / net.core_Bps == pytest.approx(15)
    assert net.core_Bps == pytest.approx(3.125e9)


def test_hpn_rail_only_second_tier():
    pod = bill("hpn-rail-only", 122880)
    assert (pod.max_gpus, pod.networks) == (122880, 16)
    assert get("hpn-rail-only").network(FabricInputs(gpus=122880)).any_to_any == 0
    with pytest.raises(ValueError, match="122,880"):
        bill("hpn-rail-only", 122888)


# Meta's Llama 3 cluster, arXiv 2407.21783 section 3.3.1.
def test_meta_pods():
    net = get("meta-7to1").network(FabricInputs(gpus=24576))
    assert (net.leaf_gpus, net.pod_gpus) == (16, 3072)
    assert net.nic_Bps / net.core_Bps == pytest.approx(7)
    full = bill("meta-7to1", 24576)
    assert full.max_gpus == 8 * 192 * 16
    assert full.tier_switches[0] == 8 * 192
    with pytest.raises(ValueError, match="24,576"):
        bill("meta-7to1", 24592)


# ByteDance MegaScale, arXiv 2402.15627 section 3.6: 64 servers of 8 GPUs under one set of ToRs.
def test_megascale_servers_per_tor_set():
    net = get("megascale").network(FabricInputs(gpus=12288, nic_Bps=25e9))
    assert net.leaf_gpus == 64 * 8
    got = bill("megascale", 12288, nic_Bps=25e9)
    assert got.tiers == 3
    assert got.switch_links == 12288  # N/2 at each of two levels


# arXiv 2209.01346, Table II: closes with the recalled table (totals and prices quoted second-hand); tapered rows with a
# fitted port split. 16 planes of one port for trees, four planes of four ports for grids of boards.
TREE = {"planes": 16, "taper": "leaf", "even_spines": False}
HAMMINGMESH = [
    ("fat-tree", 1024, 8, 1, {"planes": 16}, 25.3),
    ("fat-tree", 16384, 8, 1, {"planes": 16}, 680),
    ("fat-tree", 1050, 8, 2, TREE, 17.6),
    ("fat-tree", 16422, 8, 2, TREE, 419),
    ("fat-tree", 1071, 8, 4, TREE, 13.2),
    ("fat-tree", 16422, 8, 4, TREE, 271),
    ("hammingmesh", 1024, 1, 1, {"planes": 4}, 10.8),
    ("hammingmesh", 16384, 1, 1, {"planes": 4}, 448),
    ("hammingmesh", 1024, 4, 1, {"planes": 4}, 5.4),
    ("hammingmesh", 16384, 4, 1, {"planes": 4}, 224),
    ("hammingmesh", 1024, 16, 1, {"planes": 4}, 2.7),
    ("hammingmesh", 16384, 16, 1, {"planes": 4}, 43.3),
    ("torus", 1024, 4, 1, {"planes": 4}, 2.5),
    ("torus", 16384, 4, 1, {"planes": 4}, 39.5),
]


@pytest.mark.parametrize(("fabric", "gpus", "domain", "ratio", "options", "cost_musd"), HAMMINGMESH)
def test_hammingmesh_costs_close_with_recalled_table(fabric, gpus, domain, ratio, options, cost_musd):
    got = bill(fabric, gpus, hb_size=domain, oversubscription=ratio, options=options)
    cost = cost_usd(got, price_set("hammingmesh")) / 1e6
    assert cost == pytest.approx(cost_musd, abs=0.05 if cost_musd < 100 else 0.5)


def test_every_fabric_has_a_catalogue_entry_and_the_reverse():
    from importlib.resources import files

    from autotune.load import read_yaml

    folder = files("autotune") / "catalogue" / "fabrics"
    entries = {f.name.removesuffix(".yaml"): read_yaml(str(f)) for f in folder.iterdir() if f.name.endswith(".yaml")}
    assert sorted(entries) == names()
    for name, entry in entries.items():
        assert entry["name"] == name
        assert entry["description"] and entry["source"] and entry["counting"]
