"""What a result or plan was made for, as hashes, and whether it belongs to the cluster and the model it is used with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import autotune
from autotune.specs import ClusterSpec, ModelSpec


def fingerprint(cluster: ClusterSpec, model: ModelSpec) -> dict[str, str]:
    """What a result belongs to: hashes of cluster and model and the version of the tool.

    A plan copied to another cluster or model shows by other hashes. Names, notes, launch settings and search limits do not
    count, nor does a key written with its default, so that keys added to the files later leave the hashes of older files alone.

    >>> from autotune.load import load_cluster, load_model
    >>> sorted(fingerprint(load_cluster("h100-superpod-1024"), load_model("llama-3-70b")))
    ['cluster_hash', 'model_hash', 'tool_version']
    """
    return {
        "cluster_hash": _hash(cluster.model_dump(mode="json", exclude_defaults=True, exclude={"name", "description", "source", "launch"})),
        "model_hash": _hash(model.model_dump(mode="json", exclude_defaults=True, exclude={"name", "description", "source", "search"})),
        "tool_version": autotune.__version__,
    }


def _hash(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def origin_warnings(origin: Mapping[str, str], cluster: ClusterSpec, model: ModelSpec) -> list[str]:
    """A line for each of cluster and model that a plan was not made for. `origin`: the hashes its file carries, none for old files.

    >>> from autotune.load import load_cluster, load_model
    >>> cluster, model = load_cluster("h100-rail-1024"), load_model("gpt-175b")
    >>> origin_warnings({}, cluster, model), origin_warnings(fingerprint(cluster, model), cluster, model)
    ([], [])
    >>> origin_warnings({"cluster_hash": "0123456789abcdef"}, cluster, model)[0][:56]
    'the plan was made for another cluster (cluster_hash 0123'
    """
    here = fingerprint(cluster, model)
    found = []
    for what, name in (("cluster", cluster.name), ("model", model.name)):
        key = f"{what}_hash"
        if key in origin and origin[key] != here[key]:
            found.append(f"the plan was made for another {what} ({key} {origin[key][:16]}; {name} has {here[key]}) and may not be the best here")
    return found
