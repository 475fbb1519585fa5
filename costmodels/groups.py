"""Process groups of a point as strides and sizes, and whether the fabric can carry each.

Rank orders of Megatron: 0 = tp-cp-ep-dp-pp, 1 = tp-cp-ep-pp-dp. Two grids over the same ranks: dense tp x cp x dp x pp
and expert etp x ep x edp x pp.
"""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.topology import UNREACHABLE, reach_class, reach_class_2
from costmodels.types import Network, Point


@jit
def pipeline_stride(point: Point) -> int:
    """Ranks between neighbouring stages."""
    if point.order == 0:
        return point.tensor * point.context * point.data
    return point.tensor * point.context


@jit
def data_stride(point: Point) -> int:
    """Ranks between neighbouring data-parallel replicas."""
    if point.order == 0:
        return point.tensor * point.context
    return point.tensor * point.context * point.pipeline


@jit
def expert_data_size(point: Point) -> int:
    """Replicas of each expert.

    >>> from costmodels.examples import POINT
    >>> expert_data_size(POINT._replace(tensor=4, data=8, expert=8, expert_tensor=1))
    4
    """
    return point.tensor * point.context * point.data // (point.expert * point.expert_tensor)


@jit
def expert_data_stride(point: Point) -> int:
    """Ranks between replicas of one expert."""
    stride = point.expert_tensor * point.expert
    if point.order == 1:
        stride *= point.pipeline
    return stride


@jit
def gradient_group(point: Point) -> tuple[int, int]:
    """(stride, size) of the group that reduces dense gradients, when it is one run of ranks: data and context together."""
    return point.tensor, point.context * point.data


@jit
def gradient_class(net: Network, point: Point) -> int:
    """Reach of the dense gradient group (context and data together)."""
    return reach_class_2(net.hb_size, point.tensor, point.context, data_stride(point), point.data)


@jit
def unreachable_group(net: Network, point: Point, experts: int, tied: int) -> int:
    """0 when every process group stays on the fabric's rails; else which does not.

    1 tensor, 2 context, 3 data, 4 pipeline, 5 expert, 6 expert data, 7 embedding, 8 expert tensor. Always 0 where the network joins any pair.

    >>> from costmodels.examples import EIGHT_H100, POINT
    >>> rail = EIGHT_H100._replace(gpus=64, any_to_any=0)
    >>> unreachable_group(rail, POINT._replace(tensor=8, data=8), 0, 0)
    0
    >>> unreachable_group(rail, POINT._replace(tensor=3, data=8), 0, 0)
    1
    """
    if net.any_to_any:
        return 0
    K = net.hb_size
    if reach_class(K, 1, point.tensor) == UNREACHABLE:
        return 1
    if reach_class(K, point.tensor, point.context) == UNREACHABLE:
        return 2
    if gradient_class(net, point) == UNREACHABLE:
        return 3
    stride = pipeline_stride(point)
    if reach_class(K, stride, point.pipeline) == UNREACHABLE:
        return 4
    if tied and point.pipeline > 1:
        ends = stride * (point.pipeline - 1)
        if ends % K != 0 and reach_class(K, stride, point.pipeline) != 0:
            return 7
    if experts > 0:
        if reach_class(K, 1, point.expert_tensor) == UNREACHABLE:
            return 8
        if reach_class(K, point.expert_tensor, point.expert) == UNREACHABLE:
            return 5
        if reach_class(K, expert_data_stride(point), expert_data_size(point)) == UNREACHABLE:
            return 6
    return 0
