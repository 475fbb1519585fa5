"""Where a real program's reading of a launch is not the plan: one function per program, an empty list when it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.emit.job import layout
from autotune.emit.rank_map import ranks
from autotune.plan import Plan
from autotune.recompute import selective_modules
from autotune.specs import ClusterSpec, ModelSpec


def _compare(facts: Mapping[str, Any], expected: Mapping[str, Any], what: str = "") -> list[str]:
    return [f"{what}{k}: {facts[k]!r}, planned {v!r}" for k, v in expected.items() if facts[k] != v]


def differences_megatron(facts: dict[str, Any], cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> list[str]:
    """Degrees, batch, layers of every chunk, sharding, architecture, recomputation and process groups."""
    p, m = plan, model
    expected: dict[str, Any] = {
        "tp": p.tensor_parallel,
        "pp": p.pipeline_parallel,
        "cp": p.context_parallel,
        "dp": p.data_parallel,
        "vpp": p.virtual_stages,
        "micro_batch_size": p.micro_batch_size,
        "global_batch_size": p.global_batch_size,
        "micro_batches": p.micro_batches,
        "distributed_optimizer": p.zero_stage >= 1,
        "fsdp": {0: False, 1: False, 2: "optim_grads", 3: "optim_grads_params"}[p.zero_stage],
        "layers": [[n // p.virtual_stages] * p.virtual_stages for n in p.stage_layers],
        "seq_length": m.seq_length,
    }
    if m.num_experts:
        expected |= {"ep": p.expert_parallel, "etp": p.expert_tensor_parallel}
    config: dict[str, Any] = {
        "num_layers": m.num_layers,
        "hidden_size": m.hidden_size,
        "ffn_hidden_size": m.ffn,
        "num_attention_heads": m.num_attention_heads,
        "num_query_groups": m.num_attention_heads if m.multi_latent_attention else m.kv_heads,
        "num_moe_experts": m.num_experts,
        "sequence_parallel": p.sequence_parallel and p.tensor_parallel > 1,
        **recompute_of(model, plan),
    }
    wrong = _compare(facts, expected) + _compare(facts["config"], config, "config ")
    return wrong + differences_groups(facts["groups"], cluster, model, plan)


def recompute_of(model: ModelSpec, plan: Plan) -> dict[str, Any]:
    """Megatron's fields for the plan's recomputation."""
    every = -(-max(plan.stage_layers) // plan.virtual_stages)
    count = every if plan.recompute_num_layers is None else plan.recompute_num_layers
    if plan.recompute == "full" and count >= every:
        return {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}
    if plan.recompute == "full" and count:
        return {"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": count}
    if plan.recompute == "selective":
        return {"recompute_granularity": "selective", "recompute_modules": list(selective_modules(model, plan.stack))}
    return {"recompute_granularity": None}


def differences_groups(groups: dict[str, list[list[int]]], cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> list[str]:
    """Our rank map against the groups of Megatron's own generators."""
    places = [r._asdict() for r in ranks(plan, layout(cluster, plan))]
    dense, expert = ("tp", "cp", "dp", "pp"), ("etp", "ep", "edp", "pp")
    wrong = []
    # A dense model has a default expert grid in Megatron; its plan has none.
    for axes in (dense, expert) if model.num_experts else (dense,):
        for axis in axes:
            if lists_of(places, axes, axis) != sorted(groups[axis]):
                wrong.append(f"{axis} groups differ")
    return wrong


def lists_of(places: list[dict[str, int]], axes: tuple[str, ...], axis: str) -> list[list[int]]:
    """The groups of one axis in our rank map."""
    found: dict[tuple[int, ...], list[int]] = {}
    for place in places:
        found.setdefault(tuple(place[a] for a in axes if a != axis), []).append(place["rank"])
    return sorted(found.values())


def differences_deepspeed(facts: dict[str, Any], cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> list[str]:
    """Batch identity, ZeRO stage, number format, automatic degrees, and the topology of the emitted module."""
    p = plan
    wrong = _compare(
        facts,
        {
            "train_batch_size": p.global_batch_size,
            "micro_batch": p.micro_batch_size,
            "accumulation": p.micro_batches,
            "zero_stage": p.zero_stage,
            "bf16": model.training.precision == "bf16",
            "fp16": model.training.precision == "fp16",
        },
    )
    if facts["autotp_size"] not in (0, p.tensor_parallel):
        wrong.append(f"autotp_size: {facts['autotp_size']}, planned {p.tensor_parallel}")
    if facts["train_batch_size"] != facts["micro_batch"] * facts["accumulation"] * p.data_parallel:
        wrong.append("the batch identity does not hold")
    if "groups" in facts:
        places = [r._asdict() for r in ranks(plan, layout(cluster, plan))]
        axes = ("tp", "cp", "dp", "pp")
        for name, axis, degree in (
            ("model", "tp", p.tensor_parallel),
            ("data", "dp", p.data_parallel),
            ("pipe", "pp", p.pipeline_parallel),
        ):
            if degree > 1 and sorted(facts["groups"][name]) != lists_of(places, axes, axis):
                wrong.append(f"{name} groups differ")
    return wrong


def differences_torchtitan(facts: dict[str, Any], model: ModelSpec, plan: Plan) -> list[str]:
    """Degrees, batch, layers per chunk, sharding, recomputation and architecture."""
    p, m = plan, model
    sharded = p.zero_stage >= 2 or p.data_parallel * p.context_parallel == 1
    chunk = m.num_layers // (p.pipeline_parallel * p.virtual_stages)
    wrong = _compare(
        facts,
        {
            "global_batch_size": p.global_batch_size,
            "micro_batch_size": p.micro_batch_size,
            "micro_batches": p.micro_batches,
            "layers": [chunk] * (p.pipeline_parallel * p.virtual_stages),
            "dp_replicate": 1 if sharded else p.data_parallel,
            "dp_shard": p.data_parallel if sharded else 1,
            "tp": p.tensor_parallel,
            "cp": p.context_parallel,
            "pp": p.pipeline_parallel,
            "ep": p.expert_parallel,
            "sequence_parallel": p.sequence_parallel,
            "reshard": "always" if p.zero_stage == 3 else "never",
            "recompute": "FullAC.Config" if p.recompute == "full" else None,
            "seq_length": m.seq_length,
        },
    )
    shape = {"layers": m.num_layers, "hidden": m.hidden_size, "heads": m.num_attention_heads, "experts": m.num_experts or 0,
             "vocab": m.vocab_size}  # fmt: skip
    return wrong + _compare(facts["model"], shape, "model ")
