"""`autotune search` as a user runs it: the documents it prints, bad input, and what it says when nothing fits."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from commands import CLUSTER, MODEL, run, search_json, write_inputs

PLAN_KEYS = {
    "tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel",
    "virtual_stages", "micro_batch_size", "global_batch_size", "micro_batches", "sequence_parallel", "recompute",
    "distributed_optimizer", "zero_stage", "stage_layers", "rank_order", "hb_domain_size", "nic_Gbps", "fabric", "stack", "id",
    "iteration_time_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "mfu", "hfu", "memory_GiB", "breakdown_s", "rail",
}  # fmt: skip
BREAKDOWN = {
    "compute", "recompute", "tensor_comm", "context_comm", "expert_comm", "pipeline_comm", "pipeline_bubble", "data_comm", "optimizer",
    "overhead",
}  # fmt: skip
MEMORY = {"weights", "gradients", "optimizer", "activations", "logits", "buffers", "reserve", "total"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_inputs(tmp_path)
    return tmp_path


def test_the_document_has_every_key_and_its_sums_hold(folder):
    document = search_json(folder, "--top", 3, "--seed", 7)
    assert document["seed"] == 7 and {"inputs", "versions"} <= document.keys()
    search = document["search"]
    assert search["exhaustive"] is True and search["optimality"].startswith("proved optimal over")
    assert search["points_total"] == search["points_scored"] + sum(search["rejected"].values())
    assert search["points_scored"] == search["points_feasible"] > 0 and search["elapsed_s"] > 0 and search["points_per_s"] > 0
    assert len(document["plans"]) == 3
    for plan in document["plans"]:
        assert PLAN_KEYS <= plan.keys()
        assert plan["breakdown_s"].keys() == BREAKDOWN
        assert sum(plan["breakdown_s"].values()) == pytest.approx(plan["iteration_time_s"], rel=1e-12)
        memory = plan["memory_GiB"]
        assert len(memory["by_stage"]) == plan["pipeline_parallel"] == len(plan["stage_layers"])
        for stage in memory["by_stage"]:
            assert stage.keys() == MEMORY
            assert sum(v for k, v in stage.items() if k != "total") == pytest.approx(stage["total"], rel=1e-12)
        assert max(s["total"] for s in memory["by_stage"]) == memory["peak"] <= memory["capacity"]
        degrees = [plan[f"{k}_parallel"] for k in ("tensor", "pipeline", "data", "context")]
        assert degrees[0] * degrees[1] * degrees[2] * degrees[3] == 8
        assert sum(plan["stage_layers"]) == 8 and plan["rail"]["compatible"] is True and 0 < plan["mfu"] < 1
    times = [p["iteration_time_s"] for p in document["plans"]]
    assert times == sorted(times)


def test_same_inputs_same_answer(folder):
    a, b = (search_json(folder, "--jobs", jobs) for jobs in (1, 2))
    assert a["plans"] == b["plans"] and a["search"]["rejected"] == b["search"]["rejected"]


def test_stdout_holds_one_document_and_progress_goes_elsewhere(folder):
    quiet = run(folder, "-q", "search", "c.yaml", "m.yaml", "--json")
    assert json.loads(quiet.stdout)["plans"] and quiet.stderr == ""
    table = run(folder, "search", "c.yaml", "m.yaml")
    assert "proved optimal over" in table.stdout and "\x1b" not in table.stdout


def test_csv(folder):
    done = run(folder, "search", "c.yaml", "m.yaml", "--csv", "--top", 4)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 4 and float(rows[0]["iteration_time_s"]) <= float(rows[3]["iteration_time_s"])
    assert float(rows[0]["iteration_time_s"]) == pytest.approx(sum(float(rows[0][f"{k}_s"]) for k in BREAKDOWN))


def test_what_out_holds_is_the_printed_plan(folder):
    document = search_json(folder, "--out", "o", "--target", "megatron,deepspeed")
    assert json.loads((folder / "o" / "result.json").read_text())["plans"] == document["plans"]
    priced = run(folder, "check", "c.yaml", "m.yaml", "o/plan.yaml", "--json")
    assert priced.returncode == 0
    found = json.loads(priced.stdout)
    assert found["legal"] and found["fits"]
    assert found["iteration_time_s"] == pytest.approx(document["plans"][0]["iteration_time_s"], rel=1e-12)
    assert abs(found["gap"]) < 1e-9
    assert (folder / "o" / "megatron").is_dir() and (folder / "o" / "deepspeed").is_dir()


BAD = [
    (CLUSTER.replace("gpus: 8", "gpus: -8"), MODEL, ["c.yaml:3", "gpus"]),
    (CLUSTER.replace("gpus: 8", "gpus: 0"), MODEL, ["c.yaml:3"]),
    (CLUSTER.replace("gpus: 8", "gpus: eight"), MODEL, ["c.yaml:3"]),
    (CLUSTER.replace("gpus: 8", "gpus: 2.5"), MODEL, ["c.yaml:3"]),
    (CLUSTER.replace("gpus: 8", "gpuz: 8"), MODEL, ["c.yaml:3", "did you mean 'gpus'"]),
    (CLUSTER.replace("H100-80GB-SXM", "H100-80GB-SMX"), MODEL, ["c.yaml:2", "did you mean"]),
    (CLUSTER.replace("rail-only", "rails-only"), MODEL, ["c.yaml:4", "did you mean 'rail-only'"]),
    (CLUSTER.replace("nic_Gbps: 400", "nic_Gbps: -1"), MODEL, ["c.yaml:4", "nic_Gbps"]),
    (CLUSTER + "stack: megatron-cor\n", MODEL, ["c.yaml:5", "megatron-core"]),
    (CLUSTER + "hb_domain: {size: 3}\n", MODEL, ["3", "8"]),
    (CLUSTER, MODEL.replace("hidden_size: 2048", "hidden_size: 2047"), ["m.yaml", "2047"]),
    (CLUSTER, MODEL.replace("num_layers: 8", "num_layers: 0"), ["m.yaml:2"]),
    (CLUSTER, MODEL.replace("vocab_size: 32000\n", ""), ["m.yaml", "vocab_size"]),
    (CLUSTER, MODEL.replace("context_parallel: 1", "context_parallel: 0"), ["m.yaml:8"]),
    (CLUSTER, MODEL.replace("16}", "-16}"), ["m.yaml:7"]),
    (CLUSTER, "a: [1\n", ["m.yaml"]),
    ("", MODEL, ["c.yaml"]),
]


@pytest.mark.parametrize(("cluster", "model", "expected"), BAD)
def test_bad_input_names_its_place_and_exits_2(tmp_path, cluster, model, expected):
    write_inputs(tmp_path, cluster, model)
    done = run(tmp_path, "search", "c.yaml", "m.yaml", "--json")
    assert done.returncode == 2, done.stderr
    assert all(text in done.stderr for text in expected), done.stderr
    document = json.loads(done.stdout)
    assert document["exit_code"] == 2 and document["problems"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("search",), ("search", "c.yaml"), ("search", "nowhere.yaml", "m.yaml"), ("search", "c.yaml", "no-such-model"),
        ("search", "c.yaml", "m.yaml", "--top", "0"), ("search", "c.yaml", "m.yaml", "--target", "megatorn"),
        ("search", "c.yaml", "m.yaml", "--objective", "speed"), ("search", "c.yaml", "m.yaml", "--trials", "-1"),
        ("search", "c.yaml", "m.yaml", "--backend", "spark"), ("search", "c.yaml", "m.yaml", "--seed", "x"), ("serach",),
        ("search", "c.yaml", "m.yaml", "--no-such-option"),
    ],
)  # fmt: skip
def test_bad_usage_exits_2(folder, arguments):
    done = run(folder, *arguments)
    assert done.returncode == 2 and done.stderr.strip() and done.stdout == ""


def test_a_model_that_fits_nowhere(tmp_path):
    write_inputs(tmp_path, CLUSTER.replace("H100-80GB-SXM", "A100-40GB-SXM"), MODEL.replace("num_layers: 8", "num_layers: 96").replace("2048\nnum", "12288\nnum").replace("heads: 16", "heads: 96"))
    document = search_json(tmp_path, code=3)
    assert document["exit_code"] == 3 and document["rejected"]["memory"] > 0
    assert sum(document["rejected"].values()) == document["search"]["points_total"]
    miss = document["closest_miss"]
    assert miss["over_GiB"] > 0
    assert miss["plan"]["memory_GiB"]["peak"] - miss["plan"]["memory_GiB"]["capacity"] == pytest.approx(miss["over_GiB"], rel=1e-6)
    change = document["smallest_change"]
    assert change["text"] in document["error"]
    bigger = next(o for o in change["options"] if o.endswith("GPUs instead of 8"))
    gpus = int(bigger.split()[0])
    for count, code in ((gpus, 0), (gpus // 2, 3)):
        (tmp_path / "c.yaml").write_text(CLUSTER.replace("H100-80GB-SXM", "A100-40GB-SXM").replace("gpus: 8", f"gpus: {count}"))
        search_json(tmp_path, code=code)


def test_limits_that_leave_nothing(tmp_path):
    write_inputs(tmp_path, CLUSTER, MODEL.replace("context_parallel: 1", "tensor_parallel: 7, context_parallel: 1"))
    done = run(tmp_path, "search", "c.yaml", "m.yaml", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 3 and document["smallest_change"]["kind"] == "limits"


def test_hardware_left_open_is_searched_and_proved(tmp_path):
    write_inputs(tmp_path, CLUSTER.replace("gpus: 8", "gpus: [4, 8]").replace("400", "[100, 400]"))
    document = search_json(tmp_path)
    settings = {(s["setting"]["gpus"], s["setting"]["nic_Gbps"]): s["iteration_time_s"] for s in document["settings"]}
    assert len(settings) == 4 and document["search"]["exhaustive"] is True
    fixed = {}
    for gpus, nic in settings:
        write_inputs(tmp_path, CLUSTER.replace("gpus: 8", f"gpus: {gpus}").replace("400", f"{nic}"))
        fixed[gpus, nic] = search_json(tmp_path)["plans"][0]["iteration_time_s"]
    assert settings == fixed
    # GPU counts differ, so settings are compared by what one GPU gets done.
    assert document["plans"][0]["iteration_time_s"] in [fixed[k] for k in fixed if fixed[k] * k[0] == min(t * n for (n, _), t in fixed.items())]


def test_several_objectives_give_a_pareto_front(tmp_path):
    write_inputs(tmp_path, CLUSTER.replace("gpus: 8", "gpus: 64").replace("400", "[100, 200, 400]"))
    document = search_json(tmp_path, "--objective", "time,cost")
    front = [r["objectives"] for r in document["pareto"]]
    everything = [s["objectives"] for s in document["settings"] if s.get("objectives")]
    assert front and len(everything) == 3
    for point in front:
        assert not any(o["time"] <= point["time"] and o["cost"] <= point["cost"] and o != point for o in everything)
    assert min(f["time"] for f in front) == min(o["time"] for o in everything)
