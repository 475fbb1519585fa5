"""pdsh and ssh with a hostfile: DeepSpeed's launcher for DeepSpeed programs, torchrun on every host for the others."""

from __future__ import annotations

import re

from autotune.emit.base import refuse
from autotune.emit.job import Job
from autotune.emit.launchers import torchrun
from autotune.emit.render import render
from autotune.errors import Problem

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def files(job: Job) -> dict[str, str]:
    """`hostfile` and `launch.sh`; for programs without a launcher of their own also `launch_all.sh`."""
    if job.deepspeed:
        return {"hostfile": hostfile(job), f"{job.script}.sh": render("deepspeed.sh.j2", job=job)}
    return {"hostfile": hostfile(job), **torchrun.files(job), f"{job.script}_all.sh": render("pdsh.sh.j2", job=job)}


def hostfile(job: Job) -> str:
    """One `host slots=N` line per node, in rank order."""
    nodes = job.layout.nodes
    names = list(job.site.nodes)
    problems = [Problem(f"{n!r} is not a host name", key="launch.nodes") for n in names if not HOST.fullmatch(n)]
    if names and len(names) < nodes:
        problems.append(Problem(f"lists {len(names)} nodes, the plan needs {nodes}", key="launch.nodes"))
    refuse(problems)
    lines = ["# Host names in rank order. The nodes of one high-bandwidth domain stand side by side."]
    if not names:
        lines.append("# Placeholders: put your host names here, or into launch.nodes of the cluster file.")
        names = [f"node{i:04d}" for i in range(nodes)]
    return "\n".join([*lines, *(f"{n} slots={job.layout.gpus_per_node}" for n in names[:nodes])]) + "\n"
