"""How processes are started: one module per launcher, each `files(job) -> {name: text}`."""

from __future__ import annotations

import importlib

from autotune.emit.job import Job
from autotune.errors import InputError, did_you_mean


def files(launcher: str, job: Job) -> dict[str, str]:
    """The files that start a job with one launcher."""
    from autotune.emit.base import LAUNCHERS

    if launcher not in LAUNCHERS:
        raise InputError.of(f"unknown launcher '{launcher}'{did_you_mean(launcher, list(LAUNCHERS))}: {', '.join(LAUNCHERS)}")
    result: dict[str, str] = importlib.import_module(f"autotune.emit.launchers.{launcher}").files(job)
    return result
