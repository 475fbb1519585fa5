"""Fixtures for tests against the real programs. Without their environment: skipped here, failed in CI."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="session")
def deepspeed() -> Iterator[Worker]:
    """The real DeepSpeed."""
    yield from _worker("deepspeed_worker.py")


@pytest.fixture(scope="session")
def torchtitan() -> Iterator[Worker]:
    """The real torchtitan."""
    yield from _worker("torchtitan_worker.py")


@pytest.fixture(scope="session")
def workers(megatron: Worker, deepspeed: Worker, torchtitan: Worker) -> Callable[[str], Worker]:
    """All three by name."""
    return {"megatron": megatron, "deepspeed": deepspeed, "torchtitan": torchtitan}.__getitem__
