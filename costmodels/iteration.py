"""Level 2 of the model: combine stage times into an iteration, and say why a point cannot run."""

from __future__ import annotations

from typing import NamedTuple

from costmodels._jit import jit
from costmodels.collectives import point_to_point_s
from costmodels.dataparallel import data_parallel_s, gradient_sync_s, optimizer_step_s, tied_embedding_s
from costmodels.edges import EdgeCost
from costmodels.groups import pipeline_stride
from costmodels.layer import LayerCost
from costmodels.memory import dynamic_bytes, gathered_parameters, state_bytes
from costmodels.pipeline import one_f_one_b_with_ends
from costmodels.stages import (
    StageTime,
    expert_stage,
    stage_layer_count,
    stage_moe_layers,
    stage_parameters,
    stage_time,
    stage_total,
)
from costmodels.types import Breakdown, Gpu, Model, Network, Point, Stack

FULL = 0.86  # of a GPU's memory: pipelined nanotron runs of 65.9 GiB allocated (and 2 GB of CUDA and NCCL) of 80 are not slow, those of 68.1 and more all are


class Stages(NamedTuple):
    """The stages that can be critical, and their activations, logits and temporaries in bytes.

    `middle` is the heaviest middle stage, `middle_bytes` belong to stage 1. `expert_stage` is 1 where the middle stages are
    alike, else the first with the most expert layers.
    """

    first: StageTime
    middle: StageTime
    last: StageTime
    first_bytes: float
    middle_bytes: float
    last_bytes: float
    expert_stage: int


class Iteration(NamedTuple):
    """Seconds of one iteration and where they go."""

    time_s: float
    breakdown: Breakdown


@jit
def breakdown_total(b: Breakdown) -> float:
    """Sum of the parts.

    >>> from costmodels.types import Breakdown
    >>> breakdown_total(Breakdown(1., 0., 2., 0., 0., 0., 3., 0., 0., 0.))
    6.0
    """
    return (
        b.compute + b.recompute + b.tensor_comm + b.context_comm + b.expert_comm
        + b.pipeline_comm + b.pipeline_bubble + b.data_comm + b.optimizer + b.overhead
    )  # fmt: skip


@jit
def hop_s(model: Model, gpu: Gpu, net: Network, stack: Stack, point: Point) -> float:
    """Exposed seconds of passing one micro-batch's activations to the next chunk of layers.

    The tensor is split over the tensor group where sequence parallelism or the stack's scatter-gather does so. With
    interleaving every boundary also costs `chunk_s`.
    """
    if point.pipeline <= 1:
        return 0.0
    nbytes = 2.0 * point.micro_batch * model.seq / point.context * model.hidden
    if point.seq_parallel or stack.p2p_scatter:
        nbytes /= point.tensor
    t = stack.p2p_exposed * point_to_point_s(net, gpu, nbytes, pipeline_stride(point))
    if point.chunks > 1:
        t += stack.chunk_s
    return t


@jit
def heavier(a: StageTime, b: StageTime) -> StageTime:
    """The stage with the longer micro-batch."""
    return b if stage_total(b) > stage_total(a) else a


@jit
def larger(a: StageTime, b: StageTime) -> StageTime:
    """The stage with more parameters on a GPU: it is the last to finish gradients and optimizer."""
    return b if b.dense_params + b.expert_params > a.dense_params + a.expert_params else a


