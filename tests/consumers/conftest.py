"""Fixtures for tests against the real programs. Without their environment: skipped here, failed in CI."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from worker import PYTHON, Worker, available  # noqa: E402


def _worker(script: str) -> Iterator[Worker]:
    if not available():
        reason = f"{PYTHON} is missing: run scripts/setup_consumers.sh"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    worker = Worker(script)
    yield worker
    worker.close()


@pytest.fixture(scope="session")
def megatron() -> Iterator[Worker]:
    """The real Megatron-LM."""
    yield from _worker("megatron_worker.py")
