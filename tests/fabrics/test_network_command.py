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