@jit
def price_stages(
    model: Model, gpu: Gpu, stack: Stack, point: Point, dense: LayerCost, moe: LayerCost, edges: EdgeCost
) -> Stages:
    """The first, a middle and the last stage, each with its dynamic memory; independent of sharding and rank order."""
    P = point.pipeline
    first = stage_time(model, gpu, stack, point, dense, moe, edges, 0)
    first_bytes = total_dynamic(model, stack, point, dense, moe, edges, 0)
    last, middle = first, first
    last_bytes, middle_bytes = first_bytes, first_bytes
    experts = 1
    if P > 1:
        last = stage_time(model, gpu, stack, point, dense, moe, edges, P - 1)
        last_bytes = total_dynamic(model, stack, point, dense, moe, edges, P - 1)
        middle, middle_bytes = last, last_bytes
    if P > 2:
        middle = stage_time(model, gpu, stack, point, dense, moe, edges, 1)
        middle_bytes = total_dynamic(model, stack, point, dense, moe, edges, 1)
        experts = expert_stage(model, point)
        if experts > 1:
            middle = heavier(middle, stage_time(model, gpu, stack, point, dense, moe, edges, experts))
    return Stages(first, middle, last, first_bytes, middle_bytes, last_bytes, experts)


@jit
def total_dynamic(
    model: Model, stack: Stack, point: Point, dense: LayerCost, moe: LayerCost, edges: EdgeCost, stage: int
) -> float:
    """Activations, logits and temporaries of one stage."""
    activations, logits, temporaries = dynamic_bytes(model, stack, point, dense, moe, edges, stage)
    return activations + logits + temporaries


@jit
def stage_peak(
    stack: Stack, point: Point, params: float, expert_params: float, dynamic: float, layer_params: float, edge_params: float
) -> float:
    """Peak bytes of a stage from its dense and expert parameters and its dynamic memory."""
    w, g, o, buffers = state_bytes(stack, point, params, expert_params, layer_params, edge_params)
    return w + g + o + stack.reserve_bytes + (1.0 + stack.fragmentation) * (dynamic + buffers)


@jit
def peak_memory(
    model: Model, stack: Stack, point: Point, dense: LayerCost, moe: LayerCost, edges: EdgeCost, stages: Stages
) -> float:
    """Largest stage total. Only the ends and the middle stages up to the first with the most experts can be largest:
    in-flight counts fall along the pipeline."""
    layer, edge = gathered_parameters(dense, moe, edges)
    first, middle, last = stages.first, stages.middle, stages.last
    peak = stage_peak(stack, point, first.dense_params, first.expert_params, stages.first_bytes, layer, edge)
    if point.pipeline > 1:
        peak = max(peak, stage_peak(stack, point, last.dense_params, last.expert_params, stages.last_bytes, layer, edge))
    if point.pipeline > 2 and stages.expert_stage == 1:
        peak = max(peak, stage_peak(stack, point, middle.dense_params, middle.expert_params, stages.middle_bytes, layer, edge))
    elif point.pipeline > 2:
        for stage in range(1, stages.expert_stage + 1):
            count = stage_layer_count(model.layers, point.pipeline, point.first_layers, point.last_layers, stage)
            n_moe = 1.0 * stage_moe_layers(model, point, stage, count)
            params, expert = stage_parameters(model, point, dense, moe, edges, stage, count, n_moe)
            dynamic = total_dynamic(model, stack, point, dense, moe, edges, stage)
            peak = max(peak, stage_peak(stack, point, params, expert, dynamic, layer, edge))
    return peak


@jit
def price_schedule(
    model: Model, gpu: Gpu, net: Network, stack: Stack, point: Point, edges: EdgeCost, stages: Stages
) -> tuple[float, float]:
    """(exposed seconds of handing over one micro-batch per direction, pipeline bubble) of the schedule.

    With interleaving the embedding sits in the first chunk and the head in the last, so they are passed apart.
    """
    P, v, m = point.pipeline, point.chunks, point.micro_batches
    if P == 1:
        return 0.0, 0.0
    c = v * hop_s(model, gpu, net, stack, point)
    first, mid, last = stages.first, stages.middle, stages.last
    heads = 1.0 + edges.mtp_layers
    embed_f, embed_b = edges.embed_fwd_s + edges.embed_comm_s, edges.embed_bwd_s
    head_f = heads * (edges.head_fwd_s + edges.head_comm_fwd_s)
    head_b = heads * (edges.head_bwd_s + edges.head_comm_bwd_s)
    _, _, bubble = one_f_one_b_with_ends(
        P, v, m, first.forward - embed_f + c, first.backward - embed_b + c, mid.forward + c, mid.backward + c,
        last.forward - head_f + c, last.backward - head_b + c, embed_f, embed_b, head_f, head_b, 0.0,
    )  # fmt: skip
    return c, bubble


