"""Tens of thousands of damaged files at the command line: never a traceback, a hang, or a message that does not say where.

Every input follows from its kind and number, so a failure repeats (see `fuzz_bulk.replay`). `AUTOTUNE_FUZZ_SCALE`
multiplies the numbers: 1, as here, is what every test run does; more is for a long search.
"""

import os
import random
import resource

import fuzz_bulk
import pytest
from fuzz_corpus import KINDS

SCALE = int(os.environ.get("AUTOTUNE_FUZZ_SCALE", "1"))
SHARD = 500
SHARDS = {
    "cluster": 5, "model": 4, "hub": 5, "plan": 4, "calibration": 3, "smi-topo": 3, "smi-query": 2, "nccl": 3, "slurm": 3, "scontrol": 2,
    "measurements": 3, "script": 4, "companion": 2, "deepspeed": 1, "search": 2, "calibrate": 1,
}  # fmt: skip
MAX_RSS_BYTES = 1_000_000_000
LEAST_INPUTS = 20_000


@pytest.mark.parametrize(("kind", "shard"), [(k, i) for k, n in SHARDS.items() for i in range(n * SCALE)])
def test_damaged_files_are_used_or_refused(kind, shard, tmp_path, record_property, warm, light_price):
    warm(kind)
    tried, found = fuzz_bulk.faults(kind, range(shard * SHARD, (shard + 1) * SHARD), tmp_path)
    record_property("inputs_tried", tried)
    assert not found, "\n".join(found)
    assert tried == SHARD
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MAX_RSS_BYTES


def test_the_shards_add_up():
    assert set(SHARDS) == set(KINDS)
    assert sum(SHARDS.values()) * SHARD >= LEAST_INPUTS


@pytest.mark.parametrize("kind", [k for k in KINDS if not KINDS[k].kernel])
def test_undamaged_files_are_used(kind, tmp_path):
    """Seeds that are refused anyway would prove nothing."""
    refused = 0
    for seed in KINDS[kind].seeds():
        path = tmp_path / seed.name
        path.write_bytes(seed.data)
        commands = [KINDS[kind].command(random.Random(i), path, tmp_path) for i in range(6)]  # some with --gpu
        refused += all(fuzz_bulk.run([*command, *seed.options]).code for command in commands)
    assert refused <= 0.2 * len(KINDS[kind].seeds())


def test_undamaged_measurements_calibrate(tmp_path, warm, light_price):
    """Each determines a constant of some cluster, so that damage can reach the fit."""
    warm("calibrate")
    for seed in KINDS["calibrate"].seeds():
        path = tmp_path / seed.name
        path.write_bytes(seed.data)
        tries = (fuzz_bulk.run(KINDS["calibrate"].command(random.Random(number), path, tmp_path)) for number in range(4))
        assert any(done.code == 0 for done in tries), seed.name


def test_some_damaged_files_still_work(tmp_path):
    """The damage must reach past the first check of a reader."""
    codes = [fuzz_bulk.attempt("model", n, tmp_path)[1].code for n in range(200)]
    assert 15 <= codes.count(0) <= 150
