"""Groups, classes and traffic of small jobs the slow, obvious way: nested loops, sets and a dictionary of pairs."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

AXES = {
    "tensor": ("dense", ("tp",)), "context": ("dense", ("cp",)), "data": ("dense", ("cp", "dp")),
    "pipeline": ("dense", ("pp",)), "embedding": ("dense", ("pp",)),
    "expert": ("expert", ("ep",)), "expert-tensor": ("expert", ("etp",)), "expert-data": ("expert", ("edp",)),
}  # fmt: skip


def place_of_ranks(order: str, sizes: dict[str, int]) -> list[dict[str, int]]:
    """Coordinates of rank 0, 1, ...: the first axis of the order string turns fastest."""
    names = [n for n in order.split("-") if n in sizes]
    return [
        dict(zip(reversed(names), place, strict=True)) for place in product(*(range(sizes[n]) for n in reversed(names)))
    ]


def groups(point: Any, kind: str) -> list[list[int]]:
    """Ranks that agree on every other axis."""
    grid, own = AXES[kind]
    stage = point.tensor * point.context * point.data
    order = "tp-cp-ep-dp-pp" if point.order == 0 else "tp-cp-ep-pp-dp"
    if grid == "dense":
        sizes = {"tp": point.tensor, "cp": point.context, "dp": point.data, "pp": point.pipeline}
    else:
        inner = point.expert * point.expert_tensor
        sizes = {"etp": point.expert_tensor, "ep": point.expert, "edp": stage // inner, "pp": point.pipeline}
        order = order.replace("tp", "etp", 1).replace("-dp", "-edp")
    found = defaultdict(list)
    for rank, place in enumerate(place_of_ranks(order, sizes)):
        found[tuple(v for n, v in place.items() if n not in own)].append(rank)
    rows = sorted(found.values())
    return [[row[0], row[-1]] for row in rows] if kind == "embedding" and point.pipeline > 1 else rows


def class_of(group: list[int], K: int) -> str:
    """By the definition in the documentation."""
    rails_in = defaultdict(set)
    for rank in group:
        rails_in[rank // K].add(rank % K)
    if len(rails_in) == 1:
        return "in-domain"
    if len({r % K for r in group}) == 1:
        return "one-rail"
    alike = len({frozenset(s) for s in rails_in.values()}) == 1
    return "whole-domains" if alike else "illegal"


def pairs(kind: str, group: list[int], payload: float, K: int, chunks: int, copies: float) -> dict[tuple[int, int], float]:
    """Bytes of every ordered pair of one group."""
    n, out = len(group), defaultdict(float)
    if kind == "pipeline":
        for a, b in zip(group, group[1:], strict=False):
            out[a, b] += chunks * payload
            out[b, a] += chunks * payload
        out[group[-1], group[0]] += (chunks - 1) * payload
        out[group[0], group[-1]] += (chunks - 1) * payload
        return out
    if kind == "expert":
        for a, b in product(group, group):
            if a // K == b // K and a != b:
                out[a, b] += payload / n
            elif a != b:
                alone = sum(r // K == b // K for r in group) == 1
                out[a, b] += payload / n * (1 if alone else copies)
                peers = [r for r in group if r // K == b // K and r != b]
                for peer in peers:  # the rest of the copies for b's domain is spread inside it
                    out[peer, b] += (1 - copies) * payload / n / len(peers)
        return out
    if kind != "context" and class_of(group, K) == "whole-domains":
        domains = [[r for r in group if r // K == d] for d in sorted({r // K for r in group})]
        x, y = len(domains[0]), len(domains)
        for d in domains:
            for i, rank in enumerate(d):
                out[rank, d[(i + 1) % x]] += payload * (x - 1) / x
        for i in range(x):
            for j in range(y):
                out[domains[j][i], domains[(j + 1) % y][i]] += payload * (y - 1) / n
        return out
    for i, rank in enumerate(group):
        out[rank, group[(i + 1) % n]] += payload * (n - 1) / n
    return out
