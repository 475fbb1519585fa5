"""The emitted preflight script on CPU processes: real process groups, gloo, two pretended hosts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from plans import MODELS, cluster
from worker import PYTHON, Worker

from autotune.emit.preflight import files
from autotune.plan import Plan

pytestmark = pytest.mark.consumers

PLAN = Plan(tensor_parallel=2, pipeline_parallel=2, data_parallel=2, expert_parallel=4, global_batch_size=8, sequence_parallel=True,
            stage_layers=(16, 16), hb_domain_size=4, fabric="rail-only")  # fmt: skip


def start(folder: Path, hosts: list[str], port: int) -> tuple[list[int], str, str]:
    """Run all ranks; exit codes, and what rank 0 printed."""
    for name, text in files(cluster(8, gpus_per_node=4), MODELS["experts"], PLAN, "torchrun").items():
        (folder / name).write_text(text)
    base = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")}
    base |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "8", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [str(PYTHON), str(folder / "preflight.py"), "--backend", "gloo", "--no-hardware", "--timeout", "60"],
            env=base | {"RANK": str(r), "LOCAL_RANK": str(r % 4), "PREFLIGHT_HOST": hosts[r]},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for r in range(8)
    ]  # fmt: skip
    outputs = [p.communicate(timeout=240) for p in ranks]
    return [p.returncode for p in ranks], *outputs[0]


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def test_passes_where_ranks_fill_hosts(megatron: Worker, tmp_path: Path) -> None:
    codes, out, err = start(tmp_path, ["a"] * 4 + ["b"] * 4, free_port())
    assert codes == [0] * 8, err
    assert "passed on 2 hosts, 8 ranks" in out and "4 rail, 4 tp, 4 dp, 4 pp, 2 ep" in out


def test_fails_on_every_rank_where_two_are_swapped(megatron: Worker, tmp_path: Path) -> None:
    codes, _, err = start(tmp_path, ["a", "a", "a", "b", "a", "b", "b", "b"], free_port())
    assert codes == [1] * 8
    assert "ranks 0 to 3 should share a host, they run on a, b" in err
