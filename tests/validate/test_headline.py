"""The published accuracy holds: no headline error may grow by more than 0.3 points."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autotune.validate.accuracy import fast_columns, in_set, memory_table
from autotune.validate.columns import Sample, column_f, folds_of, samples_of, summary
from autotune.validate.report import document
from autotune.validate.rows import read_rows
from autotune.validate.runner import Result, plan_predictor, score
from autotune.validate.sets import SETS, PublishedSet
from autotune.validate.tunable import STACK_FIELDS, operator_stack, shipped_stack

FOLDER = Path(__file__).resolve().parents[2] / "results" / "validation"
SLACK = 0.003
QUICK_F = ("korthikanti22", "narayanan21", "vtrain-multi", "bigscience", "internevo", "simumax")


@cache
def samples() -> list[Sample]:
    return samples_of(read_rows(FOLDER / "measurements.csv"))


@cache
def headline() -> dict[str, Any]:
    return json.loads((FOLDER / "headline.json").read_text())  # type: ignore[no-any-return]


@cache
def predictions() -> tuple[list[Result], list[Result]]:
    predictor = plan_predictor()
    return score(read_rows(FOLDER / "measurements.csv"), predictor), score(read_rows(FOLDER / "infeasible.csv"), predictor)


@pytest.mark.parametrize("published", SETS, ids=lambda s: s.name)
def test_operator_and_shipped_columns(published: PublishedSet) -> None:
    recorded = headline()["sets"][published.name]
    for column, found in fast_columns(published, in_set(published, samples())).items():
        assert found["n"] >= recorded[column]["n"], "rows may not be dropped to look better"
        assert found["mape"] <= recorded[column]["mape"] + SLACK
        assert found["median_ape"] <= recorded[column]["median_ape"] + SLACK


@pytest.mark.parametrize("name", QUICK_F)
def test_fold_column(name: str) -> None:
    published = next(s for s in SETS if s.name == name)
    chosen = in_set(published, samples())
    found = summary(chosen, column_f(chosen, folds_of(chosen), published.scale, published.heavy))
    assert found["mape"] <= headline()["sets"][name]["F"]["mape"] + SLACK


def test_memory_and_verdicts() -> None:
    for name, found in memory_table(*predictions(), plan_predictor()).items():
        recorded = headline()["memory"][name]
        if "mape" in recorded:
            assert found["mape"] <= recorded["mape"] + SLACK
        else:
            assert found["right"] >= recorded["right"] - SLACK
            assert found["failed_among_feasible"] <= recorded["failed_among_feasible"] + SLACK


def test_enough_rows_are_scored() -> None:
    coverage = document(*predictions())["coverage"]
    assert coverage["A"]["scored"] >= 0.9 * coverage["A"]["rows"]
    assert coverage["B"]["scored"] >= 0.75 * coverage["B"]["rows"]


def test_the_two_ways_to_price_a_row_agree() -> None:
    """`evaluate`, which users see, and the prepared form that fits use."""
    from autotune.validate.compiled import prepare, price

    for result in predictions()[0][::97]:
        if result.scenario is not None and result.time_s is not None:
            p = prepare(result.scenario)
            assert price(p.model, p.gpu, p.net, shipped_stack(p.stack), p.point).time_s == pytest.approx(result.time_s, rel=1e-9)


def test_no_profile_has_more_than_eight_fitted_numbers() -> None:
    from autotune.constants import stack_entries

    for name, fields in STACK_FIELDS.items():
        own = {k for k, e in stack_entries(name).items() if "operator_value" in e and e["stack"] == name}
        assert len(fields) <= 8 and len(own) <= 8, name
        assert operator_stack(name)._fields == shipped_stack(name)._fields
