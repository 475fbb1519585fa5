"""The predicted pipeline timeline as Chrome/Perfetto trace JSON (the Trace Event Format of chrome://tracing)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costmodels.schedule import Timeline, gpipe, interleaved, one_f_one_b, simulate

MAX_EVENTS = 400_000  # above this a viewer no longer opens the file


def pipeline_trace(
    stage_times: Sequence[tuple[float, float]],
    P: int,
    v: int,
    m: int,
    hop_s: float = 0.0,
    schedule: str = "1f1b",
    name: str = "",
    tail: Sequence[tuple[str, float]] = (),
) -> dict[str, Any]:
    """Trace of one iteration of a pipeline.

    `stage_times` holds (forward_s, backward_s) of each of the P stages per micro-batch, all v chunks together; one pair
    stands for all stages alike. `tail` lists what follows the pipeline on every stage, for example ("gradient
    reduction", seconds). Raises ValueError when the lengths disagree or the trace would be too long for a viewer.

    >>> trace = pipeline_trace([(1.0, 2.0)], P=2, v=1, m=2, tail=[("optimizer", 0.5)])
    >>> [e["name"] for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] == 0]
    ['forward 0', 'forward 1', 'backward 0', 'backward 1', 'optimizer']
    >>> trace["otherData"]["iteration_s"]
    9.5
    """
    times = list(stage_times) * P if len(stage_times) == 1 else list(stage_times)
    if len(times) != P:
        raise ValueError(f"{len(times)} stage times for {P} stages")
    if 2 * P * v * m > MAX_EVENTS:
        raise ValueError(f"{2 * P * v * m} events are too many for a trace viewer (limit {MAX_EVENTS}); use fewer micro-batches")
    if schedule == "gpipe":
        orders = gpipe(P, m)
    elif schedule == "1f1b":
        orders = interleaved(P, v, m) if v > 1 else one_f_one_b(P, m)
    else:
        raise ValueError(f"unknown schedule {schedule!r}: gpipe or 1f1b")
    timeline = simulate(orders, [[f / v] * v for f, _ in times], [[b / v] * v for _, b in times], hop_s)
    end_s = timeline.makespan_s + sum(seconds for _, seconds in tail)
    return {
        "displayTimeUnit": "ms",
        "traceEvents": _names(P, name or "pipeline") + _operations(timeline, v) + _tail(P, timeline.makespan_s, tail),
        "otherData": {
            "iteration_s": end_s,
            "pipeline_s": timeline.makespan_s,
            "idle_share": 1 - sum(timeline.busy_s(j) for j in range(P)) / (P * timeline.makespan_s) if end_s > 0 else 0.0,
            "max_chunks_in_flight": timeline.max_in_flight,
        },
    }


def _names(P: int, name: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": name}}]
    for j in range(P):
        events.append({"ph": "M", "pid": 0, "tid": j, "name": "thread_name", "args": {"name": f"stage {j}"}})
        events.append({"ph": "M", "pid": 0, "tid": j, "name": "thread_sort_index", "args": {"sort_index": j}})
    return events


def _operations(timeline: Timeline, v: int) -> list[dict[str, Any]]:
    events = []
    for j, intervals in enumerate(timeline.stages):
        for start_s, end_s, (forward, micro_batch, chunk) in intervals:
            kind = "forward" if forward else "backward"
            label = f"{kind} {micro_batch}" + (f".{chunk}" if v > 1 else "")
            args = {"micro_batch": micro_batch, "chunk": chunk, "model_part": chunk * len(timeline.stages) + j}
            events.append(_slice(label, kind, j, start_s, end_s - start_s, args))
    return events


def _tail(P: int, start_s: float, tail: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    events = []
    for label, seconds in tail:
        if seconds > 0:
            events += [_slice(label, "step", j, start_s, seconds, {}) for j in range(P)]
        start_s += seconds
    return events


def _slice(name: str, kind: str, stage: int, start_s: float, seconds: float, args: dict[str, Any]) -> dict[str, Any]:
    """A complete event; the format counts in microseconds. Colours are names the viewers know."""
    colour = {"forward": "thread_state_running", "backward": "thread_state_runnable", "step": "thread_state_iowait"}[kind]
    event = {"ph": "X", "pid": 0, "tid": stage, "name": name, "cat": kind, "cname": colour}
    return {**event, "ts": round(start_s * 1e6, 3), "dur": round(seconds * 1e6, 3), "args": args}
