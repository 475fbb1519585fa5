"""`autotune emit` as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.cli.emit import LAUNCHERS
from autotune.emit.base import LAUNCHERS as REAL_LAUNCHERS

CLUSTER = """name: c
gpu: H100-80GB-SXM
gpus: 64
hb_domain: {size: 8}
network: {fabric: rail-only, nic_Gbps: 400}
"""
PLAN = """tensor_parallel: 8
pipeline_parallel: 4
data_parallel: 2
global_batch_size: 64
sequence_parallel: true
stage_layers: [24, 24, 24, 24]
fabric: rail-only
"""


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    (tmp_path / "p.yaml").write_text(PLAN)
    return tmp_path


def autotune(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "autotune", "emit", "c.yaml", "gpt-175b", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def without_comments(script: str) -> list[str]:
    return [line for line in script.splitlines() if not line.startswith("#")]


def test_writes_plan_ranks_and_one_folder_per_target(inputs: Path) -> None:
    done = autotune(inputs, "p.yaml", "--target", "megatron,deepspeed", "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["gpus"] == 64
    for files in document["files"].values():
        for name in files:
            path = inputs / "out" / name
            assert path.is_file()
            assert os.access(path, os.X_OK) == path.read_text().startswith("#!")
    assert len((inputs / "out" / "ranks.csv").read_text().splitlines()) == 65


def test_the_written_plan_can_be_emitted_again(inputs: Path) -> None:
    assert autotune(inputs, "p.yaml", "--out", "out").returncode == 0
    again = autotune(inputs, "out/plan.yaml", "--out", "again")
    assert again.returncode == 0, again.stderr
    first, second = ((inputs / d / "megatron" / "launch.sh").read_text() for d in ("out", "again"))
    assert "--tensor-model-parallel-size 8" in first
    assert without_comments(first) == without_comments(second)


def test_an_existing_folder_is_kept_without_force(inputs: Path) -> None:
    assert autotune(inputs, "p.yaml", "--out", "out").returncode == 0
    before = (inputs / "out" / "plan.yaml").stat().st_mtime_ns
    refused = autotune(inputs, "p.yaml", "--out", "out")
    assert refused.returncode == 2 and "--force" in refused.stderr
    assert (inputs / "out" / "plan.yaml").stat().st_mtime_ns == before
    assert autotune(inputs, "p.yaml", "--out", "out", "--force").returncode == 0


def test_one_bad_target_writes_nothing(inputs: Path) -> None:
    (inputs / "p.yaml").write_text(PLAN + "virtual_stages: 2\n")
    done = autotune(inputs, "p.yaml", "--target", "megatron,deepspeed", "--out", "out", "--json")
    assert done.returncode == 2 and "interleaved" in json.loads(done.stdout)["error"]
    assert "Traceback" not in done.stderr and not (inputs / "out").exists()


@pytest.mark.parametrize(("target", "words"), [("megatorn", "did you mean 'megatron'"), ("", "no target")])
def test_wrong_targets(inputs: Path, target: str, words: str) -> None:
    done = autotune(inputs, "p.yaml", "--target", target, "--out", "out")
    assert done.returncode == 2 and words in done.stderr


def test_fast_enough_to_be_called_in_a_loop(inputs: Path) -> None:
    """Under a second of CPU, and neither the compiler nor the study library is imported."""
    code = "import sys, autotune.emit, autotune.load\nfrom autotune.cli import cli\n" \
        "cli.main(['emit', 'c.yaml', 'gpt-175b', 'p.yaml', '--out', 'fast'], standalone_mode=False)\n" \
        "print([m for m in ('numba', 'optuna', 'matplotlib', 'torch') if m in sys.modules])"  # fmt: skip
    before, started = os.times(), time.time()
    done = subprocess.run([sys.executable, "-c", code], cwd=inputs, capture_output=True, text=True, timeout=60)
    used = sum(os.times()[2:4]) - sum(before[2:4])
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert used < 1.0, f"{used:.2f} s of CPU, {time.time() - started:.2f} s"


def test_the_choices_are_the_launchers() -> None:
    assert LAUNCHERS == REAL_LAUNCHERS
