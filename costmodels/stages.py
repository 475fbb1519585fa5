"""Pipeline stages: how many layers each holds, and what a stage spends per micro-batch."""

from __future__ import annotations

from typing import NamedTuple

from costmodels._jit import jit
from costmodels.edges import EdgeCost
from costmodels.layer import LayerCost
from costmodels.parameters import moe_layers_before
from costmodels.types import Gpu, Model, Point, Stack


class StageTime(NamedTuple):
    """Seconds of one stage per micro-batch (all its chunks), by what they are spent on, and the stage's parameters."""

    compute: float
    recompute: float
    tensor: float
    context: float
    expert: float
    launch: float
    forward: float  # of all the above, the forward part
    backward: float  # ... and the backward part, recompute included
    dense_params: float
    expert_params: float


@jit
def stage_layer_count(layers: int, P: int, first: int, last: int, stage: int) -> int:
    """Decoder layers of a stage: `first` and `last` for the ends (-1: even split), the rest shared evenly.

    >>> [stage_layer_count(126, 16, 7, 7, i) for i in (0, 1, 14, 15)]
    [7, 8, 8, 7]
    >>> stage_layer_count(96, 8, -1, -1, 3)
    12
    """
    if P == 1:
        return layers
    if first < 0:
        return layers // P
    if stage == 0:
        return first
    if stage == P - 1:
        return last
    return (layers - first - last) // (P - 2)


@jit
def stage_first_layer(layers: int, P: int, first: int, last: int, stage: int) -> int:
    """Index of the first decoder layer of a stage (chunks of an interleaved schedule counted together).

    >>> [stage_first_layer(126, 16, 7, 7, i) for i in (0, 1, 15)]
    [0, 7, 119]
    """
    if stage == 0:
        return 0
    if stage == P - 1:
        return layers - stage_layer_count(layers, P, first, last, stage)
    return stage_layer_count(layers, P, first, last, 0) + (stage - 1) * stage_layer_count(layers, P, first, last, 1)


@jit
def stage_moe_layers(model: Model, point: Point, stage: int, count: int) -> int:
    """How many of a stage's `count` layers have experts."""
    if model.experts == 0:
        return 0
    start = stage_first_layer(model.layers, point.pipeline, point.first_layers, point.last_layers, stage)
    return moe_layers_before(model, start + count) - moe_layers_before(model, start)


@jit
def expert_stage(model: Model, point: Point) -> int:
    """The first middle stage with the most expert layers: 1 where all middle stages are alike.

    They differ where leading dense layers reach past the first stage, or where expert and dense layers alternate.

    >>> from costmodels.examples import POINT, TINY
    >>> model = TINY._replace(layers=12, experts=4, dense_first=3)
    >>> expert_stage(model, POINT._replace(pipeline=4)), expert_stage(model, POINT._replace(pipeline=4, first_layers=2, last_layers=2))
    (1, 2)
    """
    if model.experts == 0 or (model.dense_first == 0 and model.moe_every == 1):
        return 1
    best, most = 1, -1
    for stage in range(1, point.pipeline - 1):
        count = stage_layer_count(model.layers, point.pipeline, point.first_layers, point.last_layers, stage)
        found = stage_moe_layers(model, point, stage, count)
        if found > most:
            best, most = stage, found
    return best


@jit
def recomputed_share(point: Point, count: int) -> float:
    """Share of a stage's layers that full recompute re-runs (block method: the first n of each chunk).

    >>> from costmodels.examples import POINT
    >>> recomputed_share(POINT._replace(recompute=2, recompute_layers=3, chunks=2), 12)
    0.5
    """
    if point.recompute != 2 or count <= 0:
        return 0.0
    return min(1.0, point.recompute_layers * point.chunks / count)


