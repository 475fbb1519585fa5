"""Memory of runs that do not print how tensor parallelism shares activations, in column F.

A run of nanotron either splits every activation over the tensor group (reduce-scatter) or keeps some whole (all-reduce).
Its launcher sets that for many runs at once. The mode of a kind of run is learnt from the memory of other runs: five folds
of whole (model, GPU count) groups; a row's own memory, and that of its group, is never seen.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Hashable, Sequence
from math import log
from typing import NamedTuple

from autotune.validate.folds import grouped_folds
from autotune.validate.rows import Row
from autotune.validate.runner import Predictor, Result, memory_of


class Modes(NamedTuple):
    """Predicted bytes of one run in both modes."""

    whole: float
    split: float


def kind_of_run(row: Row) -> Hashable:
    """What a launcher may have tied the mode to: a pipeline or none, tensor degree, sharded optimizer."""
    return row.pp == 1, row.tp, row.dist_opt_or_zero


def group_of_runs(row: Row) -> Hashable:
    """Runs that stay in one fold."""
    return row.model_name, row.n_gpus


def both_modes(result: Result, predict: Predictor) -> Modes | None:
    """Predictions of a run in both modes; None where the mode is printed or makes no difference."""
    row, scenario = result.row, result.scenario
    if scenario is None or result.stack != "nanotron" or row.seq_parallel or (row.tp or 1) == 1 or not row.memory_bytes:
        return None
    split = scenario.plan.sequence_parallel
    other_plan = dataclasses.replace(scenario.plan, sequence_parallel=not split)
    own, other = result.memory_bytes, memory_of(predict(scenario.cluster, scenario.model, other_plan), result.stack)
    if own is None or other is None:
        return None
    return Modes(other, own) if split else Modes(own, other)


def with_learnt_mode(results: Sequence[Result], predict: Predictor) -> list[Result]:
    """The same results, memory in the mode learnt on the other folds."""
    modes = [both_modes(r, predict) for r in results]
    out = list(results)
    for train, test in grouped_folds([r.row for r in results], group_of_runs):
        excess: dict[Hashable, float] = defaultdict(float)
        for i in train:
            if (m := modes[i]) is not None:
                measured = float(results[i].row.memory_bytes or 1.0)
                excess[kind_of_run(results[i].row)] += abs(log(m.split / measured)) - abs(log(m.whole / measured))
        for i in test:
            kind = kind_of_run(results[i].row)
            if (m := modes[i]) is not None and kind in excess:
                out[i] = dataclasses.replace(results[i], memory_bytes=m.whole if excess[kind] > 0 else m.split)
    return out
