"""Process groups of a point on Megatron's two rank grids, as sizes and strides.

Dense grid tp x cp x dp x pp, expert grid etp x ep x edp x pp, the first axis fastest. Order 0 is "tp-cp-ep-dp-pp"; order
1, "tp-cp-ep-pp-dp", puts pipeline inside data (Megatron's --use-tp-pp-dp-mapping). Every group is a set of strides and
sizes added to a first rank; nothing of size ranks x ranks is ever built.

The group that carries dense gradients spans data and context together, as in Megatron ("dp-cp").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodels.types import Point

ORDERS = ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp")
KINDS = ("tensor", "context", "expert", "expert-tensor", "data", "expert-data", "pipeline", "embedding")


class Axis(NamedTuple):
    """One axis of a rank grid."""

    name: str
    size: int
    stride: int


class GroupShape(NamedTuple):
    """All groups of one kind: each is a first rank plus every combination of steps along `axes`."""

    kind: str
    size: int
    groups: int
    axes: tuple[Axis, ...]


def ranks(point: Point) -> int:
    """Ranks of the job.

    >>> from costmodels.examples import POINT
    >>> ranks(POINT._replace(tensor=2, data=4, pipeline=2))
    16
    """
    return point.tensor * point.context * point.data * point.pipeline


def expert_data(point: Point) -> int:
    """Replicas of each expert. Raises ValueError when the expert grid does not divide a stage's ranks."""
    per_stage = ranks(point) // point.pipeline
    inner = point.expert * point.expert_tensor
    if per_stage % inner:
        raise ValueError(f"expert x expert-tensor = {inner} does not divide the {per_stage} ranks of a pipeline stage")
    return per_stage // inner


def dense_grid(point: Point) -> tuple[Axis, ...]:
    """Axes of the dense grid, fastest first.

    >>> from costmodels.examples import POINT
    >>> [(a.name, a.stride) for a in dense_grid(POINT._replace(tensor=4, data=2, pipeline=2, order=1))]
    [('tp', 1), ('cp', 4), ('pp', 4), ('dp', 8)]
    """
    inner = [("tp", point.tensor), ("cp", point.context)]
    return _strides(inner + _outer(point.order, ("dp", point.data), ("pp", point.pipeline)))


def expert_grid(point: Point) -> tuple[Axis, ...]:
    """Axes of the expert grid, fastest first."""
    inner = [("etp", point.expert_tensor), ("ep", point.expert)]
    return _strides(inner + _outer(point.order, ("edp", expert_data(point)), ("pp", point.pipeline)))


def _outer(order: int, data: tuple[str, int], pipeline: tuple[str, int]) -> list[tuple[str, int]]:
    return [data, pipeline] if order == 0 else [pipeline, data]


def _strides(axes: list[tuple[str, int]]) -> tuple[Axis, ...]:
    stride, result = 1, []
    for name, size in axes:
        result.append(Axis(name, size, stride))
        stride *= size
    return tuple(result)


_AXES = {
    "tensor": ("tp",),
    "context": ("cp",),
    "expert": ("ep",),
    "expert-tensor": ("etp",),
    "data": ("cp", "dp"),
    "expert-data": ("edp",),
    "pipeline": ("pp",),
    "embedding": ("pp",),
}


def group_shape(point: Point, kind: str) -> GroupShape:
    """Sizes and strides of the groups of one kind. Embedding groups hold the first and the last stage only.

    >>> from costmodels.examples import POINT
    >>> group_shape(POINT._replace(tensor=2, context=2, data=4, pipeline=2), "data")
    GroupShape(kind='data', size=8, groups=4, axes=(Axis(name='cp', size=2, stride=2), Axis(name='dp', size=4, stride=4)))
    """
    grid = _grid_of(point, kind)
    axes = tuple(a for a in grid if a.name in _AXES[kind])
    if kind == "embedding" and point.pipeline > 1:
        axes = (Axis("pp", 2, axes[0].stride * (point.pipeline - 1)),)
        return GroupShape(kind, 2, ranks(point) // point.pipeline, axes)
    size = int(np.prod([a.size for a in axes]))
    return GroupShape(kind, size, ranks(point) // size, axes)


def _grid_of(point: Point, kind: str) -> tuple[Axis, ...]:
    if kind not in _AXES:
        raise ValueError(f"unknown kind of process group {kind!r}: one of {', '.join(KINDS)}")
    return expert_grid(point) if kind.startswith("expert") else dense_grid(point)


def members(point: Point, kind: str) -> np.ndarray:
    """Ranks of every group of a kind, an int array (groups, members), ascending within each group.

    >>> from costmodels.examples import POINT
    >>> members(POINT._replace(tensor=2, data=2, pipeline=2), "pipeline").tolist()
    [[0, 4], [1, 5], [2, 6], [3, 7]]
    """
    shape = group_shape(point, kind)
    grid = _grid_of(point, kind)
    own = {a.name for a in shape.axes}
    firsts = _sums([a for a in grid if a.name not in own])
    offsets = _sums(list(shape.axes))
    return np.sort(firsts)[:, None] + np.sort(offsets)[None, :]


def _sums(axes: list[Axis]) -> np.ndarray:
    total = np.zeros(1, dtype=np.int64)
    for axis in axes:
        total = (total[None, :] + axis.stride * np.arange(axis.size)[:, None]).ravel()
    return total


def coordinates(point: Point) -> dict[str, np.ndarray]:
    """Each rank's place on both grids: arrays tp, cp, dp, pp, etp, ep, edp.

    `pp` is the dense grid's. Under order 1 the expert grid's differs unless etp x ep = tp x cp; Megatron refuses that.

    >>> from costmodels.examples import POINT
    >>> c = coordinates(POINT._replace(tensor=2, data=2, pipeline=2))
    >>> c["pp"].tolist(), c["dp"].tolist()
    ([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1])
    """
    every = np.arange(ranks(point), dtype=np.int64)
    axes = (*expert_grid(point), *dense_grid(point))
    return {a.name: every // a.stride % a.size for a in axes}
