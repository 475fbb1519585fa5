"""A check to run before the job: the same launcher starts `preflight.py` with one process per GPU."""

from __future__ import annotations

import json

from autotune.emit import launchers, nccl
from autotune.emit.base import Files
from autotune.emit.job import Job, header, layout, name_of
from autotune.emit.render import render
from autotune.emit.shell import Raw
from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec


def files(cluster: ClusterSpec, model: ModelSpec, plan: Plan, launcher: str) -> Files:
    """`preflight.py` and the script of that launcher which starts it (`preflight.sh`, `preflight.sbatch`, ...)."""
    where = layout(cluster, plan)
    lines = header("preflight", "PyTorch 2.2 or later", cluster, model, plan)
    job = Job(
        name="preflight-" + name_of(model, plan)[:50],
        header=[*lines, "Checks hosts, rails and process groups; options are passed on to preflight.py."],
        layout=where,
        program=Raw('"$here/preflight.py"'),
        arguments=[],
        environment=nccl.environment(cluster, plan, where, None),
        site=cluster.launch,
        amd=nccl.is_amd(cluster),
        script="preflight",
        attachments={"preflight.py": script(model, cluster, plan)},
    )
    return {**job.attachments, **launchers.files(launcher, job)}


def script(model: ModelSpec, cluster: ClusterSpec, plan: Plan) -> str:
    """The check itself: standard library and torch only."""
    where = layout(cluster, plan)
    p = plan
    facts = {
        "gpus": p.gpus,
        "nodes": where.nodes,
        "gpus_per_node": where.gpus_per_node,
        "domain": where.domain,
        "tp": p.tensor_parallel,
        "cp": p.context_parallel,
        "dp": p.data_parallel,
        "pp": p.pipeline_parallel,
        "experts": int(bool(model.num_experts)),
        "etp": p.expert_tensor_parallel,
        "ep": p.expert_parallel,
        "edp": p.expert_data_parallel,
        "data_last": int(p.rank_order.endswith("pp-dp")),
    }
    return render("preflight.py.j2", header=header("preflight", "PyTorch", cluster, model, plan), plan=json.dumps(facts, indent=4))
