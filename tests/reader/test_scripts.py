"""Every script of scripts/ gives the facts listed in expected.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.legality import violations
from autotune.load import read_yaml
from autotune.reader import model_spec, plan_of, read

HERE = Path(__file__).parent
CASES = read_yaml(HERE / "expected.yaml")


def recover(case):
    arguments = [str(a) for a in case.get("arguments", [])]
    return read(HERE / "scripts" / case["file"], case.get("settings", {}), arguments, case.get("launch"))


def fact(found, key):
    """One fact by name; recomputation as one text."""
    if key == "recompute":
        plan = found.plan
        text = plan.get("recompute")
        if plan.get("recompute_every"):
            return "one in four layers" if plan["recompute_every"] == 4 else text
        if plan.get("recompute_modules") and text == "selective" and case_lists_modules(found):
            return "selective: " + " ".join(plan["recompute_modules"])
        return "-".join(str(x) for x in (text, plan.get("recompute_method"), plan.get("recompute_num_layers")) if x is not None)
    for section in (found.launch, found.plan, found.model):
        if key in section:
            return section[key]
    return None


def case_lists_modules(found):
    return len(found.plan["recompute_modules"]) > 1


@pytest.mark.parametrize("case", CASES, ids=lambda c: Path(c["file"]).stem + (f"-{c['launch']}" if "launch" in c else "") + "".join(f"-{v}" for v in list(c.get("settings", {}).values())[:2]))
def test_facts(case):
    found = recover(case)
    wrong = {}
    for key, value in case["expect"].items():
        got = fact(found, key)
        if key == "recompute" and isinstance(value, str) and isinstance(got, str) and got.startswith(value + "-") and value in ("full", "selective"):
            continue  # the table may leave the method open
        if got != value:
            wrong[key] = (value, got)
    assert not wrong, f"{wrong} in {found.to_dict()}"


@pytest.mark.parametrize("case", CASES, ids=lambda c: Path(c["file"]).stem + (f"-{c['launch']}" if "launch" in c else "") + "".join(f"-{v}" for v in list(c.get("settings", {}).values())[:2]))
def test_verdict(case):
    found = recover(case)
    model = model_spec(found)
    plan = plan_of(found, "megatron-core", 8, 400, "rail-optimized") if model else None
    if case["verdict"] == "unresolved":
        assert found.missing
        return
    broken = found.violations + (violations(model, plan, found.target, found.launch.get("world_size")) if model and plan else [])
    assert bool(broken) == (case["verdict"] == "illegal"), (broken, found.missing)
