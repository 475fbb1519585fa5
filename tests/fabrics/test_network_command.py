"""`autotune network` as a user runs it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest

CLUSTER = """\
name: t2
gpu: H100-80GB-SXM
gpus: 32768
hb_domain: {size: 256}
network: {fabric: rail-only, nic_Gbps: 400, switch_radix: 128}
"""


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(CLUSTER)
    return path


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "autotune", "network", *map(str, arguments)], capture_output=True, text=True)


def test_json_and_folder(cluster, tmp_path):
    out = tmp_path / "out"
    done = run(cluster, "--compare", "rail-only,rail-optimized", "--failures", "--json", "--out", out)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    rail, clos = document["fabrics"]
    assert (rail["switches"], clos["switches"]) == (256, 1280)
    assert 1 - rail["cost_usd"] / clos["cost_usd"] == pytest.approx(0.766, abs=0.0005)
    assert json.loads((out / "network.json").read_text()) == document
    rows = list(csv.DictReader((out / "network.csv").open()))
    assert [r["fabric"] for r in rows] == ["rail-only", "rail-optimized"]
    for chart in ("cost", "power"):
        assert (out / f"{chart}.svg").stat().st_size > 1000
        assert (out / f"{chart}.png").stat().st_size > 1000
    again = run(cluster, "--out", out)
    assert again.returncode == 2 and "--force" in again.stderr


def test_tables(cluster):
    done = run(cluster, "--compare", "rail-only,rail-optimized", "--failures")
    assert done.returncode == 0, done.stderr
    for text in ("rail-optimized", "1,280", "152.83", "swap within the domain", "694 $"):
        assert text in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--compare", "rail-onyl"], "did you mean 'rail-only'"),
        (["--compare", "multi-plane,ocs-rails,slim-fly", "--prices", "free"], "unknown price set 'free'"),
        (["--compare", "meta-7to1"], "24,576"),
        (["--gpu-usd", "-1"], "gpu-usd"),
    ],
)
def test_bad_input_exits_2_with_one_message(cluster, arguments, message):
    done = run(cluster, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_radix_too_small_names_one_that_works(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(CLUSTER.replace("switch_radix: 128", "switch_radix: 4").replace("fabric: rail-only", "fabric: fat-tree"))
    done = run(path)
    assert done.returncode == 2
    assert "the smallest switch_radix that works is 52" in done.stderr
    path.write_text(path.read_text().replace("switch_radix: 4", "switch_radix: 52"))
    assert run(path).returncode == 0


MOE = """\
name: small-moe
num_layers: 8
hidden_size: 2048
num_attention_heads: 16
ffn_hidden_size: 8192
vocab_size: 32000
seq_length: 4096
num_experts: 32
moe_router_topk: 4
moe_ffn_hidden_size: 2048
training: {global_batch_size: 64}
search: {expert_parallel: 32, pipeline_parallel: 1, context_parallel: 1}
"""


def test_a_clos_is_faster_where_experts_cross_domains(tmp_path):
    """32-way expert parallelism over domains of 8: the rail-only plan pays relays, so a Clos has a break-even GPU price."""
    (tmp_path / "c.yaml").write_text(CLUSTER.replace("32768", "128").replace("size: 256", "size: 8").replace("128}", "16}"))
    (tmp_path / "m.yaml").write_text(MOE)
    out = tmp_path / "out"
    arguments = ["--compare", "rail-only,rail-optimized", "--model", tmp_path / "m.yaml", "--gpu-usd", 40000]
    done = run(tmp_path / "c.yaml", *arguments, "--json", "--out", out)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    rail, clos = document["fabrics"]
    for row in (rail, clos):
        assert row["plan"]["expert_parallel"] == 32
        assert row["usd_includes_gpus"]
        total = row["cost_usd"] + 40000 * 128
        assert row["usd_per_tokens_per_s"] == pytest.approx(total / row["goodput_tokens_per_s"])
        per_step = 64 * 4096 / row["iteration_time_s"]
        assert row["tokens_per_s"] == pytest.approx(per_step)
        assert row["goodput_tokens_per_s"] == pytest.approx(per_step * row["goodput"] / row["straggler_factor"])
    assert clos["iteration_time_s"] < rail["iteration_time_s"]
    (entry,) = document["break_even"]
    assert entry["fabric"] != entry["against"]
    assert (out / "throughput.svg").exists()


def test_a_fabric_without_a_plan_says_why(tmp_path):
    (tmp_path / "c.yaml").write_text(CLUSTER.replace("32768", "128").replace("size: 256", "size: 8"))
    (tmp_path / "m.yaml").write_text(MOE.replace("expert_parallel: 32, ", ""))
    done = run(tmp_path / "c.yaml", "--compare", "rail-only,nvl72-rails", "--model", tmp_path / "m.yaml", "--json")
    assert done.returncode == 0, done.stderr
    rail, rack = json.loads(done.stdout)["fabrics"]
    assert rail["plan"] is not None
    assert rack["plan"] is None and "not whole HB domains of 72" in rack["reason"]


def test_no_plan_on_any_fabric_exits_3(tmp_path):
    (tmp_path / "c.yaml").write_text(CLUSTER.replace("32768", "8").replace("size: 256", "size: 8"))
    done = run(tmp_path / "c.yaml", "--compare", "rail-only,fat-tree", "--model", "gpt-175b")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
