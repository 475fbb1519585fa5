"""Bounded, robust fit of a few named constants, each pulled towards a prior.

Residuals are ln(predicted / measured). Rows enter through a soft-L1 loss, so that a slow outlier does not bend a constant;
priors enter squared. A constant the data say nothing about stays at its prior and is reported as not identified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Residuals = Callable[[Mapping[str, float]], Array]

IDENTIFIED = 0.5  # data must at least halve the prior's standard deviation
SCALE = 0.03  # errors well above 3 % count as outliers


@dataclass(frozen=True)
class Constant:
    """One number to fit: its prior mean and standard deviation, and hard limits."""

    name: str
    prior: float
    sigma: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """What came out. `errors` are standard deviations; `identified` names constants the data determine."""

    values: dict[str, float]
    errors: dict[str, float]
    identified: tuple[str, ...]
    before: float  # mean |ln(predicted/measured)| at the priors
    after: float
    cost: float  # robust misfit plus what the move away from the priors costs


def fit(
    constants: Sequence[Constant], residuals: Residuals, weights: Sequence[float] | None = None, scale: float = SCALE, heavy: bool = False
) -> Fit:
    """Fit `constants` so that `residuals(values)` are small.

    `residuals` maps {name: value} to ln(predicted / measured) of every row; `weights` multiply rows.
    `heavy` takes a Cauchy loss, for sets in which many rows are slow for reasons no constant can carry.

    >>> truth = np.array([1.0, 2.0, 4.0])
    >>> f = fit([Constant("k", 1.0, 0.5, 0.1, 3.0)], lambda v: np.log(v["k"] * truth / (1.5 * truth)))
    >>> round(f.values["k"], 2), f.identified
    (1.5, ('k',))
    """
    from scipy.optimize import least_squares

    names = [c.name for c in constants]
    sigma = np.array([c.sigma for c in constants])
    prior = np.array([c.prior for c in constants])
    bounds = (np.array([c.low for c in constants]) - prior) / sigma, (np.array([c.high for c in constants]) - prior) / sigma
    start = residuals(dict(zip(names, prior, strict=True)))
    weight = np.ones(len(start)) if weights is None else np.asarray(weights, dtype=float)

    def values_at(x: Array) -> dict[str, float]:
        return dict(zip(names, (prior + sigma * x).tolist(), strict=True))

    def vector(x: Array) -> Array:
        return np.concatenate([weight * residuals(values_at(x)) / scale, x])

    if not constants:
        error = _mean(start)
        z = (weight * start / scale) ** 2
        return Fit({}, {}, (), error, error, float(0.5 * _robust(len(start), heavy)(z)[0].sum()))
    inset = np.minimum(0.3, 0.25 * (bounds[1] - bounds[0]))  # a start on a bound would stay there
    first = np.clip(0.0, bounds[0] + inset, bounds[1] - inset)
    solution = least_squares(vector, first, bounds=bounds, loss=_robust(len(start), heavy), diff_step=1e-4)
    spread = _spread(solution.jac)
    values = values_at(solution.x)
    names_known = tuple(n for n, s in zip(names, spread, strict=True) if s < IDENTIFIED)
    errors = dict(zip(names, (spread * sigma).tolist(), strict=True))
    return Fit(values, errors, names_known, _mean(start), _mean(residuals(values)), float(solution.cost))


def _mean(residual: Array) -> float:
    return float(np.mean(np.abs(residual))) if len(residual) else 0.0


def _robust(rows: int, heavy: bool) -> Callable[[Array], Array]:
    """Soft-L1 or Cauchy on the first `rows` residuals, plain squares on the priors behind them."""

    def rho(z: Array) -> Array:
        out = np.empty((3, len(z)))
        t = 1 + z
        if heavy:
            out[0], out[1], out[2] = np.log1p(z), 1 / t, -(t**-2)
        else:
            out[0], out[1], out[2] = 2 * (np.sqrt(t) - 1), t**-0.5, -0.5 * t**-1.5
        out[0, rows:], out[1, rows:], out[2, rows:] = z[rows:], 1.0, 0.0
        return out

    return rho


def _spread(jacobian: Any) -> Array:
    """Posterior standard deviation of each constant, in units of its prior's."""
    precision = jacobian.T @ jacobian
    return np.sqrt(np.clip(np.diag(np.linalg.inv(precision)), 0.0, 1.0))
