"""torchrun, run by hand on every node."""

from __future__ import annotations

from autotune.emit.job import Job
from autotune.emit.render import render


def files(job: Job) -> dict[str, str]:
    """`launch.sh`, the same on every node."""
    return {f"{job.script}.sh": render("torchrun.sh.j2", job=job)}
