"""Bytes that each GPU of a pipeline stage puts into every kind of process group per iteration.

For collectives the unit is the gathered tensor: a ring over n members sends (n - 1) / n of it from every GPU, for an
all-gather or a reduce-scatter; an all-reduce counts twice. For the expert all-to-all it is what a GPU holds to send, its
own share included. Volumes follow Megatron Core: which passes repeat a transfer is said at each function.
"""

from __future__ import annotations

from typing import NamedTuple

from costmodels._jit import jit
from costmodels.activations import attention_width
from costmodels.parameters import (
    embedding_parameters,
    head_parameters,
    layer_parameters,
    mtp_parameters,
    norm_parameters,
    padded_vocab,
)
from costmodels.types import Model, Point, Stack


class StageVolumes(NamedTuple):
    """Bytes per iteration and GPU of one stage, by kind of process group."""

    tensor: float
    context: float
    expert: float
    expert_tensor: float
    data: float
    expert_data: float
    pipeline: float  # one direction, one chunk boundary
    embedding: float


class StageLayers(NamedTuple):
    """What a stage holds."""

    dense: float
    moe: float
    first: int  # 1 on the first stage
    last: int


@jit
def tokens_per_micro_batch(model: Model, point: Point) -> float:
    """Tokens of a micro-batch on one GPU of the context group."""
    return point.micro_batch * model.seq / point.context


@jit
def tensor_volume(model: Model, stack: Stack, point: Point, layers: StageLayers, share: float) -> float:
    """Tensor group, per micro-batch. With h = 8, 16 tokens: the hidden tensor has 256 bytes.

    A row-parallel block takes, with sequence parallelism, a gather and a scatter forward and the same backward plus the
    gather repeated for the weight gradient (5); without it an all-reduce each way (4). Full recompute (`share` of the
    layers) repeats the forward ones (2). Embedding and head come on top, the loss with three small all-reduces.

    >>> from costmodels.examples import MEGATRON_2021, POINT, TINY
    >>> point = POINT._replace(tensor=2, seq_parallel=1)
    >>> tensor_volume(TINY, MEGATRON_2021, point, StageLayers(1.0, 0.0, 0, 0), 0.0)  # 2 blocks x 5 x 256
    2560.0
    """
    if point.tensor <= 1:
        return 0.0
    tokens = tokens_per_micro_batch(model, point)
    hidden = 2.0 * tokens * model.hidden
    blocks = 2.0 * layers.dense + (2.0 if model.shared_ffn > 0 else 1.0) * layers.moe
    units = blocks * ((5.0 if point.seq_parallel else 4.0) + 2.0 * share)
    if layers.first:
        units += 2.0
    if layers.last:
        units += (1.0 + model.mtp) * (3.0 if point.seq_parallel else 2.0)
    volume = units * hidden
    if layers.last:
        volume += (1.0 + model.mtp) * 6.0 * 4.0 * tokens
    if stack.p2p_scatter and not point.seq_parallel and point.pipeline > 1:
        received = 2.0 * point.chunks - layers.first - layers.last
        volume += received * hidden  # pipeline tensors arrive scattered and are gathered
    return volume


@jit
def context_volume(model: Model, point: Point, layers: float, share: float) -> float:
    """Context group, per micro-batch: K and V forward; K, V and their gradients backward; forward again if recomputed."""
    if point.context <= 1:
        return 0.0
    kv = 2.0 * attention_width(model)[1] / point.tensor * point.micro_batch * model.seq
    return layers * (3.0 + share) * kv


@jit
def expert_volume(model: Model, point: Point, moe_layers: float, share: float) -> tuple[float, float]:
    """(expert group, expert-tensor group), per micro-batch: dispatch and combine, both passes, and again if recomputed."""
    if moe_layers <= 0.0:
        return 0.0, 0.0
    tokens = tokens_per_micro_batch(model, point)
    if point.seq_parallel:
        tokens /= point.tensor
    out = 2.0 * tokens * model.topk * model.capacity * model.hidden * moe_layers * (4.0 + 2.0 * share)
    expert = out if point.expert > 1 else 0.0
    return expert, (out * point.expert_tensor if point.expert_tensor > 1 else 0.0)


