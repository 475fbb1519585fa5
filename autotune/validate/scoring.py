"""How good predictions are: errors, fit or out-of-memory, and the choice a planner would have made.

Errors are fractions of the measured value: APE = |predicted - measured| / measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

TIE = 1e-9  # relative difference below which two predictions count as equal


def error_summary(predicted: ArrayLike, measured: ArrayLike) -> dict[str, float | int | None]:
    """Mean, median, 90th percentile and largest absolute percentage error, and the signed mean (bias).

    >>> error_summary([1.1, 1.8], [1.0, 2.0])["mape"]
    0.1
    >>> error_summary([], [])["n"]
    0
    """
    p, m = np.asarray(predicted, dtype=float), np.asarray(measured, dtype=float)
    if p.size == 0:
        return {"n": 0, "mape": None, "median_ape": None, "bias": None, "p90_ape": None, "max_ape": None}
    error = p / m - 1.0
    ape = np.abs(error)
    values = (ape.mean(), np.median(ape), error.mean(), np.percentile(ape, 90), ape.max())
    names = ("mape", "median_ape", "bias", "p90_ape", "max_ape")
    return {"n": int(p.size), **{k: round(float(v), 6) for k, v in zip(names, values, strict=True)}}


def feasibility_summary(fits: Sequence[bool], ran: Sequence[bool]) -> dict[str, int]:
    """Confusion of predicted fit against what happened.

    `true_fit` ran and was predicted to fit, `false_fit` failed though predicted to fit, `true_oom` failed as
    predicted, `false_oom` ran though predicted not to fit.

    >>> feasibility_summary([True, True, False], [True, False, False])
    {'n': 3, 'true_fit': 1, 'false_fit': 1, 'true_oom': 1, 'false_oom': 0}
    """
    pairs = list(zip(fits, ran, strict=True))
    return {
        "n": len(pairs),
        "true_fit": sum(f and r for f, r in pairs),
        "false_fit": sum(f and not r for f, r in pairs),
        "true_oom": sum(not f and not r for f, r in pairs),
        "false_oom": sum(r and not f for f, r in pairs),
    }


def rank(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1; ties share their mean rank.

    >>> rank(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    i = 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and values[order[j + 1]] <= values[order[i]] * (1 + TIE):
            j += 1
        ranks[order[i : j + 1]] = (i + j) / 2 + 1
        i = j + 1
    return ranks


def spearman(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> float:
    """Rank correlation; 0 when one side is all ties (such a predictor knows nothing of the order).

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    a, b = rank(predicted), rank(measured)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def choice_of_group(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> dict[str, float]:
    """What picking the best-predicted plan of one group costs. Ties are broken pessimistically.

    `regret`: measured time of the pick over the best measured time, minus 1. `place`: where the measured best stands
    in the predicted order, from 1.

    >>> choice_of_group(np.array([1.0, 1.0, 2.0]), np.array([3.0, 2.0, 9.0]))
    {'regret': 0.5, 'place': 2, 'spearman': 0.866...}
    """
    tied_for_first = predicted <= predicted.min() * (1 + TIE)
    regret = float(measured[tied_for_first].max() / measured.min() - 1)
    best = int(np.argmin(measured))
    place = int(np.sum(predicted <= predicted[best] * (1 + TIE)))
    return {"regret": regret, "place": place, "spearman": spearman(predicted, measured)}


def choice_summary(keys: Iterable[object], predicted: ArrayLike, measured: ArrayLike, least: int = 3) -> dict[str, Any]:
    """Choice quality over all groups of at least `least` rows: share of groups whose measured best is ranked first
    (`top1`) or within five (`top5`), mean and largest regret, mean rank correlation inside groups.

    >>> choice_summary("aaa", [1, 2, 3], [1, 2, 3])["top1"]
    1.0
    """
    p, m = np.asarray(predicted, dtype=float), np.asarray(measured, dtype=float)
    groups: dict[object, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    results = [choice_of_group(p[i], m[i]) for i in groups.values() if len(i) >= least]
    if not results:
        return {"groups": 0, "top1": None, "top5": None, "mean_regret": None, "max_regret": None, "spearman": None}
    regret = [r["regret"] for r in results]
    return {
        "groups": len(results),
        "top1": round(float(np.mean([r["place"] == 1 for r in results])), 6),
        "top5": round(float(np.mean([r["place"] <= 5 for r in results])), 6),
        "mean_regret": round(float(np.mean(regret)), 6),
        "max_regret": round(float(np.max(regret)), 6),
        "spearman": round(float(np.mean([r["spearman"] for r in results])), 6),
    }
