"""`autotune traffic` as a user runs it."""

import csv
import json

import pytest
from click.testing import CliRunner

from autotune.cli import main
from autotune.cli.traffic import command
from autotune.errors import InputError

CLUSTER = """
name: small-rail
gpu: H100-80GB-SXM
gpus: 64
hb_domain: {size: 8}
network: {fabric: rail-only, nic_Gbps: 400}
"""
MODEL = """
name: small
num_layers: 8
hidden_size: 1024
num_attention_heads: 16
vocab_size: 51200
seq_length: 1024
"""
PLAN = """
tensor_parallel: 4
pipeline_parallel: 2
data_parallel: 8
global_batch_size: 32
sequence_parallel: true
"""


@pytest.fixture
def files(tmp_path):
    for name, text in (("cluster", CLUSTER), ("model", MODEL), ("plan", PLAN)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return [str(tmp_path / f"{name}.yaml") for name in ("cluster", "model", "plan")]


def run(*arguments):
    return CliRunner().invoke(command, list(arguments), catch_exceptions=False)


def test_json_is_one_document_with_the_contract_keys(files):
    found = json.loads(run(*files, "--json").stdout)
    assert {"kinds", "idle_pairs_share", "rails", "tiers", "groups", "compatible"} <= set(found)
    for kind in found["kinds"].values():
        assert {"bytes", "share", "class", "direct", "relayed", "crossing"} == set(kind)
    assert found["compatible"] and len(found["rails"]) == 8
    assert sum(k["share"] for k in found["kinds"].values()) == pytest.approx(1)


def test_out_folder_lists_every_pair_and_group(files, tmp_path):
    found = json.loads(run(*files, "--json", "--out", str(tmp_path / "out")).stdout)
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {"traffic.json", "groups.csv", "pairs.csv", "traffic.svg", "traffic.png"}
    with (tmp_path / "out" / "pairs.csv").open() as f:
        rows = list(csv.DictReader(f))
    assert sum(float(r["bytes"]) for r in rows) == pytest.approx(found["bytes"])
    assert len({(r["source"], r["target"]) for r in rows}) == round((1 - found["idle_pairs_share"]) * 64 * 63)
    with (tmp_path / "out" / "groups.csv").open() as f:
        groups = list(csv.DictReader(f))
    assert [g["kind"] for g in groups] == [g["kind"] for g in found["groups"]]
    with pytest.raises(InputError, match="not empty"):
        run(*files, "--out", str(tmp_path / "out"))


def test_plain_output_says_whether_rails_suffice(files, tmp_path):
    assert "rails alone carry this plan" in run(*files).stdout
    crossing = tmp_path / "crossing.yaml"
    crossing.write_text(PLAN.replace("tensor_parallel: 4", "tensor_parallel: 3").replace("global_batch_size: 32", "global_batch_size: 48"))
    assert "needs links between rails" in run(*files[:2], str(crossing)).stdout


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("data_parallel: 8", "data_parallel: 16", "needs 128 GPUs, small-rail has 64"),
        ("data_parallel: 8", "data_parallel: 8\nstage_layers: [5, 4]", "do not share out 8 layers"),
    ],
)
def test_bad_plans_exit_2(files, tmp_path, monkeypatch, capsys, old, new, message):
    bad = tmp_path / "bad.yaml"
    bad.write_text(PLAN.replace(old, new))
    monkeypatch.setattr("sys.argv", ["autotune", "traffic", *files[:2], str(bad)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2 and message in capsys.readouterr().err
