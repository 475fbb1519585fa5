"""Plan files: bare plans, search results, and faults."""

import json

import pytest

from autotune.errors import InputError
from autotune.load import dump_yaml, load_model, load_plan
from autotune.plan import Plan

PLAN = Plan(
    tensor_parallel=8, pipeline_parallel=8, data_parallel=16, virtual_stages=2, global_batch_size=1536,
    sequence_parallel=True, recompute="selective", stage_layers=(12,) * 8, nic_Gbps=200.0, fabric="rail-only",
)  # fmt: skip


@pytest.fixture
def plan(tmp_path):
    def load(content, model=None):
        path = tmp_path / "plan.yaml"
        path.write_text(content if isinstance(content, str) else dump_yaml(content))
        return load_plan(path, model)

    return load


def predicted(**more):
    return {
        **PLAN.to_dict(), "iteration_time_s": 9.5, "mfu": 0.45, "hfu": 0.5, "tokens_per_s_per_gpu": 320.0,
        "memory_GiB": {"peak": 60.0, "capacity": 80.0, "by_stage": [{"weights": 1.0}]}, "breakdown_s": {"compute": 9.0},
        "rail": {"compatible": True, "cross_rail_bytes": 0, "groups": []}, "model_tflops_per_gpu": 140.0, **more,
    }  # fmt: skip


def test_round_trip(plan):
    assert plan(PLAN.to_dict()) == PLAN
    assert plan(json.dumps(PLAN.to_dict())) == PLAN


def test_predictions_beside_a_plan_are_read_past(plan):
    assert plan(predicted()) == PLAN


def test_the_result_of_a_search_gives_its_best_plan(plan):
    document = {"plans": [predicted(), predicted(tensor_parallel=4)], "search": {"points_total": 9}, "seed": 0}
    assert plan(json.dumps(document, indent=1)) == PLAN
    assert plan({"plan": PLAN.to_dict()}) == PLAN


def test_stage_layers_from_the_model(plan):
    fields = {k: v for k, v in PLAN.to_dict().items() if k != "stage_layers"}
    assert plan(fields, load_model("gpt-175b")).stage_layers == (12,) * 8
    assert sum(plan({**fields, "pipeline_parallel": 5}, load_model("gpt-175b")).stage_layers) == 96
    with pytest.raises(InputError, match="is required: the layers of each pipeline stage"):
        plan(fields)


def test_whole_numbers_written_as_fractions(plan):
    assert plan({**PLAN.to_dict(), "tensor_parallel": 8.0, "stage_layers": [12.0] * 8}) == PLAN


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ({"tensor_parallel": 0}, "tensor_parallel", "at least 1"),
        ({"tensor_parallel": 2.5}, "tensor_parallel", "integer"),
        ({"tensor_parallel": "eight"}, "tensor_parallel", "integer"),
        ({"tensor_parallel": True}, "tensor_parallel", "integer"),
        ({"tensor_parallel": 10**30}, "tensor_parallel", "sensible size"),
        ({"tensor_parallel": 2**21}, "tensor_parallel", "at most 1,048,576"),
        ({"tensor_parallel": 1024, "data_parallel": 1024}, "data_parallel", "multiply to 8,388,608 GPUs"),
        ({"tensor_paralel": 8}, "tensor_paralel", "did you mean 'tensor_parallel'?"),
        ({"stage_layers": [1, 2]}, "stage_layers", "lists 2 stages"),
        ({"stage_layers": 12}, "stage_layers", "list of layer counts"),
        ({"stage_layers": [10**6] * 8}, "stage_layers", "100,000"),
        ({"micro_batches": 7}, "micro_batches", "the batch sizes give 96"),
        ({"global_batch_size": 1537}, "global_batch_size", "not a multiple"),
        ({"recompute": "some"}, "recompute", "one of none, selective, full"),
        ({"rank_order": "x"}, "rank_order", "one of"),
        ({"zero_stage": 4}, "zero_stage", "0, 1, 2 or 3"),
        ({"distributed_optimizer": False}, "distributed_optimizer", "zero_stage is 1"),
        ({"nic_Gbps": float("inf")}, "nic_Gbps", "finite"),
        ({"nic_Gbps": float("nan")}, "nic_Gbps", "finite"),
        ({"fabric": "rail-olny"}, "fabric", "did you mean 'rail-only'?"),
        ({"stack": "no-such-stack"}, "stack", "unknown stack"),
        ({"expert_parallel": 3}, "expert_parallel", "must divide"),
    ],
)  # fmt: skip
def test_each_fault_is_named(plan, change, key, words):
    with pytest.raises(InputError) as caught:
        plan({**predicted(), **change})
    problem = next(p for p in caught.value.problems if p.key == key)
    assert words in problem.message and problem.line > 0


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "a: 1", "plans: []", "plans: [3]", "plans: 7", "{", "- tensor_parallel: 8"]
)
def test_hopeless_files_are_refused(plan, text):
    with pytest.raises(InputError):
        plan(text)
