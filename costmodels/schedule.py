"""A discrete-event simulator of pipeline schedules in plain Python.

It is the oracle of the closed forms in `costmodels.pipeline` and the source of predicted timelines. A schedule is, per
stage, the ordered list of operations that stage runs; an operation starts when the stage is free and its input has
arrived. A tensor that crosses to another stage arrives `hop_s` after the operation that made it ended; sending does
not keep the stage busy.

Builders follow the published orders: GPipe (Huang et al. 2019, all forwards then all backwards), 1F1B (PipeDream-Flush,
Narayanan et al. 2021) and interleaved 1F1B as in Megatron Core (`pipeline_parallel/schedules.py`): chunk c of stage j
is the (c P + j)-th part of the model, micro-batches run in groups of `group` per chunk, stage j warms up with
2 (P - 1 - j) + (v - 1) group forward chunks, then alternates one forward and one backward chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Operation(NamedTuple):
    """One forward or backward pass of one micro-batch through one model chunk."""

    forward: bool
    micro_batch: int
    chunk: int


class Interval(NamedTuple):
    """When a stage ran an operation."""

    start_s: float
    end_s: float
    operation: Operation


class Timeline(NamedTuple):
    """What a simulated iteration looked like."""

    makespan_s: float
    stages: list[list[Interval]]
    max_in_flight: list[int]  # per stage: most chunks whose activations were held at once

    def busy_s(self, stage: int) -> float:
        """Seconds a stage computed."""
        return sum(interval.end_s - interval.start_s for interval in self.stages[stage])


Schedule = list[list[Operation]]


def gpipe(stages: int, micro_batches: int) -> Schedule:
    """All forwards, then all backwards.

    >>> [(o.forward, o.micro_batch) for o in gpipe(2, 2)[0]]
    [(True, 0), (True, 1), (False, 0), (False, 1)]
    """
    order = [Operation(forward, k, 0) for forward in (True, False) for k in range(micro_batches)]
    return [list(order) for _ in range(stages)]


def one_f_one_b(stages: int, micro_batches: int) -> Schedule:
    """1F1B: stage j warms up with P - 1 - j forwards.

    >>> ["FB"[not o.forward] + str(o.micro_batch) for o in one_f_one_b(2, 3)[0]]
    ['F0', 'F1', 'B0', 'F2', 'B1', 'B2']
    """
    forwards = [Operation(True, k, 0) for k in range(micro_batches)]
    backwards = [Operation(False, k, 0) for k in range(micro_batches)]
    return [_alternate(forwards, backwards, stages - 1 - j) for j in range(stages)]


def interleaved(stages: int, chunks: int, micro_batches: int, group: int = 0) -> Schedule:
    """Megatron's interleaved 1F1B with `chunks` model chunks per stage.

    `group` is Megatron's micro-batch group size per virtual stage; 0 means the number of stages. One stage needs no
    pipeline: its chunks run through, forward and then backward, for each micro-batch.

    >>> ["Ff"[o.chunk] + str(o.micro_batch) for o in interleaved(2, 2, 4)[1] if o.forward]
    ['F0', 'F1', 'f0', 'f1', 'F2', 'F3', 'f2', 'f3']
    """
    if stages == 1:
        passes = [(True, c) for c in range(chunks)] + [(False, c) for c in reversed(range(chunks))]
        return [[Operation(forward, k, c) for k in range(micro_batches) for forward, c in passes]]
    group = group or stages
    table = [
        (k, c)
        for first in range(0, micro_batches, group)
        for c in range(chunks)
        for k in range(first, min(first + group, micro_batches))
    ]
    forwards = [Operation(True, k, c) for k, c in table]
    backwards = [Operation(False, k, chunks - 1 - c) for k, c in table]
    return [_alternate(forwards, backwards, 2 * (stages - 1 - j) + (chunks - 1) * group) for j in range(stages)]


def _alternate(forwards: list[Operation], backwards: list[Operation], warm_up: int) -> list[Operation]:
    warm_up = min(warm_up, len(forwards))
    order = forwards[:warm_up]
    steady = len(forwards) - warm_up
    for forward, backward in zip(forwards[warm_up:], backwards[:steady], strict=True):
        order += [forward, backward]
    return order + backwards[steady:]


def simulate(
    schedule: Schedule, forward_s: Sequence[Sequence[float]], backward_s: Sequence[Sequence[float]], hop_s: float = 0.0
) -> Timeline:
    """Run a schedule. `forward_s[stage][chunk]` and `backward_s[stage][chunk]` are seconds per micro-batch.

    Raises ValueError when the order can never finish.

    >>> t = simulate(one_f_one_b(2, 3), [[1], [1]], [[2], [2]])
    >>> t.makespan_s, t.busy_s(0), t.max_in_flight
    (12.0, 9.0, [2, 1])
    """
    stages, chunks = len(schedule), len(forward_s[0])
    ready: dict[tuple[int, Operation], float] = {(0, o): 0.0 for o in schedule[0] if o.forward and o.chunk == 0}
    intervals: list[list[Interval]] = [[] for _ in range(stages)]
    position, free = [0] * stages, [0.0] * stages
    waiting = list(range(stages))
    while waiting:
        stage = waiting.pop()
        while position[stage] < len(schedule[stage]):
            operation = schedule[stage][position[stage]]
            arrival = ready.get((stage, operation))
            if arrival is None:
                break
            start = max(free[stage], arrival)
            cost = (forward_s if operation.forward else backward_s)[stage][operation.chunk]
            free[stage] = end = start + cost
            position[stage] += 1
            intervals[stage].append(Interval(start, end, operation))
            follower = _follower(stage, operation, stages, chunks)
            if follower is not None:
                ready[follower] = end + (hop_s if follower[0] != stage else 0.0)
                if follower[0] != stage:
                    waiting.append(follower[0])
    for stage, done in enumerate(position):
        if done < len(schedule[stage]):
            raise ValueError(f"the schedule deadlocks: stage {stage} waits for the input of {schedule[stage][done]}")
    return Timeline(max(free), intervals, [_most_in_flight(stage) for stage in intervals])


def _follower(stage: int, operation: Operation, stages: int, chunks: int) -> tuple[int, Operation] | None:
    """The operation that consumes this one's output, and its stage."""
    forward, k, chunk = operation
    position = chunk * stages + stage
    if forward and position == stages * chunks - 1:
        return stage, Operation(False, k, chunk)
    if not forward and position == 0:
        return None
    position += 1 if forward else -1
    return position % stages, Operation(forward, k, position // stages)


def _most_in_flight(intervals: list[Interval]) -> int:
    held = most = 0
    for interval in intervals:
        held += 1 if interval.operation.forward else -1
        most = max(most, held)
    return most
