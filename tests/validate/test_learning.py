"""What column F learns besides constants: unprinted choices of a recipe, and the tensor mode of a kind of run."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec
from autotune.validate.columns import (
    Sample,
    column_f,
    learn_readings,
    narrowed,
    predict,
    samples_of,
    times,
)
from autotune.validate.rows import Row
from autotune.validate.runner import Prediction, score
from autotune.validate.tensor_mode import with_learnt_mode
from autotune.validate.tunable import Applier

FULL_RECOMPUTE = 2


def open_rows(count: int, recompute: int) -> list[Sample]:
    """Runs of one script on 8, 16, ... GPUs that do not print their recompute mode; times are those of `recompute`."""
    made = samples_of([
        Row(id=f"t-{n}", framework="Megatron-LM 2021", layers=24, hidden=2048, heads=16, vocab=51200, seq_len=2048, gpu="A100-80GB-SXM",
            gpus_per_node=8, n_gpus=8 * 2**n, tp=2, pp=1, cp=1, dp=4 * 2**n, vpp=1, micro_batch=1, global_batch=512, precision="bf16",
            model_name="m", system_group="S", tier="B", time_s=1.0)
        for n in range(count)
    ])  # fmt: skip
    out = []
    for s in made:
        truth = next(p for p in s.readings if p.point.recompute == recompute)
        [seconds] = times([truth], Applier({}))
        out.append(Sample(dataclasses.replace(s.row, time_s=float(seconds)), s.readings))
    return out


def test_other_rows_of_a_script_tell_what_it_does_not_print() -> None:
    samples = open_rows(4, FULL_RECOMPUTE)
    assert len(samples[0].readings) == 3
    learnt = learn_readings(samples[:3], Applier({}))
    assert len(learnt) == 1
    [kept] = narrowed(samples[3:], learnt)
    assert [p.point.recompute for p in kept.readings] == [FULL_RECOMPUTE]
    assert predict([kept])[0] == pytest.approx(kept.row.time_s)
    assert predict(samples[3:])[0] < 0.95 * (kept.row.time_s or 0.0)  # the fastest reading, without the lesson


def test_one_row_teaches_nothing_and_neither_does_a_small_difference() -> None:
    samples = open_rows(4, FULL_RECOMPUTE)
    assert learn_readings(samples[:1], Applier({})) == {}
    fastest = [Sample(dataclasses.replace(s.row, time_s=float(t)), s.readings) for s, t in zip(samples, predict(samples), strict=True)]
    assert learn_readings(fastest, Applier({})) == {}
    assert narrowed(fastest, {}) == fastest


def test_a_fold_never_sees_its_own_group() -> None:
    samples = open_rows(4, FULL_RECOMPUTE)
    held = column_f(samples, [([0, 1, 2], [3]), ([3], [0, 1, 2])], 0.03)
    assert held[3] == pytest.approx(samples[3].row.time_s, rel=0.02)
    assert np.all(held[:3] < 0.97 * np.array([s.row.time_s for s in samples[:3]]))  # one row teaches nothing


def fake(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> Prediction:
    memory = (10e9 if plan.sequence_parallel else 20e9) + 2e9
    return Prediction(1.0, (memory,), (2e9,), True, capacity_bytes=80e9)


def test_the_tensor_mode_of_a_kind_of_run_is_learnt_from_other_groups() -> None:
    def row(i: int, gpus: int, pipeline: int, memory: float) -> Row:
        fields: dict[str, Any] = {
            "framework": "nanotron v0.5", "layers": 16, "hidden": 2048, "heads": 16, "vocab": 49152, "seq_len": 4096, "gpu": "H100-80GB-SXM",
            "gpus_per_node": 8, "vpp": 1, "micro_batch": 1, "global_batch": 512, "dist_opt_or_zero": 1, "recompute": "none", "tier": "A",
        }  # fmt: skip
        return Row(id=f"p-{i}", n_gpus=gpus, tp=4, pp=pipeline, cp=1, dp=gpus // (4 * pipeline), time_s=1.0, memory_bytes=memory, **fields)

    # Without a pipeline split, with one whole: the opposite of what is assumed where nothing is known.
    rows = [row(i, 8 * 2**i, 1, 10.3e9) for i in range(5)] + [row(5 + i, 8 * 2**i, 2, 20.3e9) for i in range(5)]
    assumed = score(rows, fake)
    learnt = with_learnt_mode(assumed, fake)
    wrong = [abs((r.memory_bytes or 0) / (r.row.memory_bytes or 1) - 1) for r in assumed]
    right = [abs((r.memory_bytes or 0) / (r.row.memory_bytes or 1) - 1) for r in learnt]
    assert min(wrong) > 0.4 and max(right) < 0.05