@jit
def stalls_s(gpu: Gpu, net: Network, stack: Stack, point: Point, peak_bytes: float) -> float:
    """Seconds per iteration that pipeline transfers wait beyond latency and bandwidth.

    A middle stage makes four transfers per micro-batch and chunk (two each way), a stage of a pipeline of two makes two.
    They wait on clusters that were seen to stall, and where the peak is above `FULL` of a GPU's memory: near-full pipelines
    of nanotron lose 0.23 s per transfer whatever the plan, while plans without a pipeline lose nothing.
    """
    if point.pipeline == 1:
        return 0.0
    wait = 0.0
    if net.gpus > net.hb_size:
        wait += net.hop_stall_s
    if peak_bytes > FULL * gpu.memory_bytes:
        wait += stack.full_hop_s
    transfers = 2.0 if point.pipeline == 2 else 4.0
    return wait * transfers * point.chunks * (point.micro_batches + point.pipeline - 1)


@jit
def largest(stages: Stages) -> StageTime:
    """The stage with the most parameters."""
    return larger(larger(stages.first, stages.middle), stages.last)


@jit
def price_sync(net: Network, gpu: Gpu, stack: Stack, point: Point, stages: Stages) -> tuple[float, float]:
    """(gradient, parameter) transfer seconds per iteration before overlap; independent of what is recomputed."""
    return gradient_sync_s(net, gpu, stack, point, largest(stages))


@jit
def finish_iteration(
    model: Model, gpu: Gpu, net: Network, stack: Stack, point: Point, edges: EdgeCost, stages: Stages, crossing: float,
    bubble: float, peak_bytes: float, grads: float, params: float,
) -> Iteration:
    """Add what follows the pipeline: stalls of its transfers, gradient and parameter traffic, optimizer, fixed costs.

    (`grads`, `params`) are the transfers of `price_sync`.
    """
    m = point.micro_batches
    worst = heavier(heavier(stages.first, stages.middle), stages.last)
    big = largest(stages)
    sync = data_parallel_s(stack, point, big, grads, params)
    if model.tied and point.pipeline > 1:
        sync += tied_embedding_s(net, gpu, stack, point, edges.embed_params)
    parts = Breakdown(
        m * worst.compute, m * worst.recompute, m * worst.tensor, m * worst.context, m * worst.expert,
        2.0 * m * crossing + stalls_s(gpu, net, stack, point, peak_bytes), bubble, sync, optimizer_step_s(gpu, stack, point, big), m * worst.launch + stack.iteration_s,
    )  # fmt: skip
    return Iteration(breakdown_total(parts), parts)


@jit
def price_iteration(
    model: Model, gpu: Gpu, net: Network, stack: Stack, point: Point, dense: LayerCost, moe: LayerCost, edges: EdgeCost
) -> Iteration:
    """Iteration time of one point: pipeline makespan, exposed data-parallel traffic, optimizer, fixed costs.

    The makespan is the heaviest stage's steady state plus warm-up and drain; what is not the heaviest stage's own work is
    the bubble.
    """
    stages = price_stages(model, gpu, stack, point, dense, moe, edges)
    crossing, bubble = price_schedule(model, gpu, net, stack, point, edges, stages)
    peak = peak_memory(model, stack, point, dense, moe, edges, stages)
    grads, params = price_sync(net, gpu, stack, point, stages)
    return finish_iteration(model, gpu, net, stack, point, edges, stages, crossing, bubble, peak, grads, params)
