"""Files that belong to no framework: the plan itself and the map of its ranks."""

from __future__ import annotations

import json
from typing import Any

from autotune.emit import rank_map
from autotune.emit.base import Files
from autotune.emit.job import layout
from autotune.emit.shell import comment
from autotune.origin import fingerprint
from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec


def files(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> Files:
    """`plan.yaml` and `ranks.csv`."""
    return {"plan.yaml": plan_yaml(cluster, model, plan), "ranks.csv": rank_map.csv(plan, layout(cluster, plan))}


def plan_yaml(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> str:
    """The plan in the form that `explain`, `emit` and `check` read, with the hashes of what it was made for. Values are JSON, which YAML contains."""
    lines = [f"# Plan for {comment(model.name)} on {comment(cluster.name)}: {plan.gpus} GPUs."]
    lines += [f"{key}: {_scalar(value)}" for key, value in plan.to_dict().items()]
    made_for = fingerprint(cluster, model)
    lines += [f"{key}: {_scalar(made_for[key])}" for key in ("cluster_hash", "model_hash")]
    return "\n".join(lines) + "\n"


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)
