"""The three honest columns of accuracy, and the baselines on the same rows and folds.

D: operator constants only, no step time seen. X: constants fitted on other machines, the set's own left out. F: constants
fitted on the set, predicted in five folds of whole choice groups.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autotune.validate.baselines import BASELINES, Job
from autotune.validate.compiled import Prepared, prepare
from autotune.validate.fit import Fit, fit
from autotune.validate.folds import Split, choice_group, grouped_folds
from autotune.validate.mapping import Unscorable, scenarios
from autotune.validate.rows import Row
from autotune.validate.runner import SLACK
from autotune.validate.scoring import choice_summary, error_summary
from autotune.validate.tunable import Applier, constants_for

Array = NDArray[np.float64]
ROWS_PER_SYSTEM = 60  # a transfer fit sees at most so many rows of one machine, evenly taken
FULL_WEIGHT = 40  # machines with more rows count no more than this many


DECISIVE = 0.05  # mean |ln(predicted / measured)| that another reading must save: what one machine differs from another


class Sample(NamedTuple):
    """A row with a measured time, and every reading of it."""

    row: Row
    readings: tuple[Prepared, ...]


def samples_of(rows: Sequence[Row]) -> list[Sample]:
    """Rows that can be mapped and have a measured time, in order."""
    found = []
    for row in rows:
        try:
            readings = tuple(prepare(s) for s in scenarios(row)) if row.time_s else ()
        except Unscorable:
            continue
        if readings:
            found.append(Sample(row, readings))
    return found


def resolve(samples: Sequence[Sample], applier: Applier) -> list[Prepared]:
    """The reading of each row the model would pick: the fastest that memory does not rule out; see `runner`."""
    return [s.readings[0] if len(s.readings) == 1 else _fastest(s.readings, applier) for s in samples]


def _fastest(readings: Sequence[Prepared], applier: Applier) -> Prepared:
    priced = [(p, applier.price(p)) for p in readings]
    possible = [(p, x) for p, x in priced if x.peak_bytes + x.reserve_bytes <= SLACK * p.gpu.memory_bytes]
    if possible:
        return min(possible, key=lambda o: o[1].time_s)[0]
    return min(priced, key=lambda o: o[1].peak_bytes)[0]


def times(prepared: Sequence[Prepared], applier: Applier) -> Array:
    """Predicted seconds."""
    return np.array([applier.price(p).time_s for p in prepared])


def measured(samples: Sequence[Sample]) -> Array:
    """Measured seconds."""
    return np.array([float(s.row.time_s or 0.0) for s in samples])


def reading_key(p: Prepared) -> Hashable:
    """What may differ between the readings of one row."""
    return p.point.recompute, p.point.chunks, p.point.micro_batch, p.point.expert_tensor


def recipe(row: Row) -> Hashable:
    """Rows of one source, model, precision and layout: one published script, whatever the number of GPUs."""
    return row.prefix, row.model_name, row.precision, row.tp, row.pp, row.cp, row.ep, row.seq_len


def learn_readings(samples: Sequence[Sample], applier: Applier) -> dict[Hashable, Hashable]:
    """For a recipe with open choices, the reading all its rows allow that explains two or more of them best, where it is
    better than the fastest reading by at least `DECISIVE`.

    An unprinted recompute mode or micro-batch is one unknown of the script, not of a row: rows at other GPU counts tell it.
    """
    groups: dict[Hashable, list[Sample]] = {}
    for s in samples:
        if len(s.readings) > 1:
            groups.setdefault(recipe(s.row), []).append(s)
    learnt = {}
    for name, rows in groups.items():
        if len(rows) < 2:
            continue
        shared = set.intersection(*({reading_key(p) for p in s.readings} for s in rows))
        errors = {key: _misfit(rows, key, applier) for key in shared}
        best = min(sorted(errors, key=repr), key=lambda k: errors[k], default=None)
        if best is not None and errors[best] < _error(rows, resolve(rows, applier), applier) - DECISIVE:
            learnt[name] = best
    return learnt


def _misfit(samples: Sequence[Sample], key: Hashable, applier: Applier) -> float:
    return _error(samples, [next(p for p in s.readings if reading_key(p) == key) for s in samples], applier)


def _error(samples: Sequence[Sample], prepared: Sequence[Prepared], applier: Applier) -> float:
    return float(np.mean(np.abs(np.log(times(prepared, applier) / measured(samples)))))


def narrowed(samples: Sequence[Sample], learnt: Mapping[Hashable, Hashable]) -> list[Sample]:
    """The samples with their readings reduced to the learnt one, where there is one."""
    out = []
    for s in samples:
        kept = tuple(p for p in s.readings if reading_key(p) == learnt.get(recipe(s.row))) if len(s.readings) > 1 else ()
        out.append(Sample(s.row, kept) if kept else s)
    return out


def fit_samples(
    samples: Sequence[Sample], scale: float, weights: Sequence[float] | None = None, heavy: bool = False, machines: bool = False
) -> Fit:
    """Fit everything `tunable` allows on these rows."""
    prepared = resolve(samples, Applier({}))
    target = np.log(measured(samples))
    return fit(constants_for(prepared, machines), lambda v: np.log(times(prepared, Applier(v))) - target, weights, scale, heavy)


def predict(samples: Sequence[Sample], values: dict[str, float] | None = None) -> Array:
    """Predicted seconds with some constants replaced."""
    applier = Applier(values or {})
    return times(resolve(samples, applier), applier)


def column_f(samples: Sequence[Sample], splits: Sequence[Split], scale: float, heavy: bool = False) -> Array:
    """Every row predicted by constants fitted, and open choices of its recipe learnt, on the other folds."""
    out = np.zeros(len(samples))
    for train, test in splits:
        seen = [samples[i] for i in train]
        learnt = learn_readings(seen, Applier({}))
        values = fit_samples(narrowed(seen, learnt), scale, None, heavy).values
        learnt = learn_readings(seen, Applier(values))
        out[test] = predict(narrowed([samples[i] for i in test], learnt), values)
    return out


def column_x(samples: Sequence[Sample], everything: Sequence[Sample], scale: float) -> Array:
    """Each machine of the set predicted by constants fitted on rows of other machines with its GPU or framework."""
    out = np.zeros(len(samples))
    for system in dict.fromkeys(s.row.system_group for s in samples):
        test = [i for i, s in enumerate(samples) if s.row.system_group == system]
        related = {p.gpu_name for i in test for p in samples[i].readings} | {p.stack for i in test for p in samples[i].readings}
        train = [s for s in everything if s.row.system_group != system and related & {s.readings[0].gpu_name, s.readings[0].stack}]
        train, weights = _balanced(train)
        values = fit_samples(train, scale, weights, machines=True).values if train else {}
        out[test] = predict([samples[i] for i in test], values)
    return out


def _balanced(samples: Sequence[Sample]) -> tuple[list[Sample], list[float]]:
    """At most `ROWS_PER_SYSTEM` of each machine, and weights that stop one machine from deciding."""
    groups: dict[str, list[Sample]] = {}
    for s in samples:
        groups.setdefault(s.row.system_group, []).append(s)
    taken: list[Sample] = []
    weights: list[float] = []
    for group in groups.values():
        step = -(-len(group) // ROWS_PER_SYSTEM)
        kept = group[::step]
        taken += kept
        weights += [min(1.0, (FULL_WEIGHT / len(kept)) ** 0.5)] * len(kept)
    return taken, weights


def job_of(sample: Sample) -> Job:
    """What the baselines know of a row."""
    p, row = sample.readings[0], sample.row
    tokens = (row.global_batch or 1) * (row.seq_len or 1)
    flops = (row.model_flops_per_token_full_attn or _flops_per_token(p)) * tokens
    if row.recompute == "full":
        flops *= 4 / 3
    q = p.point
    gpus = q.tensor * q.pipeline * q.data * q.context
    return Job(flops / (gpus * p.gpu.peak_flops), q.tensor, q.pipeline, q.data, q.chunks, q.micro_batch, q.micro_batches, p.model.hidden)


def _flops_per_token(p: Prepared) -> float:
    """6 W + 12 L h s for rows whose source column is empty."""
    from costmodels.parameters import active_parameters

    return float(6 * active_parameters(p.model) + 12 * p.model.layers * p.model.heads * p.model.head_dim * p.model.seq)


def baseline_columns(samples: Sequence[Sample], splits: Sequence[Split]) -> dict[str, Array]:
    """The naive predictors on the same folds."""
    jobs, target = [job_of(s) for s in samples], measured(samples)
    out = {name: np.zeros(len(samples)) for name in BASELINES}
    for train, test in splits:
        for name, predictor in BASELINES.items():
            out[name][test] = predictor([jobs[i] for i in train], list(target[train]), [jobs[i] for i in test])
    return out


def folds_of(samples: Sequence[Sample], seed: int = 0) -> list[Split]:
    """Five folds of whole choice groups."""
    return grouped_folds([s.row for s in samples], choice_group, 5, seed)


def summary(samples: Sequence[Sample], predicted: Array) -> dict[str, Any]:
    """Errors and choice quality of one column."""
    target = measured(samples)
    choice = choice_summary([s.row.choice_key for s in samples], predicted, target)
    return {**error_summary(predicted, target), "choice": choice}
