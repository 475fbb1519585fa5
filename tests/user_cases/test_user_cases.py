"""Real questions and failures reported in public, and what the tool says of each.

`cases.yaml` restates the facts of public reports. A check marked `soft` lacks an input that the report does not give: it
is run and reported, but does not fail.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import user_case_commands  # noqa: F401  registers its checks
import user_case_memory  # noqa: F401
import user_case_ranking  # noqa: F401
import user_case_rules  # noqa: F401
from user_case_harness import CHECKS, Case, load_cases

CASES = load_cases()


def marks(given: dict[str, Any]) -> list[pytest.MarkDecorator]:
    """A check with a `gap` is known to fail for the reason it names, and must be freed once it no longer does."""
    return [pytest.mark.xfail(reason=given["gap"], raises=AssertionError, strict=True)] if "gap" in given else []


PAIRS = [
    pytest.param(Case(case), given, id=f"{case['id']}-{i}-{given['kind']}", marks=marks(given))
    for case in CASES
    for i, given in enumerate(case["expect"]["checks"])
]


def test_every_kind_is_bound() -> None:
    kinds = {given["kind"] for case in CASES for given in case["expect"]["checks"]}
    assert kinds <= CHECKS.keys(), kinds - CHECKS.keys()
    assert set(CHECKS) == kinds, f"no case uses {set(CHECKS) - kinds}"


def test_cases_are_distinct_and_have_sources() -> None:
    ids = [case["id"] for case in CASES]
    assert len(set(ids)) == len(ids)
    assert all(case["source"] and all(s.startswith("https://") for s in case["source"]) for case in CASES)


@pytest.mark.parametrize(("case", "given"), PAIRS)
def test_check(case: Case, given: dict[str, Any]) -> None:
    try:
        CHECKS[given["kind"]](case, given)
    except AssertionError as e:
        if not given.get("soft"):
            raise
        warnings.warn(f"{case.data['id']}: soft check {given['kind']} is off: {e}", stacklevel=1)
