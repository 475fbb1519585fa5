"""Published claims, and the verdict on what the model gives for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

INFERRED = "matches published figures under inferred settings"


@dataclass(frozen=True)
class Claim:
    """One published figure; the head of the claims file explains the fields."""

    id: str
    claim: str
    unit: str
    expected: Any
    rule: str
    grade: str
    gated: bool
    inferred: bool
    settings: str
    source: str
    tolerance: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Values:
    """What the model gives: the values a claim is about by part, and others that help to read them."""

    parts: dict[str, float]
    context: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A claim, what was got, and the verdict: pass, fail or not-gated."""

    claim: Claim
    values: Values
    expected: list[Any]
    passed: list[bool]

    @property
    def verdict(self) -> str:
        """Rows that are not gated have no verdict, whatever their numbers."""
        if not self.claim.gated:
            return "not-gated"
        return "pass" if all(self.passed) else "fail"

    @property
    def label(self) -> str:
        """What a pass means: a fit under inferred settings, or the published setting itself."""
        if self.verdict != "pass":
            return ""
        return INFERRED if self.claim.inferred else "matches published figures"

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON: `expected` and `got` are lists when the claim has several parts, named by `parts`."""
        claim, got = self.claim, list(self.values.parts.values())
        one = len(got) == 1
        return {
            "id": claim.id,
            "claim": claim.claim,
            "expected": self.expected[0] if one or not isinstance(claim.expected, dict) else self.expected,
            "got": got[0] if one else got,
            "unit": claim.unit,
            "tolerance": claim.tolerance,
            "rule": claim.rule,
            "grade": claim.grade,
            "verdict": self.verdict,
            "label": self.label,
            "settings": claim.settings,
            "source": claim.source,
            "note": claim.note,
            "parts": list(self.values.parts),
            "context": dict(self.values.context),
        }


def _read(name: str) -> dict[str, Any]:
    from autotune.yaml_lines import parse

    file = resources.files("autotune").joinpath("catalogue", "reproduce", f"{name}.yaml")
    content: dict[str, Any] = parse(file.read_text(encoding="utf-8"), file.name).data
    return content


def load_sources(name: str = "rail_only") -> dict[str, str]:
    """What the short names of sources stand for.

    >>> load_sources()["abstract"]
    'arxiv.org/html/2307.12169v5, the abstract'
    """
    return dict(_read(name)["sources"])


def load_claims(name: str = "rail_only") -> list[Claim]:
    """The claims of a paper, in the order of the file.

    >>> [claim.id for claim in load_claims()][:3]
    ['T1', 'T2', 'T3']
    """
    return [Claim(**entry) for entry in _read(name)["claims"]]


def judge(claim: Claim, values: Values) -> Row:
    """Compare what was got with what was published.

    >>> claim = Claim("X", "x is 4", "s", 4, "within", "A", True, False, "", "", tolerance=0.5)
    >>> judge(claim, Values({"x": 4.4})).verdict, judge(claim, Values({"x": 4.6})).verdict
    ('pass', 'fail')
    """
    got = values.parts
    if isinstance(claim.expected, dict):
        if list(claim.expected) != list(got):
            raise ValueError(f"{claim.id}: expected parts {list(claim.expected)}, got {list(got)}")
        expected = list(claim.expected.values())
    else:
        expected = [claim.expected] * len(got)
    if claim.rule == "order":
        sizes = [abs(value) for value in got.values()]
        passed = [first > second for first, second in zip(sizes[::2], sizes[1::2], strict=True)]
    else:
        holds = _RULES[claim.rule]
        passed = [holds(value, want, claim.tolerance or 0.0) for value, want in zip(got.values(), expected, strict=True)]
    return Row(claim, values, expected, passed)


def _within(got: float, expected: float, tolerance: float) -> bool:
    return abs(got - expected) <= tolerance


def _relative(got: float, expected: float, tolerance: float) -> bool:
    return abs(got / expected - 1.0) <= tolerance


def _factor(got: float, expected: float, tolerance: float) -> bool:
    return expected / tolerance <= got <= expected * tolerance


def _above(got: float, expected: float, _: float) -> bool:
    return got > expected


def _below(got: float, expected: float, _: float) -> bool:
    return got < expected


def _at_most(got: float, expected: float, _: float) -> bool:
    return abs(got) <= expected


def _printed_only(got: float, expected: float, _: float) -> bool:
    return True


_RULES: Mapping[str, Callable[[float, float, float], bool]] = {
    "within": _within,
    "relative": _relative,
    "factor": _factor,
    "above": _above,
    "below": _below,
    "at-most": _at_most,
    "none": _printed_only,
}
