"""One definition: compiled and interpreted formulas agree bit for bit, and so do one thread, two threads and two processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import cluster_spec, hardware_of, lattice_of, model_spec

from autotune.cells import CellSearch
from searchspaces.rules import MEMORY, N_REASONS, OK

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def worker(path: Path, jit: bool) -> dict[str, np.ndarray]:
    """The arrays of `twin_worker.py` in one mode."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT)]), "NUMBA_DISABLE_JIT": "0" if jit else "1"}
    done = subprocess.run([sys.executable, str(HERE / "twin_worker.py"), str(path)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twin")
    return worker(folder / "compiled.npz", True), worker(folder / "interpreted.npz", False)


def test_compiled_and_interpreted_agree_bit_for_bit(both):
    compiled, interpreted = both
    assert compiled.keys() == interpreted.keys()
    for name, numbers in compiled.items():
        other = interpreted[name]
        assert numbers.shape == other.shape, name
        differ = np.flatnonzero(numbers != other)
        assert not len(differ), f"{name}: {len(differ)} of {len(numbers)} differ, first {numbers[differ[0]]} and {other[differ[0]]}"


def test_the_comparison_covers_priced_points_and_scored_lattices(both):
    compiled, _ = both
    for name, numbers in compiled.items():
        assert not np.isnan(numbers).any(), name
        if name.startswith("points"):
            assert len(numbers) > 2000, f"{name}: too few legal points drawn"
    scored, too_big = compiled["counts"].reshape(-1, N_REASONS)[:, [OK, MEMORY]].sum(axis=0)
    assert scored > 500 and too_big > 100


@pytest.mark.parametrize("kind", ["gqa", "moe"])
def test_one_thread_two_threads_and_two_processes_agree(kind):
    limits = {"micro_batch_size": [1, 2], "virtual_stages": [1, 2], "context_parallel": [1, 2]}
    cluster, model = cluster_spec(16, "rail-only"), model_spec(kind, 16, search=limits)
    one = CellSearch.prepare(hardware_of(cluster, model), lattice_of(cluster, model), 1)
    two = CellSearch.prepare(hardware_of(cluster, model), lattice_of(cluster, model), 2)
    assert one.bounds.tobytes() == two.bounds.tobytes()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one.table, two.table, strict=True))
    numbers = list(range(len(one.cells)))
    alone = one.score(numbers, 1)
    assert any(r.best_index >= 0 for r in alone)
    assert two.score(numbers, 2, "threading") == alone
    assert two.score(numbers, 2, "loky") == alone
