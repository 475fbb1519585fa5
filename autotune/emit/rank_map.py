"""Where every rank of a plan runs and what it does: node, local GPU, rail, domain, and its place on each parallel axis.

The order is Megatron's: the name of a rank order lists the axes from the fastest to the slowest varying. Dense layers see
the grid tensor x context x data x pipeline; expert layers see expert-tensor x expert x expert-data x pipeline over the same
ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from autotune.emit.job import Layout
from autotune.plan import Plan


class Rank(NamedTuple):
    """One process."""

    rank: int
    node: int
    local_gpu: int
    rail: int
    domain: int
    tp: int
    cp: int
    ep: int
    etp: int
    dp: int
    edp: int
    pp: int


def ranks(plan: Plan, where: Layout) -> Iterator[Rank]:
    """Every rank, in order.

    >>> from autotune.emit.job import Layout
    >>> plan = Plan(tensor_parallel=2, pipeline_parallel=2, data_parallel=2, global_batch_size=2, stage_layers=(1, 1))
    >>> list(ranks(plan, Layout(2, 4, 4)))[5]
    Rank(rank=5, node=1, local_gpu=1, rail=1, domain=1, tp=1, cp=0, ep=0, etp=0, dp=0, edp=1, pp=1)
    """
    p = plan
    data_last = p.rank_order.endswith("pp-dp")
    dense = _axes({"tp": p.tensor_parallel, "cp": p.context_parallel}, p.data_parallel, p.pipeline_parallel, data_last)
    expert = _axes(
        {"etp": p.expert_tensor_parallel, "ep": p.expert_parallel}, p.expert_data_parallel, p.pipeline_parallel, data_last, "edp"
    )
    for rank in range(p.gpus):
        d, e = _place(rank, dense), _place(rank, expert)
        yield Rank(
            rank=rank,
            node=rank // where.gpus_per_node,
            local_gpu=rank % where.gpus_per_node,
            rail=rank % where.domain,
            domain=rank // where.domain,
            tp=d["tp"],
            cp=d["cp"],
            ep=e["ep"],
            etp=e["etp"],
            dp=d["dp"],
            edp=e["edp"],
            pp=d["pp"],
        )


def _axes(inner: dict[str, int], data: int, pipeline: int, data_last: bool, data_name: str = "dp") -> list[tuple[str, int]]:
    outer = [("pp", pipeline), (data_name, data)] if data_last else [(data_name, data), ("pp", pipeline)]
    return [*inner.items(), *outer]


def _place(rank: int, axes: list[tuple[str, int]]) -> dict[str, int]:
    place = {}
    for name, size in axes:
        rank, place[name] = divmod(rank, size)
    return place


def csv(plan: Plan, where: Layout) -> str:
    """The map as CSV text with a header."""
    lines = [",".join(Rank._fields)]
    lines += [",".join(map(str, r)) for r in ranks(plan, where)]
    return "\n".join(lines) + "\n"
