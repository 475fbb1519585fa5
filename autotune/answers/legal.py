"""Which values are legal at all: per axis, per backend, and the smallest job a plan needs."""

from __future__ import annotations

import dataclasses
from math import lcm
from typing import Any

from autotune.answers.layers import chunk_layer_choices
from autotune.legality import RULES, Case, balanced_stage_layers, family_of, violations
from autotune.plan import Plan
from autotune.specs import ModelSpec


def legal_values(
    model: ModelSpec, axis: str, maximum: int, target: str = "megatron", plan: Plan | None = None
) -> list[int]:
    """Values of one plan field, up to `maximum`, that break none of the rules tying it to the model.

    Rules that depend on the size of the job (batch, ranks) are not looked at.

    >>> from autotune.load import load_model
    >>> legal_values(load_model("qwen2.5-7b"), "tensor_parallel", 32)
    [1, 2, 4]
    """
    base = plan or Plan(stage_layers=(model.num_layers,))
    rules = [r for r in RULES if axis in r.axes and r.structural and family_of(target) in r.families]
    found = []
    for value in range(1, maximum + 1):
        fields: dict[str, Any] = {axis: value}
        if axis == "pipeline_parallel":
            if value > model.num_layers:
                break
            fields["stage_layers"] = balanced_stage_layers(model.num_layers, value)
        case = Case(model, dataclasses.replace(base, **fields), family_of(target))
        if all(rule.broken(case) is None for rule in rules):
            found.append(value)
    return found


def why_illegal(model: ModelSpec, axis: str, value: int, target: str = "megatron") -> list[str]:
    """The rules that one value of a field breaks, in words; empty when it is legal.

    >>> from autotune.load import load_model
    >>> why_illegal(load_model("qwen2.5-7b"), "tensor_parallel", 8)
    ['num_attention_heads 28 is not divisible by tensor_parallel 8']
    """
    plan = Plan(stage_layers=(model.num_layers,))
    rules = {r.name for r in RULES if axis in r.axes and r.structural}
    changed: dict[str, Any] = {axis: value}
    plan = dataclasses.replace(plan, **changed)
    return [v["message"] for v in violations(model, plan, target) if v["rule"] in rules]


def chunk_problem(layers: int, pipeline: int, layers_per_chunk: int) -> str | None:
    """What is wrong with a number of layers per model chunk, or None: P x chunk must divide the layers.

    >>> chunk_problem(40, 8, 2)
    '40 layers are not a multiple of pipeline_parallel 8 x 2 layers per chunk = 16; legal per chunk: 1, 5'
    """
    if layers % (pipeline * layers_per_chunk) == 0:
        return None
    legal = ", ".join(map(str, chunk_layer_choices(layers, pipeline))) or "none"
    return (
        f"{layers} layers are not a multiple of pipeline_parallel {pipeline} x {layers_per_chunk} layers per chunk = "
        f"{pipeline * layers_per_chunk}; legal per chunk: {legal}"
    )


def smallest_world(tensor: int = 1, pipeline: int = 1, context: int = 1, expert: int = 1, expert_tensor: int = 1) -> int:
    """Fewest ranks that these degrees can run on: P x lcm(T x C, E x ETP).

    >>> smallest_world(tensor=8, pipeline=4, expert=16), smallest_world(tensor=8, pipeline=16)
    (64, 128)
    """
    return pipeline * lcm(tensor * context, expert * expert_tensor)


def sequence_multiple(tensor: int, context: int, sequence_parallel: bool) -> int:
    """What the sequence length must be a multiple of: C x lcm(2, T) with both kinds of sharding, as Megatron pads it.

    Context parallelism cuts a sequence in 2C pieces; sequence parallelism cuts each rank's share in T.

    >>> [sequence_multiple(t, c, sp) for t, c, sp in ((8, 2, True), (1, 4, False), (8, 1, True), (3, 2, True))]
    [16, 8, 8, 12]
    """
    shards = tensor if sequence_parallel else 1
    return shards if context == 1 else context * lcm(2, shards)


def samples_per_replica(world: int, global_batch: int, tensor: int = 1, pipeline: int = 1, context: int = 1) -> float:
    """Sequences that one data-parallel replica trains on per iteration: global batch / D, with D = world / (T P C).

    >>> samples_per_replica(16, 64, tensor=4)
    16.0
    """
    return global_batch / (world / (tensor * pipeline * context))


def replicated_kv_heads(model: ModelSpec, tensor: int) -> int:
    """How many ranks hold a copy of each KV head when the tensor degree exceeds the KV heads; 1 = no copy.

    >>> from autotune.load import load_model
    >>> replicated_kv_heads(load_model("qwen2.5-7b"), 28)
    7
    """
    return max(1, tensor // model.kv_heads)
