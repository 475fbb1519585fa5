"""From axis values to a point: how layers are shared over stages, and how many of them are recomputed."""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.types import Point


@jit
def split_layers(layers: int, P: int, split: int) -> tuple[int, int]:
    """(first, last) stage layers of a split; (-1, -1) is the even one, (-2, -2) marks a split that does not exist.

    0 even: layers / P everywhere. 1 balanced: middle stages take one layer more than the mean (rounded), the two ends share the
    rest, the last never more than the first. 2 light last: only the last stage is lighter. Uneven splits leave room for
    the embedding and the head.

    >>> split_layers(96, 8, 0), split_layers(126, 16, 1), split_layers(61, 16, 2), split_layers(96, 8, 1)
    ((-1, -1), (7, 7), (4, 1), (9, 9))
    >>> split_layers(61, 16, 0)
    (-2, -2)
    """
    if split == 0:
        if layers % P == 0:
            return -1, -1
        return -2, -2
    if P == 1:
        return -2, -2
    middle = (layers + P - 1) // P
    if layers % P == 0:
        middle += 1
    if split == 1:
        if P == 2:
            return -2, -2
        rest = layers - middle * (P - 2)
        if rest < 2:
            return -2, -2
        return (rest + 1) // 2, rest // 2
    rest = layers - middle * (P - 1)
    if rest < 1:
        return -2, -2
    return middle, rest


@jit
def layers_per_chunk(layers: int, P: int, v: int) -> int:
    """Most layers in any model chunk (middle stages of uneven splits included)."""
    return (layers + P * v - 1) // (P * v)


@jit
def recompute_layers(mode: int, per_chunk: int) -> int:
    """Fully recomputed layers per chunk of mode 2..5 (1/4 to 4/4, rounded up); 0 for other modes.

    >>> [recompute_layers(mode, 6) for mode in range(6)]
    [0, 0, 2, 3, 5, 6]
    """
    if mode < 2:
        return 0
    return (per_chunk * (mode - 1) + 3) // 4


@jit
def make_point(
    layers: int, gpus: int, batch: int, T: int, P: int, C: int, E: int,
    b: int, X: int, sp: int, split: int, v: int, zero: int, mode: int, order: int,
) -> Point:  # fmt: skip
    """The point of a cell (T, P, C, E) and inner axis values; data parallelism takes the remaining GPUs.

    >>> p = make_point(96, 64, 128, 8, 4, 1, 1, 1, 1, 1, 0, 2, 1, 5, 0)
    >>> p.data, p.micro_batches, p.recompute, p.recompute_layers
    (2, 64, 2, 12)
    """
    data = max(1, gpus // (T * P * C))
    first, last = split_layers(layers, P, split)
    per_chunk = layers_per_chunk(layers, P, v)
    if mode == 5 and split > 0:
        per_chunk += 1  # uneven splits may put one layer more into a middle chunk; all of it is recomputed
    return Point(
        T, P, data, C, E, X, v, b, max(1, batch // (b * data)), sp, min(mode, 2), recompute_layers(mode, per_chunk),
        zero, first, last, order,
    )  # fmt: skip
