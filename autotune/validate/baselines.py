"""Naive predictors printed beside the model: anything worth its complexity must beat them on the same rows and folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Job(NamedTuple):
    """What the baselines know of a run: its FLOPs over the peak of all its GPUs (seconds), and its degrees."""

    ideal_s: float
    tensor: int
    pipeline: int
    data: int
    chunks: int
    micro_batch: int
    micro_batches: int
    hidden: int


def bubble(job: Job) -> float:
    """Slowdown by the 1F1B bubble: 1 + (P-1)/(v m).

    >>> bubble(Job(1.0, 1, 4, 1, 1, 1, 6, 1024))
    1.5
    """
    return 1 + (job.pipeline - 1) / (job.chunks * job.micro_batches)


def _features(job: Job) -> list[float]:
    sizes = (job.ideal_s * bubble(job), job.tensor, job.micro_batch, job.hidden / job.tensor, job.data, job.pipeline)
    return [1.0, *np.log(sizes)]


def constant(train: Sequence[Job], times_s: Sequence[float], test: Sequence[Job]) -> NDArray[np.float64]:
    """One constant times FLOPs; the constant is the geometric mean over the training rows.

    >>> j = Job(1.0, 1, 1, 1, 1, 1, 1, 64)
    >>> constant([j], [2.0], [j._replace(ideal_s=3.0)]).tolist()
    [6.0]
    """
    scale = np.exp(np.mean([np.log(t / j.ideal_s) for j, t in zip(train, times_s, strict=True)]))
    return np.array([scale * j.ideal_s for j in test])


def constant_bubble(train: Sequence[Job], times_s: Sequence[float], test: Sequence[Job]) -> NDArray[np.float64]:
    """One constant times FLOPs times the 1F1B bubble."""
    return constant([j._replace(ideal_s=j.ideal_s * bubble(j)) for j in train], times_s, [j._replace(ideal_s=j.ideal_s * bubble(j)) for j in test])


def regression(train: Sequence[Job], times_s: Sequence[float], test: Sequence[Job]) -> NDArray[np.float64]:
    """Log-linear regression: an intercept and six exponents (FLOPs x bubble, T, micro-batch, h/T, D, P)."""
    weights, *_ = np.linalg.lstsq(np.array([_features(j) for j in train]), np.log(times_s), rcond=None)
    return np.asarray(np.exp(np.array([_features(j) for j in test]) @ weights), dtype=float)


BASELINES = {"constant": constant, "constant x bubble": constant_bubble, "regression": regression}
