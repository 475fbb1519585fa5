"""Each legality rule: a plan that breaks it is caught, its neighbours suggested by `nearest` are not."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.legality import RULES, balanced_stage_layers, nearest_divisors, violations
from autotune.plan import Plan
from autotune.specs import ModelSpec


def model(**changes):
    fields = dict(
        name="m", num_layers=32, hidden_size=4096, num_attention_heads=32, num_query_groups=8, ffn_hidden_size=11008,
        swiglu=True, vocab_size=32000, seq_length=4096, add_bias_linear=False, untie_embeddings_and_output_weights=True,
    )
    return ModelSpec(**{**fields, **changes})


def plan(**changes):
    fields = dict(tensor_parallel=2, pipeline_parallel=2, data_parallel=2, global_batch_size=8, stage_layers=(16, 16))
    return Plan(**{**fields, **changes})


MOE = dict(num_experts=8, moe_ffn_hidden_size=4096)

# rule, model changes, plan changes, target, a field and the values that must be suggested for it
BROKEN = [
    ("heads_per_tensor_rank", dict(hidden_size=5120, num_attention_heads=40, num_query_groups=40, ffn_hidden_size=20480),
     dict(tensor_parallel=3), "megatron", ("tensor_parallel", [2, 4])),
    ("query_groups_per_tensor_rank", dict(num_attention_heads=48, num_query_groups=6, hidden_size=6144, ffn_hidden_size=18432),
     dict(tensor_parallel=4), "megatron", ("tensor_parallel", [3, 6])),
    ("query_groups_whole", dict(num_query_groups=4), dict(tensor_parallel=8), "torchtitan", ("tensor_parallel", [4])),
    ("experts_need_sequence_parallel", MOE, {}, "megatron", ("sequence_parallel", [True])),
    ("ffn_per_tensor_rank", dict(ffn_hidden_size=11010), dict(tensor_parallel=4), "megatron", ("tensor_parallel", [2])),
    ("layers_per_stage", {}, dict(pipeline_parallel=5, stage_layers=(6, 6, 6, 6, 6)), "megatron", ("stage_layers", [(6, 7, 7, 6, 6)])),
    ("layers_per_stage", {}, dict(stage_layers=(16,)), "megatron", ("stage_layers", [(16, 16)])),
    ("chunks_need_pipeline", {}, dict(pipeline_parallel=1, stage_layers=(32,), virtual_stages=2), "megatron", ("virtual_stages", [1])),
    ("layers_per_chunk", {}, dict(virtual_stages=3, global_batch_size=8), "megatron", ("virtual_stages", [2, 4])),
    ("micro_batches_per_chunk_group", {}, dict(virtual_stages=2, global_batch_size=6), "megatron", ("global_batch_size", [4, 8])),
    ("global_batch", {}, dict(global_batch_size=7, micro_batch_size=1), "megatron", ("global_batch_size", [6, 8])),
    ("sequence_per_context_rank", dict(seq_length=4096), dict(context_parallel=3), "megatron", ("context_parallel", [2, 4])),
    ("sequence_per_tensor_rank", dict(seq_length=4095), dict(sequence_parallel=True), "megatron", ("sequence_parallel", [False])),
    ("position_embeddings", dict(max_position_embeddings=2048), {}, "megatron", None),
    ("experts_per_expert_rank", MOE, dict(expert_parallel=3, data_parallel=3, global_batch_size=9), "megatron",
     ("expert_parallel", [2, 4])),
    ("experts_per_expert_rank", {}, dict(expert_parallel=2), "megatron", ("expert_parallel", [1])),
    ("expert_bias", dict(MOE, add_bias_linear=True), dict(expert_tensor_parallel=2), "megatron", ("expert_tensor_parallel", [1])),
    ("expert_ffn_per_expert_tensor_rank", dict(MOE, moe_ffn_hidden_size=1409), dict(expert_tensor_parallel=2), "megatron",
     ("expert_tensor_parallel", [1])),
    ("expert_grid", MOE, dict(expert_parallel=8), "megatron", ("expert_parallel", [4])),
    ("expert_rank_order", MOE, dict(expert_parallel=4, rank_order="tp-cp-ep-pp-dp"), "megatron", ("rank_order", ["tp-cp-ep-dp-pp"])),
    ("zero_with_pipeline", {}, dict(zero_stage=2), "deepspeed", ("zero_stage", [1])),
    ("no_interleaving", {}, dict(virtual_stages=2), "deepspeed", ("virtual_stages", [1])),
    ("no_context_parallelism", {}, dict(context_parallel=2), "deepspeed", ("context_parallel", [1])),
    ("zero_with_experts", MOE, dict(pipeline_parallel=1, stage_layers=(32,), zero_stage=3, expert_parallel=2), "deepspeed",
     ("zero_stage", [2])),
    ("expert_grid_in_world", MOE, dict(expert_parallel=2), "nanotron", ("expert_parallel", [1])),
]


@pytest.mark.parametrize(("rule", "of_model", "of_plan", "target", "nearest"), BROKEN, ids=lambda x: x if isinstance(x, str) else "")
def test_each_rule_is_found_and_answered(rule, of_model, of_plan, target, nearest):
    found = {v["rule"]: v for v in violations(model(**of_model), plan(**of_plan), target)}
    assert rule in found
    if nearest is None:
        assert found[rule]["nearest"] == {}
    else:
        axis, values = nearest
        assert found[rule]["nearest"][axis] == values


def test_every_rule_has_a_case():
    assert {r.name for r in RULES} == {case[0] for case in BROKEN} | {"world_size"}


def test_world_size():
    found = violations(model(), plan(), gpus=20)
    assert [(v["rule"], v["nearest"]["data_parallel"]) for v in found] == [("world_size", [5])]
    found = violations(model(), plan(), gpus=18)
    assert found[0]["rule"] == "world_size" and found[0]["nearest"]["gpus"] == [8]
    assert violations(model(), plan(), gpus=8) == []


def test_what_is_legal_stays_legal():
    assert violations(model(), plan()) == []
    assert violations(model(), plan(stage_layers=(15, 17))) == []  # uneven stages are no error by themselves
    assert violations(model(), plan(tensor_parallel=1, sequence_parallel=True)) == []  # silently off
    assert violations(model(), plan(tensor_parallel=16)) == []  # more ranks than KV groups: 16 % 8 == 0
    assert violations(model(), plan(zero_stage=3, pipeline_parallel=2), "megatron") == []
    assert violations(model(), plan(global_batch_size=2)) == []  # fewer micro-batches than stages, no virtual stages


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 128), st.integers(1, 16), st.integers(1, 12), st.integers(1, 9), st.integers(1, 600), st.integers(1, 4))
def test_a_suggested_value_repairs_its_rule(layers, t, p, d, batch, v):
    m = model(num_layers=layers)
    case = Plan(
        tensor_parallel=t, pipeline_parallel=p, data_parallel=d, global_batch_size=batch, virtual_stages=v,
        stage_layers=balanced_stage_layers(layers, p),
    )
    for broken in violations(m, case):
        for axis, values in broken["nearest"].items():
            for value in values:
                if axis in ("gpus", "seq_length"):
                    continue
                fields = {axis: value}
                if axis == "pipeline_parallel":
                    fields["stage_layers"] = balanced_stage_layers(layers, value)
                again = violations(m, dataclasses.replace(case, **fields))
                assert broken["rule"] not in {w["rule"] for w in again}


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 500), st.integers(1, 500))
def test_nearest_divisors_are_divisors(n, value):
    assert all(n % d == 0 and d != value for d in nearest_divisors(n, value))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 200), st.integers(1, 64))
def test_balanced_stages_sum_and_differ_by_at_most_one(layers, stages):
    split = balanced_stage_layers(layers, stages)
    assert sum(split) == layers and len(split) == stages and max(split) - min(split) <= 1
