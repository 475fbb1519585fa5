"""Why a point cannot run: one integer code per rule, with its name and text.

The codes are what the kernel counts; `REASONS` is what people read. Which rules apply to a launch target is data
(`TargetRules`), not code.
"""

from __future__ import annotations

from typing import NamedTuple

OK = 0
GPUS = 1
HEADS = 2
KV_HEADS = 3
FFN = 4
LAYERS = 5
CHUNKS = 6
INTERLEAVE = 7
BATCH = 8
SEQUENCE = 9
SEQUENCE_PARALLEL = 10
EXPERTS = 11
EXPERT_GRID = 12
EXPERT_FFN = 13
ZERO = 14
RECOMPUTE = 15
TARGET = 16
DUPLICATE = 17
RAIL = 18
MEMORY = 19
BOUND = 20
N_REASONS = 21

REASONS: dict[int, tuple[str, str]] = {
    OK: ("ok", "legal and fits"),
    GPUS: ("gpus", "tensor x pipeline x context does not divide the GPU count"),
    HEADS: ("heads", "attention heads are not a multiple of the tensor degree"),
    KV_HEADS: ("kv_heads", "KV heads and tensor degree do not divide one another"),
    FFN: ("ffn", "feed-forward width is not a multiple of the tensor degree"),
    LAYERS: ("layers", "layers cannot be shared over the pipeline stages this way"),
    CHUNKS: ("chunks", "layers of a stage are not a multiple of the virtual stages"),
    INTERLEAVE: ("interleave", "interleaving needs more than one stage and micro-batches in multiples of the stages"),
    BATCH: ("batch", "global batch is not a multiple of micro-batch x data parallel"),
    SEQUENCE: ("sequence", "sequence length is not a multiple of 2 x context degree"),
    SEQUENCE_PARALLEL: ("sequence_parallel", "sequence parallelism needs a tensor degree that divides the sequence share"),
    EXPERTS: ("experts", "experts are not a multiple of the expert degree"),
    EXPERT_GRID: ("expert_grid", "expert x expert-tensor degrees do not divide the ranks of a stage"),
    EXPERT_FFN: ("expert_ffn", "expert width is not a multiple of the expert-tensor degree"),
    ZERO: ("zero", "the target cannot combine this sharding stage with the other degrees"),
    RECOMPUTE: ("recompute", "nothing to recompute this way"),
    TARGET: ("target", "the launch target lacks this feature"),
    DUPLICATE: ("duplicate", "the same plan under another name"),
    RAIL: ("rail", "a process group needs a link between unconnected rails"),
    MEMORY: ("memory", "does not fit in GPU memory"),
    BOUND: ("bound", "cannot beat the best plans: proved by a lower bound, not scored"),
}


class TargetRules(NamedTuple):
    """What one launch target can run. 1 = yes."""

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1  # models with experts
    mla: int = 1  # models with latent attention
    expert_tensor: int = 1
    interleave: int = 1
    fill: int = 0  # needs at least as many micro-batches as pipeline stages
    uneven: int = 1
    sequence_parallel: int = 1
    selective: int = 1
    partial_recompute: int = 1
    order: int = 1  # both rank orders
    max_zero: int = 1
    max_zero_pipeline: int = 1  # highest ZeRO stage with pipeline parallelism
    max_zero_tensor: int = 3  # highest ZeRO stage with tensor parallelism
    moe_needs_sp: int = 1  # experts with a tensor degree need sequence parallelism
    interleave_min_pipeline: int = 2  # smallest pipeline degree with interleaving
    zero_1: int = 1  # optimizer state can be sharded without gradients
    zero_0_groups: int = 1  # context or expert degrees beside whole copies of the weights
    kv_copies: int = 1  # KV heads are copied where the tensor degree exceeds them
    max_zero_expert: int = 3  # highest ZeRO stage with an expert degree
    expert_pipeline: int = 1  # expert and pipeline degrees together


def reason_name(code: int) -> str:
    """Short name of a reason code.

    >>> reason_name(MEMORY)
    'memory'
    """
    return REASONS[code][0]
