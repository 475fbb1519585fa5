"""The event simulator: orders, hand-worked timelines, and its own invariants."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.trace import pipeline_trace
from costmodels import schedule
from costmodels.schedule import Operation


def text(order):
    return " ".join(f"{'F' if o.forward else 'B'}{o.micro_batch}.{o.chunk}" for o in order)


def test_interleaved_order_of_the_first_stage_worked_by_hand():
    """P = 2, v = 2, m = 4: 2 (P - 1) + (v - 1) P = 4 warm-up chunks, then one forward, one backward."""
    assert text(schedule.interleaved(2, 2, 4)[0]) == (
        "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0"
    )


def test_two_stage_timeline_worked_by_hand():
    """f = 1, b = 2, hop 0.5: stage 1 starts at 1.5, its first backward ends at 4.5 and reaches stage 0 at 5."""
    timeline = schedule.simulate(schedule.one_f_one_b(2, 2), [[1], [1]], [[2], [2]], 0.5)
    assert [(i.start_s, i.end_s) for i in timeline.stages[0]] == [(0, 1), (1, 2), (5, 7), (8, 10)]
    assert [(i.start_s, i.end_s) for i in timeline.stages[1]] == [(1.5, 2.5), (2.5, 4.5), (4.5, 5.5), (5.5, 7.5)]


def test_a_schedule_that_cannot_finish_is_refused():
    orders = [[Operation(True, 0, 0), Operation(False, 0, 0)], [Operation(False, 0, 0), Operation(True, 0, 0)]]
    with pytest.raises(ValueError, match="deadlocks"):
        schedule.simulate(orders, [[1], [1]], [[1], [1]])


def legal(P, m, group):
    """Megatron's rule: the last, partial group must fill the pipeline."""
    return P <= group <= m and (m % group == 0 or m % group >= P)


@settings(max_examples=80, deadline=None)
@given(st.integers(2, 8), st.integers(1, 3), st.integers(1, 24), st.integers(2, 24), st.floats(0, 2))
def test_every_pass_runs_once_in_order_and_stages_never_overlap(P, v, m, group, hop):
    assume(v == 1 or legal(P, m, group))
    timeline = schedule.simulate(schedule.interleaved(P, v, m, group), [[1.0] * v] * P, [[2.0] * v] * P, hop)
    everything = {Operation(f, k, c) for f in (True, False) for k in range(m) for c in range(v)}
    ends = {(j, i.operation): i.end_s for j, stage in enumerate(timeline.stages) for i in stage}
    for j, stage in enumerate(timeline.stages):
        assert len(stage) == len(everything) and {i.operation for i in stage} == everything
        assert all(a.end_s <= b.start_s for a, b in zip(stage, stage[1:], strict=False))
        for interval in stage:
            forward, k, c = interval.operation
            if not forward:
                assert interval.start_s >= ends[j, Operation(True, k, c)]
            elif j > 0:
                assert interval.start_s >= ends[j - 1, Operation(True, k, c)] + hop


def test_a_partial_group_that_does_not_fill_the_pipeline_deadlocks():
    """Why Megatron refuses 7 micro-batches in groups of 5 on 5 stages."""
    assert not legal(5, 7, 5)
    with pytest.raises(ValueError, match="deadlocks"):
        schedule.simulate(schedule.interleaved(5, 2, 7), [[1.0] * 2] * 5, [[1.0] * 2] * 5)


def test_trace_covers_the_timeline():
    trace = pipeline_trace([(1.0, 2.0), (1.5, 2.5)], P=2, v=2, m=4, hop_s=0.1, tail=[("gradients", 0.3), ("optimizer", 0.2)])
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == 2 * 2 * 2 * 4 + 4
    assert max(e["ts"] + e["dur"] for e in slices) == pytest.approx(1e6 * trace["otherData"]["iteration_s"])
    busy = sum(e["dur"] for e in slices if e["tid"] == 1 and e["cat"] != "step")
    assert busy == pytest.approx(1e6 * 4 * (1.5 + 2.5))
    assert 0 < trace["otherData"]["idle_share"] < 1


def test_trace_refuses_what_it_cannot_draw():
    with pytest.raises(ValueError, match="3 stage times for 2 stages"):
        pipeline_trace([(1.0, 1.0)] * 3, P=2, v=1, m=1)
    with pytest.raises(ValueError, match="too many"):
        pipeline_trace([(1.0, 1.0)], P=64, v=1, m=100_000)
    with pytest.raises(ValueError, match="unknown schedule"):
        pipeline_trace([(1.0, 1.0)], P=2, v=1, m=1, schedule="zb")
