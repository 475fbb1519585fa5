"""The rank map: every group a partition, every place used once, rails and domains in step with ranks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.emit.job import Layout
from autotune.emit.rank_map import Rank, csv, ranks
from autotune.plan import RANK_ORDERS, Plan

degrees = st.sampled_from([1, 2, 3, 4])


@settings(max_examples=60, deadline=None)
@given(degrees, degrees, degrees, degrees, st.sampled_from(RANK_ORDERS))
def test_places_are_unique_in_both_grids(tensor: int, context: int, data: int, pipeline: int, order: str) -> None:
    plan = Plan(tensor_parallel=tensor, context_parallel=context, data_parallel=data, pipeline_parallel=pipeline, rank_order=order,
                expert_parallel=tensor * context, global_batch_size=data, stage_layers=(1,) * pipeline)  # fmt: skip
    rows = list(ranks(plan, Layout(plan.gpus, 1, 1)))
    assert [r.rank for r in rows] == list(range(plan.gpus))
    assert len({(r.tp, r.cp, r.dp, r.pp) for r in rows}) == plan.gpus
    assert len({(r.etp, r.ep, r.edp, r.pp) for r in rows}) == plan.gpus


def test_tensor_groups_stay_in_a_host_and_pipelines_on_a_rail() -> None:
    plan = Plan(tensor_parallel=8, pipeline_parallel=4, data_parallel=2, global_batch_size=2, stage_layers=(1,) * 4)
    rows = list(ranks(plan, Layout(8, 8, 8)))
    for r in rows:
        assert r.rail == r.local_gpu == r.tp and r.domain == r.node == r.dp + 2 * r.pp


def test_the_file_has_one_line_per_rank() -> None:
    plan = Plan(tensor_parallel=2, data_parallel=4, global_batch_size=4, stage_layers=(1,))
    lines = csv(plan, Layout(2, 4, 4)).splitlines()
    assert lines[0] == ",".join(Rank._fields) and len(lines) == 9
    assert lines[6] == "5,1,1,1,1,1,0,0,0,2,5,0"
