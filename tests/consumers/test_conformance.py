"""A sample of the conformance matrix (scripts/conformance.py draws the full one)."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from judge import LAUNCHERS, judge
from plans import cluster, draw_for
from worker import Worker

pytestmark = pytest.mark.consumers


@pytest.mark.parametrize("target", [t for t in LAUNCHERS if t != "megatron"])
def test_both_verdicts_and_the_reading_agree(workers: Callable[[str], Worker], target: str) -> None:
    source = random.Random(f"{target} 7")
    verdicts = []
    for _ in range(14):
        model, plan = draw_for(target, source)
        verdicts.append(judge(target, workers, cluster(plan.gpus), model, plan, source.choice(LAUNCHERS[target])))
    wrong = [f"{v.model} {v.plan}\n  ours: {v.ours}\n  theirs: {v.theirs} {v.differences}" for v in verdicts if not v.agree]
    assert not wrong, "\n".join(wrong)
    assert sum(v.ours == "legal" for v in verdicts) >= 3
