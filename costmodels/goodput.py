"""Goodput: what share of a long run is progress, given failures, checkpoints and slow machines.

Failures are independent and memoryless; the job stops for each and continues from its last checkpoint. Sources: Young
(CACM 1974) and Daly (FGCS 2006) for checkpoint intervals. Times in seconds.
"""

from __future__ import annotations

from math import exp, expm1, log, sqrt

from costmodels._jit import jit

DAY_S = 86400.0


@jit
def mtbf_s(gpus: float, interruptions_per_gpu_day: float) -> float:
    """Mean time between interruptions of a job, in seconds; infinite without failures.

    Llama 3 405B (arXiv 2407.21783): 419 interruptions in 54 days on 16,384 GPUs.

    >>> round(mtbf_s(16384, 419 / (16384 * 54)) / 3600, 2)
    3.09
    """
    rate = gpus * interruptions_per_gpu_day
    if rate <= 0.0:
        return float("inf")
    return DAY_S / rate


@jit
def node_mtbf_s(gpus: float, gpus_per_node: float, failures_per_node_day: float) -> float:
    """The same from a rate per node: the form of arXiv 2410.21680, which holds for large jobs only.

    >>> round(node_mtbf_s(16384, 8, 6.5e-3) / 3600, 2)
    1.8
    """
    return mtbf_s(gpus / gpus_per_node, failures_per_node_day)


@jit
def young_interval_s(checkpoint_s: float, mtbf: float) -> float:
    """First-order optimal time between checkpoints, sqrt(2 C M).

    >>> round(young_interval_s(30, 3.1 * 3600) / 60, 1)
    13.6
    """
    return sqrt(2.0 * checkpoint_s * mtbf)


@jit
def daly_interval_s(checkpoint_s: float, mtbf: float) -> float:
    """Daly's higher-order optimum; M itself once a checkpoint takes twice the time between failures.

    >>> 13.3 < daly_interval_s(30, 3.1 * 3600) / 60 < 13.6
    True
    """
    if checkpoint_s >= 2.0 * mtbf:
        return mtbf
    x = checkpoint_s / (2.0 * mtbf)
    return sqrt(2.0 * checkpoint_s * mtbf) * (1.0 + sqrt(x) / 3.0 + x / 9.0) - checkpoint_s


@jit
def first_order_useful_fraction(interval_s: float, checkpoint_s: float, restart_s: float, mtbf: float) -> float:
    """1 - C/tau - (tau/2 + R)/M, never below zero. Good while tau and R are far below M.

    >>> m = 3.1 * 3600
    >>> round(first_order_useful_fraction(young_interval_s(30, m), 30, 600, m), 2)
    0.87
    """
    return max(0.0, 1.0 - checkpoint_s / interval_s - (interval_s / 2.0 + restart_s) / mtbf)


@jit
def useful_fraction(interval_s: float, checkpoint_s: float, restart_s: float, mtbf: float) -> float:
    """Share of wall time that is progress, with failures also during checkpoints and restarts (Daly 2006, complete model).

    A piece of `interval_s` takes M exp(R/M) (exp((tau + C)/M) - 1) on average.

    >>> m = 3.1 * 3600
    >>> round(useful_fraction(young_interval_s(30, m), 30, 600, m), 2)
    0.88
    >>> useful_fraction(3600.0, 0.0, 600.0, float("inf"))
    1.0
    """
    if mtbf == float("inf"):
        return interval_s / (interval_s + checkpoint_s)
    exponent = (interval_s + checkpoint_s) / mtbf
    if exponent + restart_s / mtbf > 700.0:
        return 0.0
    return interval_s / (mtbf * exp(restart_s / mtbf) * expm1(exponent))


@jit
def best_useful_fraction(checkpoint_s: float, restart_s: float, mtbf: float) -> float:
    """Useful fraction at Daly's interval; 1 without failures (checkpoints would then be needless).

    >>> 0.93 < best_useful_fraction(5, 300, 3.1 * 3600) < 0.95
    True
    """
    if mtbf == float("inf"):
        return 1.0
    return useful_fraction(daly_interval_s(checkpoint_s, mtbf), checkpoint_s, restart_s, mtbf)


@jit
def straggler_factor(spread: float, workers: float) -> float:
    """How much longer a synchronous step takes: the slowest of n normal samples lies sigma sqrt(2 ln n) above the mean.

    >>> straggler_factor(0.005, 1)
    1.0
    >>> round(straggler_factor(0.005, 16384), 3)
    1.022
    """
    if workers <= 1.0:
        return 1.0
    return 1.0 + spread * sqrt(2.0 * log(workers))


@jit
def poisson_tail(mean: float, n: int) -> float:
    """Probability that a Poisson count is above n.

    >>> round(poisson_tail(1.0, 0), 4), poisson_tail(0.0, 0)
    (0.6321, 0.0)
    """
    if mean <= 0.0:
        return 0.0
    log_term = -mean
    below = exp(log_term)
    for i in range(1, n + 1):
        log_term += log(mean / i)
        below += exp(log_term)
    return max(0.0, 1.0 - below)


@jit
def best_spares(mean: float, share: float) -> int:
    """Spares that lose least: each idle one costs `share` of the cluster, and without enough of them all stands still.

    `mean` parts are broken at any time. The sum n x share + P(count > n) is convex beyond the mean.

    >>> best_spares(1.0, 0.001), best_spares(1.0, 0.1), best_spares(0.0, 0.1)
    (5, 2, 0)
    """
    best = 0
    least = poisson_tail(mean, 0)
    limit = int(mean + 12.0 * sqrt(mean) + 12.0)
    for n in range(1, limit):
        loss = n * share + poisson_tail(mean, n)
        if loss < least:
            least = loss
            best = n
    return best
