"""The `autotune` command as a user runs it, in a folder of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CLUSTER = "name: c\ngpu: H100-80GB-SXM\ngpus: 8\nnetwork: {fabric: rail-only, nic_Gbps: 400}\n"
MODEL = """\
name: m
num_layers: 8
hidden_size: 2048
num_attention_heads: 16
vocab_size: 32000
seq_length: 2048
training: {global_batch_size: 16}
search: {context_parallel: 1, virtual_stages: [1, 2], micro_batch_size: [1, 2]}
"""


def write_inputs(folder: Path, cluster: str = CLUSTER, model: str = MODEL) -> None:
    """`c.yaml` and `m.yaml`."""
    (folder / "c.yaml").write_text(cluster)
    (folder / "m.yaml").write_text(model)


def command(*arguments: object) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "autotune", *map(str, arguments)]


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run to the end. A traceback is never what a user should see."""
    done = subprocess.run(command(*arguments), cwd=folder, capture_output=True, text=True, timeout=240)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def search_json(folder: Path, *arguments: object, code: int = 0) -> dict[str, Any]:
    """The JSON document of `autotune search c.yaml m.yaml`."""
    done = run(folder, "search", "c.yaml", "m.yaml", "--json", *arguments)
    assert done.returncode == code, (done.returncode, done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    return document