@jit
def gradient_factor(stack: Stack, point: Point) -> float:
    """Gathered-tensor bytes per parameter and iteration of the gradient group.

    ZeRO 0 all-reduces gradients; 1 and 2 scatter them and gather parameters once; 3 gathers parameters in the forward and
    the backward of every micro-batch and scatters gradients in each.

    >>> from costmodels.examples import MEGATRON_2021, POINT
    >>> [gradient_factor(MEGATRON_2021, POINT._replace(zero=z, micro_batches=2)) for z in (0, 1, 3)]
    [4.0, 4.0, 12.0]
    """
    if point.zero == 0:
        return 2.0 * stack.grad_bytes
    if point.zero < 3:
        return stack.grad_bytes + stack.param_gather_bytes * stack.trained_share
    return point.micro_batches * (stack.grad_bytes + 2.0 * stack.param_gather_bytes)


@jit
def stage_parameter_counts(model: Model, point: Point, layers: StageLayers) -> tuple[float, float]:
    """(dense, expert) parameters on one GPU of a stage, embedding, head, final norm and prediction layers included."""
    T, X, E = point.tensor, point.expert_tensor, point.expert
    dense = layers.dense * layer_parameters(model, T, X, E, 0)[0]
    expert = 0.0
    if layers.moe > 0.0:
        shared, own = layer_parameters(model, T, X, E, 1)
        dense += layers.moe * shared
        expert = layers.moe * own
    if layers.first:
        dense += embedding_parameters(model, T)
    if layers.last:
        dense += norm_parameters(model)
        if layers.first == 0 or model.tied == 0:
            dense += head_parameters(model, T)
        more, more_expert = mtp_parameters(model, T, X, E)
        dense += more
        expert += more_expert
    return dense, expert


@jit
def stage_volumes(model: Model, stack: Stack, point: Point, layers: StageLayers) -> StageVolumes:
    """All kinds for one stage.

    >>> from costmodels.examples import MEGATRON_2021, POINT, TINY
    >>> point = POINT._replace(data=4, micro_batches=3, zero=1)
    >>> v = stage_volumes(TINY, MEGATRON_2021, point, StageLayers(4.0, 0.0, 1, 1))
    >>> v.data, v.tensor  # (4 x 784 + 800 + 8 + 800) parameters x 4 bytes
    (18976.0, 0.0)
    """
    count = layers.dense + layers.moe
    share = 0.0
    if point.recompute == 2 and count > 0.0:
        share = min(1.0, point.recompute_layers * point.chunks / count)
    priced = layers
    if layers.last and model.experts > 0:
        priced = StageLayers(layers.dense, layers.moe + model.mtp, layers.first, layers.last)
    elif layers.last:
        priced = StageLayers(layers.dense + model.mtp, layers.moe, layers.first, layers.last)
    m = 1.0 * point.micro_batches
    expert, expert_tensor = expert_volume(model, point, priced.moe, share)
    dense_params, expert_params = stage_parameter_counts(model, point, layers)
    factor = gradient_factor(stack, point)
    handed_over = 0.0
    embedding = 0.0
    if point.pipeline > 1:
        handed_over = 2.0 * tokens_per_micro_batch(model, point) * model.hidden
        if stack.p2p_scatter or point.seq_parallel:
            handed_over /= point.tensor
        if model.tied and (layers.first or layers.last):
            embedding = 2.0 * stack.grad_bytes * padded_vocab(model, point.tensor) * model.hidden / point.tensor
    return StageVolumes(
        m * tensor_volume(model, stack, point, priced, share),
        m * context_volume(model, point, priced.dense + priced.moe, share),
        m * expert, m * expert_tensor, dense_params * factor, expert_params * factor, m * handed_over, embedding,
    )  # fmt: skip
