"""Which GPU sends how many bytes to which, for one kind of process group.

Collectives follow NCCL's rings: a group of whole domains runs a ring inside each domain and one on each rail (gather:
rail first), any other group one ring through its members in rank order. Context parallelism passes K and V round one
ring, wherever its members lie. The expert all-to-all loads every pair alike. Pipeline stages talk to their neighbours,
and round the end when stages hold several chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from costmodels.topology import WHOLE_DOMAINS
from searchspaces.placement import classify


class Flows(NamedTuple):
    """Parallel arrays, one entry per ordered pair; `relay`: whether the group has a member that can relay it."""

    source: np.ndarray
    target: np.ndarray
    nbytes: np.ndarray
    relay: np.ndarray
    group: np.ndarray  # row of the group array it belongs to


def _flows(rows: np.ndarray, source: np.ndarray, target: np.ndarray, nbytes: np.ndarray, relay: np.ndarray) -> Flows:
    """Flatten (rows, pairs) arrays; `nbytes` and `relay` are per row."""
    width = source.size // max(1, len(rows))
    return Flows(source.ravel(), target.ravel(), np.repeat(nbytes, width), np.repeat(relay, width), np.repeat(rows, width))


def ring(groups: np.ndarray, payload: np.ndarray, hb_size: int) -> Iterator[Flows]:
    """A collective whose gathered tensor has `payload` bytes (per group): each member sends (n - 1) / n of it.

    >>> [f] = ring(np.array([[0, 1, 2]]), np.array([9.0]), 8)
    >>> f.source.tolist(), f.target.tolist(), f.nbytes.tolist()
    ([0, 1, 2], [1, 2, 0], [6.0, 6.0, 6.0])
    """
    size = groups.shape[1]
    if size <= 1:
        return
    codes = classify(groups, hb_size)
    flat = np.flatnonzero(codes != WHOLE_DOMAINS)
    if flat.size:
        yield from _round(groups[flat], payload[flat], np.zeros(flat.size, dtype=bool), flat)
    whole = np.flatnonzero(codes == WHOLE_DOMAINS)
    per_domain = (groups[whole] // hb_size == groups[whole, :1] // hb_size).sum(axis=1)
    for x in np.unique(per_domain):
        rows = whole[per_domain == x]
        y = size // x
        grid = groups[rows].reshape(len(rows), y, x)
        aligned = np.ones(len(rows), dtype=bool)
        yield _flows(rows, grid, np.roll(grid, -1, axis=2), payload[rows] * (x - 1) / x, aligned)
        yield _flows(rows, grid, np.roll(grid, -1, axis=1), payload[rows] * (y - 1) / size, aligned)


def exchange(groups: np.ndarray, payload: np.ndarray, hb_size: int) -> Iterator[Flows]:
    """K and V passed round one ring of neighbours, whatever the placement."""
    if groups.shape[1] > 1:
        relay = classify(groups, hb_size) == WHOLE_DOMAINS
        yield from _round(groups, payload, relay, np.arange(len(groups)))


def _round(groups: np.ndarray, payload: np.ndarray, relay: np.ndarray, rows: np.ndarray) -> Iterator[Flows]:
    size = groups.shape[1]
    yield _flows(rows, groups, np.roll(groups, -1, axis=1), payload * (size - 1) / size, relay)


def all_to_all(groups: np.ndarray, payload: np.ndarray, hb_size: int, copies: float = 1.0) -> Iterator[Flows]:
    """Every member sends payload / n to every other. `copies` < 1: node-limited routing sends that share between domains
    and the receiving domain copies the rest inside.

    >>> [f] = all_to_all(np.array([[0, 1]]), np.array([8.0]), 8)
    >>> list(zip(f.source.tolist(), f.target.tolist(), f.nbytes.tolist()))
    [(0, 1, 4.0), (1, 0, 4.0)]
    """
    size = groups.shape[1]
    if size <= 1:
        return
    relay = classify(groups, hb_size) == WHOLE_DOMAINS
    here, there = np.nonzero(~np.eye(size, dtype=bool))
    block = max(1, 2_000_000 // here.size)
    for first in range(0, len(groups), block):
        rows = np.arange(first, min(first + block, len(groups)))
        source, target = groups[rows][:, here], groups[rows][:, there]
        nbytes = np.repeat((payload[rows] / size)[:, None], here.size, axis=1)
        if copies < 1.0:
            nbytes = _node_limited(nbytes, source // hb_size == target // hb_size, there, size, copies)
        flows = _flows(rows, source, target, payload[rows], relay[rows])
        yield flows._replace(nbytes=nbytes.ravel())


def _node_limited(nbytes: np.ndarray, inside: np.ndarray, there: np.ndarray, size: int, copies: float) -> np.ndarray:
    """Pair bytes when only `copies` of what enters a domain crosses to each member and its peers pass on the rest."""
    per_member = inside.reshape(len(inside), size, size - 1).sum(axis=2) + 1  # members in each member's domain
    x = per_member[:, there]
    forwarded = (1.0 - copies) * nbytes * (size - x) / np.maximum(1, x - 1)
    return np.where(inside, nbytes + forwarded, nbytes * np.where(x > 1, copies, 1.0))


def chain(groups: np.ndarray, payload: np.ndarray, hb_size: int, chunks: int) -> Iterator[Flows]:
    """Pipeline neighbours: activations one way, gradients the other, `payload` bytes per chunk boundary and direction.

    >>> [(f.source.tolist(), f.target.tolist(), f.nbytes.tolist()) for f in chain(np.array([[0, 4]]), np.array([5.0]), 8, 1)]
    [([0], [4], [5.0]), ([4], [0], [5.0])]
    """
    if groups.shape[1] <= 1:
        return
    relay = classify(groups, hb_size) == WHOLE_DOMAINS
    rows = np.arange(len(groups))
    links = [(groups[:, :-1], groups[:, 1:], chunks)]
    if chunks > 1:
        links.append((groups[:, -1:], groups[:, :1], chunks - 1))
    for a, b, times in links:
        yield _flows(rows, a, b, payload * times, relay)
        yield _flows(rows, b, a, payload * times, relay)
