"""Useful share of a job's time under a cluster's failure rates."""

from __future__ import annotations

from autotune.specs import ClusterSpec
from costmodels.goodput import best_useful_fraction, mtbf_s


def useful_share(cluster: ClusterSpec, gpus: int) -> float:
    """Share of time that makes progress on `gpus` GPUs, with checkpoints at Young/Daly intervals.

    >>> from autotune.load import load_cluster
    >>> 0.97 < useful_share(load_cluster("h100-rail-1024"), 1024) < 0.99
    True
    """
    f = cluster.failures
    return float(best_useful_fraction(f.checkpoint_s, f.restart_s, mtbf_s(gpus, f.interruptions_per_gpu_day)))
