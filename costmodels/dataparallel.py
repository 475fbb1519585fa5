"""Gradient reduction, parameter gathering and the optimizer step, and how much of it hides behind compute."""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.collectives import all_gather_s, all_reduce_s, point_to_point_s
from costmodels.groups import data_stride, expert_data_size, expert_data_stride, gradient_group, pipeline_stride
from costmodels.stages import StageTime
from costmodels.types import Gpu, Network, Point, Stack


@jit
def exposed_s(transfer_s: float, share: float, window_s: float) -> float:
    """Seconds of a transfer that remain visible: at least `share` of it, and what exceeds the window it may hide in.

    >>> exposed_s(1.0, 0.1, 2.0), exposed_s(3.0, 0.1, 2.0), exposed_s(1.0, 1.0, 5.0)
    (0.1, 1.0, 1.0)
    """
    return max(share * transfer_s, transfer_s - window_s)


@jit
def dense_gather_s(net: Network, gpu: Gpu, nbytes: float, point: Point) -> float:
    """All-gather (or reduce-scatter) seconds of `nbytes` over the dense gradient group (data and context)."""
    if point.order == 0 or point.pipeline == 1:
        stride, size = gradient_group(point)
        return all_gather_s(net, gpu, nbytes, stride, size)
    t = all_gather_s(net, gpu, nbytes, data_stride(point), point.data)
    return t + all_gather_s(net, gpu, nbytes / point.data, point.tensor, point.context)


@jit
def dense_reduce_s(net: Network, gpu: Gpu, nbytes: float, point: Point) -> float:
    """All-reduce seconds of `nbytes` over the dense gradient group."""
    if point.order == 0 or point.pipeline == 1:
        stride, size = gradient_group(point)
        return all_reduce_s(net, gpu, nbytes, stride, size)
    return 2.0 * dense_gather_s(net, gpu, nbytes, point)


@jit
def gradient_sync_s(net: Network, gpu: Gpu, stack: Stack, point: Point, stage: StageTime) -> tuple[float, float]:
    """(gradient, parameter) transfer seconds per iteration of one stage before any overlap, ZeRO 0 to 2.

    ZeRO 0 all-reduces gradients; 1 and 2 reduce-scatter them and gather parameters afterwards. Expert gradients travel
    over their own group. Of a frozen model only the adapters move, but ZeRO 3 gathers all weights.
    """
    if point.data * point.context <= 1 and expert_data_size(point) <= 1:
        return 0.0, 0.0
    edp = expert_data_size(point)
    stride = expert_data_stride(point)
    grads = stage.dense_params * stack.grad_bytes
    expert_grads = stage.expert_params * stack.grad_bytes
    if point.zero == 0:
        t = dense_reduce_s(net, gpu, grads, point)
        return t + all_reduce_s(net, gpu, expert_grads, stride, edp), 0.0
    t = dense_gather_s(net, gpu, grads, point) + all_gather_s(net, gpu, expert_grads, stride, edp)
    gathered = stack.param_gather_bytes if point.zero >= 3 else stack.param_gather_bytes * stack.trained_share
    params = dense_gather_s(net, gpu, stage.dense_params * gathered, point)
    params += all_gather_s(net, gpu, stage.expert_params * gathered, stride, edp)
    return t, params


@jit
def data_parallel_s(stack: Stack, point: Point, stage: StageTime, grads: float, params: float) -> float:
    """Exposed data-parallel seconds per iteration of one stage with transfers (`grads`, `params`) of `gradient_sync_s`.

    ZeRO 0-2: the reduction may hide under the last micro-batch's backward, the gather under the first forward. ZeRO 3:
    parameters are gathered per layer in every forward and backward and gradients scattered in every backward; each hides
    behind that pass.
    """
    if point.zero < 3:
        hidden_grads = exposed_s(grads, stack.data_exposed, stage.backward)
        return hidden_grads + exposed_s(params, stack.param_gather_exposed, stage.forward)
    forward = exposed_s(params, stack.param_gather_exposed, stage.forward)
    backward = exposed_s(params + grads, stack.data_exposed, stage.backward)
    return point.micro_batches * (forward + backward)


@jit
def tied_embedding_s(net: Network, gpu: Gpu, stack: Stack, point: Point, embed_params: float) -> float:
    """Seconds to sum the tied embedding's gradient between the first and the last stage."""
    ends = pipeline_stride(point) * (point.pipeline - 1)
    return 2.0 * point_to_point_s(net, gpu, stack.grad_bytes * embed_params / 2.0, ends)


@jit
def optimizer_step_s(gpu: Gpu, stack: Stack, point: Point, stage: StageTime) -> float:
    """Seconds of the optimizer step: bytes touched over HBM, divided by the sharding, plus fixed costs.

    >>> from costmodels.examples import H100, MEGATRON_2021, POINT
    >>> from costmodels.stages import StageTime
    >>> s = StageTime(0., 0., 0., 0., 0., 0., 0., 0., 1e9, 0.)
    >>> round(optimizer_step_s(H100, MEGATRON_2021, POINT, s), 5)  # 40 GB over 2.68 TB/s, and 3 ms
    0.01793
    """
    dense, expert = stage.dense_params, stage.expert_params
    if point.zero >= 1:
        dense /= point.data * point.context
        expert /= max(1, expert_data_size(point))
    t = stack.optimizer_bytes * (dense + expert) / (gpu.hbm_eff * gpu.hbm_Bps) + stack.optimizer_s
    if point.zero >= 1 and point.data > 1:
        t += stack.rank_s * point.data
    return t
