"""What commands say of their inputs: oddities of a cluster, and plans made for another cluster or model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from commands import CLUSTER, MODEL, write_inputs

from autotune.answers import cluster_warnings, fingerprint, origin_warnings
from autotune.cli import main
from autotune.emit.neutral import plan_yaml
from autotune.load import load_cluster, load_model, load_plan, load_plan_and_origin
from autotune.plan import Plan

FEW_NICS = CLUSTER + "launch: {ib_hca: [a, b, c, d]}\n"
PLAN = Plan(tensor_parallel=2, data_parallel=4, global_batch_size=16, stage_layers=(8,), fabric="rail-only")
COMMANDS = {
    "search": ["search", "c.yaml", "m.yaml", "--trials", "1"],
    "sweep": ["sweep", "c.yaml", "m.yaml", "--vary", "nic_Gbps=100,400"],
    "size": ["size", "c.yaml", "m.yaml", "--gpus", "8"],
    "explain": ["explain", "c.yaml", "m.yaml", "p.yaml"],
    "emit": ["emit", "c.yaml", "m.yaml", "p.yaml", "--out", "o", "--force"],
    "traffic": ["traffic", "c.yaml", "m.yaml", "p.yaml"],
    "check": ["check", "c.yaml", "m.yaml", "p.yaml", "--no-search"],
    "check deepspeed": ["check", "c.yaml", "m.yaml", "--deepspeed", "ds.json", "--no-search"],
    "check script": ["check", "c.yaml", "--command", "job.sh", "--no-search"],
}
SCRIPT = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 1 --global-batch-size 16 --bf16\n"
)


@pytest.fixture
def ask(tmp_path, monkeypatch, capsys):
    """`ask(command, *options)`: exit code, stdout, and the warnings on stderr, of a command in a folder with its inputs."""
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    (tmp_path / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 1, "train_batch_size": 16, "bf16": {"enabled": true}}')
    (tmp_path / "job.sh").write_text(SCRIPT)
    (tmp_path / "p.yaml").write_text(plan_yaml(load_cluster("c.yaml"), load_model("m.yaml"), PLAN))

    def run(name, *options):
        monkeypatch.setattr(sys, "argv", ["autotune", *COMMANDS[name], *options])
        code = 0
        try:
            main()
        except SystemExit as e:
            code = e.code
        captured = capsys.readouterr()
        return code, captured.out, [line for line in captured.err.splitlines() if line.startswith("warning: ")]

    run.folder = tmp_path
    return run


@pytest.mark.parametrize("name", [n for n in COMMANDS if n != "traffic"])
def test_commands_that_price_a_cluster_show_its_oddities(name, ask):
    regular = ask(name)
    assert regular[2] == []
    assert json.loads(ask(name, "--json")[1])["warnings"] == []
    (ask.folder / "c.yaml").write_text(FEW_NICS)
    code, _, warned = ask(name)
    assert len(warned) == 1 and "4 NICs for 8 GPUs" in warned[0] and "network.nic_Gbps 200" in warned[0]
    assert code == regular[0]
    code, out, _ = ask(name, "--json")
    assert [f"warning: {text}" for text in json.loads(out)["warnings"]] == warned and code == regular[0]


def test_csv_keeps_stdout_to_itself(ask):
    (ask.folder / "c.yaml").write_text(FEW_NICS)
    _, out, warned = ask("search", "--csv")
    assert warned and "NICs" not in out


def test_result_json_holds_the_warnings(ask):
    (ask.folder / "c.yaml").write_text(FEW_NICS)
    ask("search", "--out", "found")
    assert "4 NICs" in json.loads((ask.folder / "found" / "result.json").read_text())["warnings"][0]


def test_a_script_is_judged_on_the_rate_that_an_option_gives(ask):
    (ask.folder / "c.yaml").write_text(FEW_NICS)
    _, _, warned = ask("check script", "--nic-Gbps", "200", "--fabric", "fat-tree")
    assert warned == []


def test_following_the_advice_ends_it():
    cluster = load_cluster("h100-superpod-1024")
    launch = cluster.launch.model_copy(update={"ib_hca": ["a", "b", "c", "d"]})
    few = cluster.model_copy(update={"launch": launch, "network": cluster.network.model_copy(update={"nic_Gbps": None})})
    (text,) = cluster_warnings(few)
    advised = float(text.rsplit("network.nic_Gbps ", 1)[1])
    assert cluster_warnings(few.model_copy(update={"network": cluster.network.model_copy(update={"nic_Gbps": advised})})) == []


HOST = Path(__file__).resolve().parents[1] / "imports" / "hosts" / "topo_dgx2_16gpu_10nic.txt"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_import_shows_the_oddities_of_its_cluster(options, monkeypatch, capsys):
    command = ["cluster", "import", "--smi-topo", str(HOST), "--gpu", "V100-32GB-SXM", "--nodes", "2", "--fabric", "rail-only", *options]
    monkeypatch.setattr(sys, "argv", ["autotune", *command])
    main()
    captured = capsys.readouterr()
    text = json.loads(captured.out)["warnings"][0] if options else captured.err
    assert "8 NICs for 16 GPUs: some rails have no NIC" in text and "nic_Gbps" not in text  # the import counts shared NICs


@pytest.mark.parametrize("name", ["explain", "emit", "traffic", "check"])
def test_a_plan_of_another_cluster_or_model_is_told(name, ask):
    assert ask(name)[2] == []
    (ask.folder / "c.yaml").write_text(CLUSTER.replace("nic_Gbps: 400", "nic_Gbps: 200"))
    code, _, warned = ask(name)
    assert code == 0 and len(warned) == 1 and "another cluster" in warned[0] and "cluster_hash" in warned[0]
    (ask.folder / "m.yaml").write_text(MODEL.replace("vocab_size: 32000", "vocab_size: 64000"))
    code, out, _ = ask(name, "--json")
    assert code == 0 and [t.split(" (")[0] for t in json.loads(out)["warnings"]] == [
        "the plan was made for another cluster", "the plan was made for another model"
    ]  # fmt: skip


def test_names_notes_and_defaults_do_not_make_another_cluster(ask):
    (ask.folder / "c.yaml").write_text(CLUSTER.replace("name: c", "name: d\ndescription: x\nstack: megatron-core") + "launch: {partition: gpu}\n")
    (ask.folder / "m.yaml").write_text(MODEL.replace("name: m", "name: n").replace("context_parallel: 1", "context_parallel: [1, 2]"))
    assert ask("explain")[2] == []


def test_hashes_of_a_search_result_reach_the_plan(ask):
    ask("search", "--out", "found")
    here = {k: v for k, v in fingerprint(load_cluster("c.yaml"), load_model("m.yaml")).items() if k != "tool_version"}
    for file in ("found/plan.yaml", "found/result.json"):
        plan, origin = load_plan_and_origin(file)
        assert origin == here and plan == load_plan(file), file
    assert plan == load_plan("found/plan.yaml")


@pytest.mark.parametrize("hashes", ["", "cluster_hash: 5\nmodel_hash: [x]\n", "tool_version: 0.0.1\n"])
def test_files_without_usable_hashes_are_read_and_nothing_is_said(hashes, ask):
    lines = (ask.folder / "p.yaml").read_text().splitlines(keepends=True)
    (ask.folder / "p.yaml").write_text("".join(line for line in lines if "_hash" not in line) + hashes)
    assert load_plan("p.yaml") == PLAN
    assert ask("explain")[2] == []


def test_each_part_is_judged_alone():
    cluster, model = load_cluster("h100-rail-1024"), load_model("gpt-175b")
    origin = fingerprint(cluster, model)
    (text,) = origin_warnings({**origin, "model_hash": "0" * 16}, cluster, model)
    assert "another model" in text and origin["model_hash"] in text and model.name in text