@jit
def _layers_time(
    cost: LayerCost, n: float, share: float, selective: int, part: float, piped: bool
) -> tuple[float, float, float, float, float, float, float]:
    # (compute fwd, compute bwd, recompute, tensor, context, expert, launch) of n like layers
    again = share * n
    recompute = part * again * cost.forward_s
    none, some, full = cost.launch_none_s, cost.launch_selective_s, cost.launch_full_s
    if piped:
        none, some, full = cost.launch_pipe_none_s, cost.launch_pipe_selective_s, cost.launch_pipe_full_s
    launch = again * full + (n - again) * none
    context = n * (cost.context_fwd_s + cost.context_bwd_s) + again * cost.context_fwd_s
    if selective:
        recompute = n * cost.selective_s
        launch = n * some
    tensor = n * (cost.tensor_fwd_s + cost.tensor_bwd_s) + again * cost.tensor_fwd_s
    expert = n * (cost.expert_fwd_s + cost.expert_bwd_s) + again * cost.expert_fwd_s
    return n * cost.forward_s, n * cost.backward_s, recompute, tensor, context, expert, launch


@jit
def stage_parameters(
    model: Model, point: Point, dense: LayerCost, moe: LayerCost, edges: EdgeCost, stage: int, count: int, n_moe: float
) -> tuple[float, float]:
    """(dense, expert) parameters on one GPU of a stage, its embedding, head and prediction layers included."""
    params = (count - n_moe) * dense.dense_params + n_moe * moe.dense_params
    expert = n_moe * moe.expert_params
    if stage == 0:
        params += edges.embed_params
    if stage == point.pipeline - 1:
        if stage > 0 or model.tied == 0:
            params += edges.head_params
        params += edges.mtp_dense_params
        expert += edges.mtp_expert_params
    return params, expert


@jit
def stage_time(
    model: Model, gpu: Gpu, stack: Stack, point: Point, dense: LayerCost, moe: LayerCost, edges: EdgeCost, stage: int
) -> StageTime:
    """Time of one stage per micro-batch. Adding micro-batch gradients into the main gradient counts as backward compute."""
    count = stage_layer_count(model.layers, point.pipeline, point.first_layers, point.last_layers, stage)
    n_moe = 1.0 * stage_moe_layers(model, point, stage, count)
    params, expert_params = stage_parameters(model, point, dense, moe, edges, stage, count, n_moe)
    n_dense = count - n_moe
    share = recomputed_share(point, count)
    selective = int(point.recompute == 1)
    piped = point.pipeline > 1
    last = stage == point.pipeline - 1
    if last and model.experts > 0:
        n_moe += edges.mtp_layers
    elif last:
        n_dense += edges.mtp_layers
    f1, b1, r1, t1, c1, e1, l1 = _layers_time(dense, n_dense, share, selective, stack.recompute_share, piped)
    f2, b2, r2, t2, c2, e2, l2 = _layers_time(moe, n_moe, share, selective, stack.recompute_share, piped)
    forward, backward = f1 + f2, b1 + b2
    tensor = t1 + t2
    comm_fwd = n_dense * (dense.tensor_fwd_s + dense.context_fwd_s + dense.expert_fwd_s)
    comm_fwd += n_moe * (moe.tensor_fwd_s + moe.context_fwd_s + moe.expert_fwd_s)
    if stage == 0:
        forward += edges.embed_fwd_s
        backward += edges.embed_bwd_s
        tensor += edges.embed_comm_s
        comm_fwd += edges.embed_comm_s
    if last:
        heads = 1.0 + edges.mtp_layers
        forward += heads * edges.head_fwd_s
        backward += heads * edges.head_bwd_s
        tensor += heads * (edges.head_comm_fwd_s + edges.head_comm_bwd_s)
        comm_fwd += heads * edges.head_comm_fwd_s
    if point.micro_batches > 1:
        backward += stack.grad_accum_bytes * (params + expert_params) / (gpu.hbm_eff * gpu.hbm_Bps)
    launch = l1 + l2
    total = forward + backward + r1 + r2 + tensor + c1 + c2 + e1 + e2 + launch
    forward_all = forward + comm_fwd + launch / 3.0
    return StageTime(
        forward + backward, r1 + r2, tensor, c1 + c2, e1 + e2, launch, forward_all, total - forward_all, params, expert_params
    )


@jit
def stage_total(stage: StageTime) -> float:
    """Forward plus backward seconds of a stage per micro-batch."""
    return stage.forward + stage.backward
