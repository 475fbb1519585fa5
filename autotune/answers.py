"""Answers to the questions people ask of a plan. Each is a function returning plain data, with text for people.

Which plan would the rule of thumb give (`rule_of_thumb_plan`), what limits mine (`limits`), what should I change
(`what_to_change`), where does memory run out (`oom_report`). The questions and where they are answered: docs/questions.md.
"""

from __future__ import annotations

from autotune.answers_changes import what_to_change
from autotune.answers_limits import limits
from autotune.answers_memory import oom_report, phase_bytes
from autotune.answers_rule import default_setting, rule_of_thumb, rule_of_thumb_plan, shape

__all__ = [
    "default_setting",
    "limits",
    "oom_report",
    "phase_bytes",
    "rule_of_thumb",
    "rule_of_thumb_plan",
    "shape",
    "what_to_change",
]
