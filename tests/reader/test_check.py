"""`autotune check` end to end: verdicts, exit codes, one JSON document."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from autotune.check_cluster import quick_cluster, sized
from autotune.cli import main
from autotune.load import load_cluster

SCRIPTS = Path(__file__).parent / "scripts"
CLUSTER = """name: eight
gpu: H100-80GB-SXM
gpus: 8
network: {fabric: rail-only, nic_Gbps: 400}
"""
MODEL = """name: small
num_layers: 8
hidden_size: 2048
num_attention_heads: 16
vocab_size: 32000
seq_length: 2048
training: {global_batch_size: 32}
"""
KEYS = {"legal", "violations", "fits", "memory_GiB", "rail", "iteration_time_s", "mfu", "best", "gap", "advice"}


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a command line in a folder that holds a cluster and a model; gives (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "model.yaml").write_text(MODEL)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["autotune", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as e:
            code = e.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def write_plan(**fields):
    plan = dict(tensor_parallel=1, pipeline_parallel=1, data_parallel=8, micro_batch_size=1, global_batch_size=32, stage_layers=[8], fabric="rail-only")
    Path("plan.yaml").write_text(json.dumps({**plan, **fields}))


def check_json(run, *arguments):
    code, out, _ = run("check", *arguments, "--json")
    return code, json.loads(out)


def test_a_sound_plan(run):
    write_plan()
    code, d = check_json(run, "cluster.yaml", "model.yaml", "plan.yaml")
    assert code == 0 and set(d) >= KEYS
    assert d["legal"] and d["fits"] and d["violations"] == [] and d["rail"]["compatible"]
    assert d["gap"] >= 0 and d["best"]["iteration_time_s"] <= d["iteration_time_s"] and 0 < d["mfu"] < 1
    assert d["best"]["data_parallel"] * d["best"]["tensor_parallel"] * d["best"]["pipeline_parallel"] * d["best"]["context_parallel"] == 8


def test_the_best_plan_has_no_gap(run):
    write_plan()
    _, d = check_json(run, "cluster.yaml", "model.yaml", "plan.yaml")
    Path("best.json").write_text(json.dumps({k: v for k, v in d["best"].items()}))
    code, again = check_json(run, "cluster.yaml", "model.yaml", "best.json")
    assert code == 0 and abs(again["gap"]) < 1e-9


@pytest.mark.parametrize(
    ("fields", "rule", "axis", "nearest"),
    [
        (dict(tensor_parallel=3, data_parallel=2), "heads_per_tensor_rank", "tensor_parallel", [2, 4]),
        (dict(global_batch_size=36), "global_batch", "global_batch_size", [32, 40]),
        (dict(pipeline_parallel=3, data_parallel=2, stage_layers=[3, 3, 3]), "layers_per_stage", "stage_layers", [[2, 3, 3]]),
        (dict(expert_parallel=2), "experts_per_expert_rank", "expert_parallel", [1]),
        (dict(pipeline_parallel=2, data_parallel=4, stage_layers=[4, 4], virtual_stages=3), "layers_per_chunk", "virtual_stages", [2, 4]),
    ],
)
def test_an_illegal_plan_exits_4_with_the_nearest_legal_values(run, fields, rule, axis, nearest):
    write_plan(**fields)
    code, d = check_json(run, "cluster.yaml", "model.yaml", "plan.yaml", "--no-search")
    assert code == 4 and not d["legal"]
    found = {v["rule"]: v["nearest"] for v in d["violations"]}
    if rule == "layers_per_stage":
        assert sum(found[rule][axis][0]) == 8
    else:
        assert found[rule][axis] == nearest


def test_a_plan_that_does_not_fit_exits_4_and_says_what_would(run):
    Path("model.yaml").write_text(MODEL.replace("num_layers: 8", "num_layers: 48").replace("2048\nnum", "8192\nnum").replace("heads: 16", "heads: 64"))
    write_plan(stage_layers=[48], zero_stage=0)
    code, d = check_json(run, "cluster.yaml", "model.yaml", "plan.yaml")
    assert code == 4 and d["legal"] and not d["fits"]
    assert d["memory_GiB"]["peak"] > d["memory_GiB"]["capacity"] and d["advice"]
    code, out, err = run("check", "cluster.yaml", "model.yaml", "plan.yaml", "--no-search")
    assert code == 4 and "DOES NOT FIT" in out and "not sound" in err


def test_a_script_on_a_named_gpu(run):
    code, d = check_json(run, "--gpu", "H100-80GB-SXM", "--command", SCRIPTS / "megatron_2021_placeholder.sh")
    assert code == 0 and d["gpus"] == 8
    assert d["recovered"]["plan"]["tensor_parallel"] == 2 and d["plan"]["pipeline_parallel"] == 2 and d["best"]


def test_an_illegal_script(run):
    code, out, _ = run("check", "--gpu", "A100-80GB-SXM", "--command", SCRIPTS / "zero_bubble_defaults.sh", "--set", "GPUS_PER_NODE=8", "--no-search")
    assert code == 4 and "flag_without_value" in out and "GQA is not set" in out
    code, *_ = run("check", "--gpu", "A100-80GB-SXM", "--command", SCRIPTS / "zero_bubble_defaults.sh", "--set", "GPUS_PER_NODE=8", "--set", "GQA=8", "--no-search")
    assert code == 0


def test_tensor_groups_over_nodes_are_not_rail_clean(run):
    _, d = check_json(run, "--gpu", "A100-80GB-SXM", "--fabric", "rail-only", "--command", SCRIPTS / "figure13/run.sh", "--no-search")
    assert not d["rail"]["clean"] and "tensor groups of 32 GPUs span 4 HB domains of 8" in d["rail"]["reasons"]
    _, d = check_json(run, "--gpu", "A100-80GB-SXM", "--fabric", "rail-only", "--command", SCRIPTS / "megatron_2021_placeholder.sh", "--no-search")
    assert d["rail"]["clean"] and not d["rail"]["reasons"]


def test_what_is_missing_exits_2_and_is_named(run):
    code, out, err = run("check", "--gpu", "H100-80GB-SXM", "--command", SCRIPTS / "kubeflow_job.yaml-template", "--json")
    d = json.loads(out)
    assert code == 2 and {"NUM_LAYERS", "TENSOR_PARALLEL", "GPU_PER_NODE"} <= set(d["missing"]) and "NUM_LAYERS" in err
    code, _, err = run("check", "--gpu", "H100-80GB-SXM", "--command", SCRIPTS / "neox_mistral_shape_only.yml")
    assert code == 2 and "train_micro_batch_size_per_gpu" in err
    code, _, err = run("check", "--command", SCRIPTS / "megatron_2019_gpt2.sh")
    assert code == 2 and "--gpu" in err


def test_several_files_of_one_job(run):
    Path("batch.yml").write_text('{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 1}, "precision": "bfloat16"}')
    command = ["--command", SCRIPTS / "neox_mistral_shape_only.yml", "--command", "batch.yml", "--set", "WORLD_SIZE=8", "--no-search"]
    _, d = check_json(run, "--gpu", "H100-80GB-SXM", *command)
    assert d["plan"]["global_batch_size"] == 16 and d["plan"]["zero_stage"] == 1


def test_model_and_batch_beside_the_script(run):
    code, d = check_json(
        run, "--gpu", "A100-80GB-SXM", "--command", SCRIPTS / "accelerate/submit.sh", "--model", "model.yaml", "--micro", "2", "--no-search"
    )
    assert code == 0 and d["gpus"] == 16 and d["plan"]["global_batch_size"] == 32 and d["plan"]["zero_stage"] == 3


def test_deepspeed_json(run):
    Path("ds.json").write_text('{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}')
    code, d = check_json(run, "cluster.yaml", "model.yaml", "--deepspeed", "ds.json", "--no-search")
    assert code == 0 and d["plan"]["global_batch_size"] == 32 and d["plan"]["zero_stage"] == 2
    code, d = check_json(run, "cluster.yaml", "model.yaml", "--deepspeed", "ds.json", "--pp", "2", "--no-search")
    assert code == 4 and [v["rule"] for v in d["violations"]] == ["zero_with_pipeline"]
    Path("ds.json").write_text('{"train_batch_size": 30, "train_micro_batch_size_per_gpu": 2}')
    code, d = check_json(run, "cluster.yaml", "model.yaml", "--deepspeed", "ds.json", "--no-search")
    assert code == 4 and "global_batch" in [v["rule"] for v in d["violations"]]


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("cluster.yaml",), ("cluster.yaml", "model.yaml"), ("cluster.yaml", "model.yaml", "none.yaml"), ("--command", "none.sh", "--gpu", "H100-80GB-SXM"),
        ("--command", "cluster.yaml", "--gpu", "H100-80GB-SXM"), ("--deepspeed", "x.json"), ("--command", "a", "--deepspeed", "b"),
        ("--gpu", "NOGPU", "--command", SCRIPTS / "megatron_2019_gpt2.sh"), ("--gpu", "H100-80GB-SXM", "--set", "x", "--command", SCRIPTS / "megatron_2019_gpt2.sh"),
        ("--gpu", "H100-80GB-SXM", "--fabric", "string", "--command", SCRIPTS / "megatron_2019_gpt2.sh"), ("--command", SCRIPTS / "bridge_three_plans.sh", "--launch", "9", "--gpu", "H100-80GB-SXM"),
        ("--gpu", "H100-80GB-SXM", "--stack", "nostack", "--command", SCRIPTS / "megatron_2019_gpt2.sh"),
    ],
)  # fmt: skip
def test_usage_and_input_errors_exit_2(run, arguments):
    code, _, err = run("check", *arguments)
    assert code == 2 and err.strip() and "Traceback" not in err


def test_sizes_of_a_quick_cluster():
    assert quick_cluster("H100-80GB-SXM", 24, None, None, "rail-only").hb_domain.size == 8
    assert quick_cluster("H100-80GB-SXM", 4, None, None, "rail-only").hb_domain.size == 4
    assert sized(load_cluster("h100-rail-1024"), 64).gpus == 64
