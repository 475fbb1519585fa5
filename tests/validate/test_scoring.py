"""Scoring, baselines and folds on made-up rows with known answers."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec
from autotune.validate.baselines import BASELINES, Job
from autotune.validate.fit import Constant, fit
from autotune.validate.folds import cell, choice_group, grouped_folds, leave_one_out, system
from autotune.validate.report import ROW_COLUMNS, document, rows_csv
from autotune.validate.rows import Row
from autotune.validate.runner import Prediction, score
from autotune.validate.scoring import choice_summary, error_summary, spearman


def rows(n: int = 6, **changes: object) -> list[Row]:
    fields = {
        "framework": "Megatron-LM 2021", "layers": 24, "hidden": 1024, "heads": 16, "vocab": 51200, "seq_len": 1024, "recompute": "full",
        "gpu": "A100-80GB-SXM", "gpus_per_node": 8, "n_gpus": 8, "pp": 1, "vpp": 1, "micro_batch": 1, "global_batch": 64, "tier": "A",
        **changes,
    }  # fmt: skip
    return [Row(id=f"t-{i}", tp=2 ** (i % 3), time_s=1.0 + i, system_group="S", **fields) for i in range(n)]  # type: ignore[arg-type]


def fake(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> Prediction:
    recompute = {"none": 1.0, "selective": 1.1, "full": 1.4}[plan.recompute]
    memory = {"none": 120e9, "selective": 70e9, "full": 10e9}[plan.recompute]
    return Prediction(plan.tensor_parallel * recompute, (memory, memory / 2), (1e9, 1e9), memory < 80e9, capacity_bytes=80e9)


def test_the_planners_own_choice_is_taken_never_the_closest_to_the_measurement() -> None:
    [result] = score(rows(1, recompute=""), fake)
    assert result.choices == "recompute=selective"  # fastest that fits; `none` is faster but far beyond the capacity
    assert result.time_s == pytest.approx(1.1)
    assert result.memory_bytes == 70e9


def test_memory_is_compared_on_the_stage_and_in_the_terms_of_the_source() -> None:
    [result] = score(rows(1, framework="nanotron v0.5", vocab=51200), fake)
    assert result.memory_bytes == pytest.approx(9e9 + 0.2 * 2**30)  # stage 0, allocated: without the reserve


def test_the_document_counts_everything() -> None:
    good, bad = rows(4), rows(1, task="lora")
    failed = [Row(**{**vars(r), "status": "oom", "time_s": None, "id": "f" + r.id}) for r in rows(2, recompute="none")]
    report = document(score(good + bad, fake), score(failed, fake))
    assert report["rows"] == 7 and report["scored"] == 6
    assert report["skipped"] == {"low-rank fine-tuning is not modelled": 1}
    assert report["feasibility"] == {"n": 6, "true_fit": 4, "false_fit": 0, "true_oom": 2, "false_oom": 0}
    assert report["time"]["n"] == 4 and report["choice"]["groups"] == 1
    assert report["coverage"] == {"A": {"rows": 5, "scored": 4}}
    assert [g["n"] for g in report["by_group"]] == [4]
    text = rows_csv(score(good, fake)).splitlines()
    assert text[0].split(",") == list(ROW_COLUMNS) and len(text) == 5


def test_a_predictor_that_only_ties_gets_the_worst_of_its_ties() -> None:
    measured = [1.0, 2.0, 3.0]
    assert choice_summary("aaa", [5.0, 5.0, 5.0], measured)["mean_regret"] == 2.0
    assert choice_summary("aaa", [5.0, 5.0, 5.0], measured)["top1"] == 0.0
    assert choice_summary("aaa", measured, measured)["mean_regret"] == 0.0
    assert spearman(np.ones(3), np.array(measured)) == 0.0


def test_errors_are_signed_fractions_of_the_measurement() -> None:
    s = error_summary([0.5, 1.5, 1.2], [1.0, 1.0, 1.0])
    assert s["bias"] == pytest.approx(0.2 / 3, abs=1e-6) and s["max_ape"] == 0.5 and s["median_ape"] == 0.5


def test_folds_keep_groups_whole_and_cover_every_row_once() -> None:
    many = [r for b in (64, 128, 256, 512, 1024, 2048) for r in rows(6, global_batch=b)]
    splits = grouped_folds(many, choice_group)
    assert sorted(i for _, test in splits for i in test) == list(range(len(many)))
    for train, test in splits:
        assert not {many[i].choice_key for i in train} & {many[i].choice_key for i in test}
    assert len(list(leave_one_out(many, cell))) == 3 and len(list(leave_one_out(many, system))) == 1


def test_baselines_recover_their_own_law() -> None:
    jobs = [Job(1.0 + i, 2 ** (i % 3), 2 ** (i % 2), 2 ** (i % 5), 1, 1 + i % 3, 8, 1024) for i in range(40)]
    times = [3 * j.ideal_s for j in jobs]
    assert np.allclose(BASELINES["constant"](jobs, times, jobs), times)
    shaped = [2 * (j.ideal_s * (1 + (j.pipeline - 1) / 8)) ** 0.9 * j.tensor**0.3 for j in jobs]
    assert np.allclose(BASELINES["regression"](jobs, shaped, jobs), shaped)


def test_a_fit_finds_constants_ignores_an_outlier_and_says_what_it_cannot_know() -> None:
    x = np.linspace(1, 10, 40)
    measured = 2.0 * x + 3.0
    measured[7] *= 4
    constants = [Constant("slope", 1.5, 1.0, 0.1, 5.0), Constant("offset", 1.0, 3.0, 0.0, 9.0), Constant("absent", 0.5, 0.2, 0.0, 1.0)]
    result = fit(constants, lambda v: np.log((v["slope"] * x + v["offset"]) / measured))
    assert result.values["slope"] == pytest.approx(2.0, rel=0.02) and result.values["offset"] == pytest.approx(3.0, rel=0.05)
    assert result.values["absent"] == 0.5 and result.identified == ("slope", "offset")
    assert result.after < result.before


def test_a_fit_stays_inside_its_bounds() -> None:
    result = fit([Constant("k", 1.0, 1.0, 0.5, 1.2)], lambda v: np.log(np.array([v["k"] / 2.0] * 5)))
    assert result.values["k"] == pytest.approx(1.2)
