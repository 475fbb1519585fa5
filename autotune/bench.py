"""How fast the search kernel is: fully priced points per CPU-second, operations per point, two threads against one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np

from autotune.cells import CellSearch
from autotune.parallel import default_jobs
from autotune.search import SearchOptions, lattice_of, search, versions
from autotune.setting import Setting, hardware, target_rules
from autotune.specs import ClusterSpec, HbDomainSpec, ModelSpec, NetworkSpec, TrainingSpec
from searchspaces.rules import OK, TargetRules

CLUSTER = ClusterSpec(
    name="a100-1024", gpu="A100-80GB-SXM", gpus=1024, hb_domain=HbDomainSpec(size=8, bandwidth_GBps=None),
    network=NetworkSpec(fabric="rail-only", nic_Gbps=200),
)  # fmt: skip
MODEL = ModelSpec(
    name="gpt-175b", num_layers=96, hidden_size=12288, num_attention_heads=96, ffn_hidden_size=49152, vocab_size=51200,
    seq_length=2048, training=TrainingSpec(global_batch_size=1536),
)  # fmt: skip
ROUNDS = 20  # of one thread against all, in turn: a shared core changes speed by the second
SETTING = Setting(1024, 8, 300.0, 200.0, "rail-only", 1536)


def kernel_cells(rules: TargetRules) -> tuple[CellSearch, list[int]]:
    """GPT-3 175B over 1,024 A100 and the numbers of its legal cells.

    Memory is made unlimited, so no point is let off early and every legal point is priced in full.
    """
    hw = hardware(CLUSTER, MODEL, SETTING, rules)._replace(memory_limit_bytes=1e18)
    cells = CellSearch.prepare(hw, lattice_of(hw, MODEL, SETTING), 1)
    legal = [int(n) for n in cells.order() if np.isfinite(cells.bounds[n])]
    cells.score(legal, 1)
    return cells, legal


def kernel_run(cells: CellSearch, legal: list[int], threads: int, seconds: float) -> dict[str, float]:
    """Points of the lattice kernel per second of wall and of CPU; points rejected by a rule are not counted."""
    points = 0
    wall, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        points += sum(r.counts[OK] for r in cells.score(legal, threads))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"points_per_s": points / wall, "points_per_cpu_s": points / cpu, "wall_s": wall, "cpu_s": cpu, "points": points}


def kernel_rates(rules: TargetRules, threads: int, seconds: float) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """`ROUNDS` runs on one thread and on `threads`, in turn, so that both see the same moods of a shared machine."""
    cells, legal = kernel_cells(rules)
    one, many = [], []
    for _ in range(ROUNDS):
        one.append(kernel_run(cells, legal, 1, seconds / ROUNDS))
        many.append(kernel_run(cells, legal, threads, seconds / ROUNDS) if threads > 1 else one[-1])
    return one, many


def total(runs: list[dict[str, float]], name: str) -> float:
    """Sum of one figure over runs.

    >>> total([{"points": 2.0}, {"points": 3.0}], "points")
    5.0
    """
    return sum(run[name] for run in runs)


def operations_per_point() -> float:
    """Arithmetic operations and comparisons per priced point, counted by running the same source on counting numbers."""
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-m", "autotune.operation_count"], env=env, capture_output=True, text=True, check=True)
    return float(run.stdout)


def bench(seconds: float = 7.0) -> dict[str, Any]:
    """The benchmark document: kernel, operations per point, one whole search, machine load and versions."""
    rules = target_rules("megatron")
    jobs = default_jobs()
    load = list(os.getloadavg())
    one, many = kernel_rates(rules, jobs, seconds)
    start, cpu = time.perf_counter(), time.process_time()
    report = search(CLUSTER, MODEL, replace(SearchOptions(), top=10)).report
    whole = {"wall_s": time.perf_counter() - start, "cpu_s": time.process_time() - cpu, **{k: report[k] for k in ("points_total", "points_scored", "kernel_s", "trials")}}
    return {
        "kernel": {
            "points_per_cpu_s": total(one, "points") / total(one, "cpu_s"),
            "points_per_s": total(many, "points") / total(many, "wall_s"),
            "operations_per_point": operations_per_point(),
            "threads": jobs,
            "one_thread": one,
            "all_threads": many,
            "speed_up": total(many, "points") / total(many, "wall_s") * total(one, "wall_s") / total(one, "points"),
            "cpus_busy": total(many, "cpu_s") / total(many, "wall_s"),
        },
        "search": whole,
        "peak_memory_MB": _peak_memory_MB(),
        "load": load,
        "cpu": _cpu(),
        "versions": versions(),
    }


def _peak_memory_MB() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000.0


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return "unknown"
