"""Slurm: one batch script, one task per GPU."""

from __future__ import annotations

import re

from autotune.emit.job import Job
from autotune.emit.render import render
from autotune.errors import Problem


def files(job: Job) -> dict[str, str]:
    """`launch.sbatch`."""
    from autotune.emit.base import refuse

    options, problems = [], []
    for key, option in (("partition", "--partition"), ("account", "--account"), ("time_limit", "--time")):
        value = getattr(job.site, key)
        if value is None:
            continue
        # sbatch reads these lines itself, without a shell: there is no quoting to rely on.
        if re.fullmatch(r"[A-Za-z0-9._:,-]+", value):
            options.append(f"{option}={value}")
        else:
            problems.append(Problem(f"{value!r} is not a name Slurm takes", key=f"launch.{key}"))
    refuse(problems)
    return {f"{job.script}.sbatch": render("slurm.sbatch.j2", job=job, options=options)}
