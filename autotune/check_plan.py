"""Reads a plan for judging: one that contradicts itself is judged, not refused."""

from __future__ import annotations

from autotune.load import load_document
from autotune.plan import Plan
from autotune.plan_files import plan_from
from autotune.specs import ModelSpec


def lenient_plan(path: str, model: ModelSpec) -> Plan:
    """The plan of a file, also when its batch, stages or expert degrees do not add up: those are rules of legality."""
    return plan_from(load_document(path), model, consistent=False)
