"""The rules as compiled checks, one per loop level of the kernel, and their conjunction for a single point.

A point is rejected for the first rule it breaks, in the order of the axes; the kernel hoists each check to the loop where
its inputs are known, so counts by reason are exact and cheap. Sources: Megatron Core 0.19 argument validation, group
builder and interleaved schedule; DeepSpeed 0.19 engine checks.
"""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.stages import stage_layer_count
from costmodels.types import Model, Point
from searchspaces.rules import (
    BATCH,
    CHUNKS,
    DUPLICATE,
    EXPERT_FFN,
    EXPERT_GRID,
    EXPERTS,
    FFN,
    GPUS,
    HEADS,
    INTERLEAVE,
    KV_HEADS,
    LAYERS,
    OK,
    RECOMPUTE,
    SEQUENCE,
    SEQUENCE_PARALLEL,
    TARGET,
    ZERO,
    TargetRules,
)
from searchspaces.splits import layers_per_chunk, recompute_layers


@jit
def cell_reason(model: Model, rules: TargetRules, gpus: int, T: int, P: int, C: int, E: int) -> int:
    """Rules on the four outer degrees.

    >>> from costmodels.examples import TINY
    >>> cell_reason(TINY, TargetRules(), 8, 2, 2, 1, 1), cell_reason(TINY, TargetRules(), 8, 4, 1, 1, 1)
    (0, 2)
    """
    if gpus % (T * P * C) != 0:
        return GPUS
    if (T > 1 and not rules.tensor) or (P > 1 and not rules.pipeline) or (C > 1 and not rules.context):
        return TARGET
    if (model.experts > 0 and not rules.expert) or (model.mla and not rules.mla):
        return TARGET
    if E > 1 and P > 1 and not rules.expert_pipeline:
        return TARGET
    if model.heads % T != 0:
        return HEADS
    if model.mla == 0 and model.kv_heads % T != 0 and (T % model.kv_heads != 0 or not rules.kv_copies):
        return KV_HEADS
    if model.ffn % T != 0 or model.shared_ffn % T != 0:
        return FFN
    if C > 1 and model.seq % (2 * C) != 0:
        return SEQUENCE
    if E > 1 and model.experts % E != 0:
        return EXPERTS
    return OK


@jit
def batch_reason(batch: int, b: int, data: int) -> int:
    """Global batch in whole micro-batches per replica."""
    return OK if batch % (b * data) == 0 else BATCH


@jit
def grid_reason(model: Model, rules: TargetRules, gpus: int, P: int, E: int, X: int) -> int:
    """The expert grid etp x ep x edp over the ranks of one stage."""
    if X > 1 and (model.experts == 0 or not rules.expert_tensor):
        return TARGET
    if (gpus // P) % (X * E) != 0:
        return EXPERT_GRID
    if X > 1 and (model.expert_ffn % X != 0 or model.bias or model.expert_bias):
        return EXPERT_FFN
    return OK


@jit
def sequence_parallel_reason(model: Model, rules: TargetRules, T: int, C: int, sp: int) -> int:
    """Sequence parallelism where it has an effect and the sequence divides; required for experts under tensor parallelism."""
    if sp:
        if T == 1 or (model.seq // C) % T != 0:
            return SEQUENCE_PARALLEL
        return OK if rules.sequence_parallel else TARGET
    if model.experts > 0 and T > 1 and rules.moe_needs_sp:
        return SEQUENCE_PARALLEL
    return OK


@jit
def split_reason(rules: TargetRules, first: int) -> int:
    """The split exists (-2 marks one that does not) and the target can run it."""
    if first == -2:
        return LAYERS
    return OK if first < 0 or rules.uneven else TARGET


@jit
def chunk_reason(model: Model, rules: TargetRules, P: int, v: int, m: int, first: int, last: int) -> int:
    """Interleaving: more than one stage, micro-batches in multiples of P, every stage's layers in multiples of v."""
    if rules.fill and m < P:
        return TARGET
    if v == 1:
        return OK
    if not rules.interleave:
        return TARGET
    if P == 1 or m % P != 0:
        return INTERLEAVE
    if P < rules.interleave_min_pipeline:
        return TARGET
    for stage in (0, 1, P - 1):
        if stage_layer_count(model.layers, P, first, last, min(stage, P - 1)) % v != 0:
            return CHUNKS
    return OK


@jit
def zero_reason(rules: TargetRules, point: Point, zero: int) -> int:
    """Sharding stages the target supports beside the point's degrees; sharding over one rank is no sharding."""
    if zero > 0 and point.data * point.context == 1:
        return DUPLICATE
    if zero > rules.max_zero or (zero == 1 and not rules.zero_1):
        return ZERO
    if (point.pipeline > 1 and zero > rules.max_zero_pipeline) or (point.tensor > 1 and zero > rules.max_zero_tensor):
        return ZERO
    if point.expert > 1 and zero > rules.max_zero_expert:
        return ZERO
    if zero == 0 and not rules.zero_0_groups and (point.context > 1 or (point.expert > 1 and point.data > 1)):
        return ZERO
    return OK


@jit
def recompute_reason(model: Model, rules: TargetRules, P: int, v: int, mode: int) -> int:
    """Recompute modes; two fractions that round to the same number of layers count once."""
    if mode == 1 and not rules.selective:
        return TARGET
    if mode > 2:
        per_chunk = layers_per_chunk(model.layers, P, v)
        if recompute_layers(mode, per_chunk) == recompute_layers(mode - 1, per_chunk):
            return DUPLICATE
    if 2 <= mode < 5:
        if not rules.partial_recompute:
            return TARGET
        if recompute_layers(mode, layers_per_chunk(model.layers, P, v)) >= layers_per_chunk(model.layers, P, v):
            return RECOMPUTE
    return OK


@jit
def order_reason(model: Model, rules: TargetRules, point: Point) -> int:
    """The second rank order differs only when both pipeline and data degrees exceed one, and needs equal expert grids.

    Megatron lays out an expert grid for dense models too, of the tensor degree alone.
    """
    if point.order == 0:
        return OK
    if point.pipeline == 1 or point.data == 1:
        return DUPLICATE
    if not rules.order:
        return TARGET
    grid = point.expert_tensor * point.expert if model.experts > 0 else point.tensor
    if grid != point.tensor * point.context:
        return EXPERT_GRID
    return OK


@jit
def point_reason(
    model: Model, rules: TargetRules, gpus: int, batch: int, T: int, P: int, C: int, E: int, mode: int, point: Point
) -> int:
    """First rule that a point breaks, 0 when it is legal. Memory and rails are checked by the kernel."""
    reason = cell_reason(model, rules, gpus, T, P, C, E)
    if reason == OK:
        reason = batch_reason(batch, point.micro_batch, point.data)
    if reason == OK:
        reason = grid_reason(model, rules, gpus, P, E, point.expert_tensor)
    if reason == OK:
        reason = sequence_parallel_reason(model, rules, T, C, point.seq_parallel)
    if reason == OK:
        reason = split_reason(rules, point.first_layers)
    if reason == OK:
        reason = chunk_reason(model, rules, P, point.chunks, point.micro_batches, point.first_layers, point.last_layers)
    if reason == OK:
        reason = recompute_reason(model, rules, P, point.chunks, mode)
    if reason == OK:
        reason = order_reason(model, rules, point)
    if reason == OK:
        reason = zero_reason(rules, point, point.zero)
    return reason
