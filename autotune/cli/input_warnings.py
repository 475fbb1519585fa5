"""What commands say of their inputs before they answer: oddities of a cluster, and plans made for something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotune.specs import ClusterSpec, ModelSpec


def warn_of_cluster(cluster: ClusterSpec, as_json: bool) -> list[str]:
    """Oddities of the cluster file, for the key `warnings` of a document; without `--json` also printed, a line each."""
    from autotune.cluster_warnings import cluster_warnings

    return _told(cluster_warnings(cluster), as_json)


def warn_of_origin(origin: Mapping[str, str], cluster: ClusterSpec, model: ModelSpec, as_json: bool) -> list[str]:
    """What of cluster and model a plan file was not made for, as `warn_of_cluster`. `origin`: the hashes it carries."""
    from autotune.origin import origin_warnings

    return _told(origin_warnings(origin, cluster, model), as_json)


def _told(texts: list[str], as_json: bool) -> list[str]:
    from autotune.output import warn

    for text in [] if as_json else texts:
        warn(text)
    return texts
