"""The network report: sizes, prices, fixed domains, break-even arithmetic."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from autotune.errors import InputError
from autotune.network_report import break_even, cluster_on, fabric_names, prices_of, report
from autotune.network_tables import break_even_lines, csv_text
from autotune.specs import ClusterSpec


def cluster(**changes):
    base = {"name": "t", "gpu": "H100-80GB-SXM", "gpus": 4096, "hb_domain": {"size": 8}, "network": {"fabric": "rail-only"}}
    return ClusterSpec.model_validate(base | changes)


def test_one_row_per_fabric_and_size():
    rows, left_out = report(cluster(gpus=[1024, 4096], hb_domain={"size": [8, 64]}), ["rail-only", "fat-tree"])
    sizes = [(r.fabric, r.network.gpus, r.network.hb_size) for r in rows]
    assert len(sizes) == len(set(sizes)) == 8
    assert not left_out


def test_a_plan_free_row_has_the_promised_keys_and_finite_figures():
    row = report(cluster(), ["rail-only"])[0][0].to_dict(with_failures=True)
    keys = ["fabric", "gpus", "hb_domain_size", "tiers", "switches", "transceivers", "links", "cost_usd", "power_w", "max_gpus", "goodput", "failures"]
    assert set(keys) <= set(row)
    assert row["switches"] == 192 and row["tiers"] == 2
    assert 0 < row["goodput"] < 1
    assert {f["class"] for f in row["failures"]} == {"gpu", "server", "link", "software", "leaf", "nvswitch"}


def test_failures_block_of_the_cluster_is_used():
    calm = report(cluster(failures={"interruptions_per_gpu_day": 1e-6}), ["rail-only"])[0][0]
    wild = report(cluster(failures={"interruptions_per_gpu_day": 5e-3, "repair_hours": 100}), ["rail-only"])[0][0]
    assert calm.goodput.goodput > 0.98 > wild.goodput.goodput


def test_named_fabric_that_cannot_be_built_is_an_error_and_all_skips_it():
    with pytest.raises(InputError, match="ocs-rails: .*works is 512"):
        report(cluster(), ["rail-only", "ocs-rails"])
    rows, left_out = report(cluster(), fabric_names(cluster(), "all"), skip_impossible=True)
    assert "ocs-rails" not in {r.fabric for r in rows}
    assert len(left_out) == 1 and left_out[0].startswith("ocs-rails")


@pytest.mark.parametrize(("text", "message"), [("rail-onyl", "did you mean 'rail-only'"), (" , ", "names no fabric")])
def test_bad_compare_lists(text, message):
    with pytest.raises(InputError, match=message):
        fabric_names(cluster(), text)


def test_compare_names_each_once_and_defaults_to_the_own():
    assert fabric_names(cluster(), "hpn,rail-only, hpn") == ["hpn", "rail-only"]
    assert fabric_names(cluster(), None) == ["rail-only"]


def test_prices_file_over_set_over_default():
    assert prices_of(cluster()).name == "rail-only-paper"
    own = cluster(prices={"price_set": "deepseek", "switch_port_W": 20})
    assert prices_of(own).switch_port_usd == 84e3 / 64
    assert prices_of(own).switch_port_W == 20
    assert prices_of(own, "hammingmesh").optical_link_usd == 603
    with pytest.raises(InputError, match="unknown price set 'cheap'"):
        prices_of(cluster(prices={"price_set": "cheap"}))


def test_one_price_set_for_the_whole_comparison():
    """The catalogue names other sets for some fabrics; a comparison must not mix them."""
    rows, _ = report(cluster(), ["rail-only", "multi-plane"])
    assert rows[0].cost_usd == rows[1].cost_usd  # the same switches: MPFT is rail-only in two tiers


def test_own_options_do_not_leak_to_other_fabrics():
    with_options = cluster(network={"fabric": "fat-tree", "options": {"planes": 2}})
    rows, _ = report(with_options, ["fat-tree", "rail-only"])
    plain = report(cluster(), ["fat-tree"])[0][0]
    assert rows[0].bill.switches == 2 * plain.bill.switches
    assert cluster_on(with_options, rows[0]).network.options == {"planes": 2}
    assert cluster_on(with_options, rows[1]).network.options == {}


def test_fabrics_that_fix_the_domain_bring_it_to_the_search():
    rows, _ = report(cluster(gpus=4608), ["nvl72-rails", "ideal", "rail-only"])
    on = [cluster_on(cluster(gpus=4608), r) for r in rows]
    assert [(c.network.fabric, c.hb_domain.size, c.hb_domain.bandwidth_GBps) for c in on] == [
        ("nvl72-rails", 72, 900),
        ("ideal", 4608, 450),
        ("rail-only", 8, 450),
    ]


def test_the_ideal_machine_is_not_priced():
    row = report(cluster(), ["ideal"])[0][0]
    assert math.isnan(row.cost_usd) and math.isnan(row.power_W)


def planned(fabric, tokens_per_s_per_gpu, gpu_usd=None, size=256):
    on = cluster(gpus=32768, hb_domain={"size": size}, network={"fabric": "rail-only", "switch_radix": 128})
    row = report(on, [fabric], gpu_usd=gpu_usd)[0][0]
    row.goodput = row.goodput._replace(goodput=1.0)
    row.straggler = 1.0
    row.gpu_usd = gpu_usd
    row.evaluation = SimpleNamespace(tokens_per_s_per_gpu=tokens_per_s_per_gpu)
    return row


def test_break_even_price_equalises_dollars_per_throughput():
    rail, clos = planned("rail-only", 100.0), planned("rail-optimized", 103.0)
    (entry,) = break_even([rail, clos])
    assert (entry["fabric"], entry["against"], entry["worth_it"]) == ("rail-optimized", "rail-only", None)
    assert entry["throughput_ratio"] == pytest.approx(1.03)
    price = entry["breakeven_gpu_usd"]
    per = [(r.cost_usd + price * 32768) / r.tokens_per_s for r in (rail, clos)]
    assert per[0] == pytest.approx(per[1])
    assert price == pytest.approx((152.829952e6 - 35.782656e6 * 1.03) / (32768 * 0.03))


@pytest.mark.parametrize(("gpu_usd", "worth"), [(50e3, False), (200e3, True)])
def test_dear_gpus_are_worth_a_dear_network(gpu_usd, worth):
    rows = [planned("rail-only", 100.0, gpu_usd), planned("rail-optimized", 103.0, gpu_usd)]
    assert break_even(rows)[0]["worth_it"] is worth
    dollars = [r.total_usd / r.goodput_tokens_per_s for r in rows]
    assert (dollars[1] < dollars[0]) is worth  # the verdict is the comparison of dollars per token/s


def test_a_clos_that_is_not_faster_never_pays():
    entries = break_even([planned("rail-only", 100.0, 40e3), planned("rail-optimized", 100.0, 40e3)])
    assert entries[0]["breakeven_gpu_usd"] is None and entries[0]["worth_it"] is False
    assert "no GPU price makes it pay" in break_even_lines(entries)[0]


def test_csv_has_one_line_per_fabric():
    rows, _ = report(cluster(), ["rail-only", "fat-tree"])
    text = csv_text([r.to_dict() for r in rows])
    assert len(text.strip().splitlines()) == 3
    assert text.startswith("fabric,gpus,hb_domain_size,")


def test_a_range_of_rates_is_bought_for_its_largest():
    on = cluster(network={"fabric": "rail-only", "nic_Gbps": {"min": 100, "max": 800}})
    row = report(on, ["rail-only"])[0][0]
    assert row.network.nic_Bps == 100e9
    assert cluster_on(on, row).network.nic_Gbps == 800
