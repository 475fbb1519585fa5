"""Answers to the questions people ask of a plan. Each is a function returning plain data, with text for people.

The questions, and which command or function answers each: docs/questions.md.
"""

from __future__ import annotations

from autotune.answers.changes import what_to_change
from autotune.answers.conventions import assumptions, batch_from_throughput, conventions
from autotune.answers.gpus import gpu_count_table, min_gpus, size_report, smallest_memory_plan, useful_gpu_counts
from autotune.answers.layers import chunk_layer_choices, edges_counted, even_pipelines, layouts
from autotune.answers.legal import (
    chunk_problem,
    legal_values,
    replicated_kv_heads,
    samples_per_replica,
    sequence_multiple,
    smallest_world,
    why_illegal,
)
from autotune.answers.limits import limits
from autotune.answers.memory import oom_report, phase_bytes
from autotune.answers.rule import default_setting, different_shape, rule_of_thumb, rule_of_thumb_plan, shape
from autotune.answers.sharding import (
    data_parallel_dependence,
    recompute_options,
    state_bytes_per_parameter,
    state_floor_GiB,
    verdict,
)
from autotune.cluster_warnings import cluster_warnings
from autotune.origin import fingerprint, origin_warnings

__all__ = [
    "assumptions",
    "batch_from_throughput",
    "chunk_layer_choices",
    "chunk_problem",
    "cluster_warnings",
    "conventions",
    "data_parallel_dependence",
    "default_setting",
    "different_shape",
    "edges_counted",
    "even_pipelines",
    "fingerprint",
    "gpu_count_table",
    "layouts",
    "legal_values",
    "limits",
    "min_gpus",
    "oom_report",
    "origin_warnings",
    "phase_bytes",
    "recompute_options",
    "replicated_kv_heads",
    "rule_of_thumb",
    "rule_of_thumb_plan",
    "samples_per_replica",
    "sequence_multiple",
    "shape",
    "size_report",
    "smallest_memory_plan",
    "smallest_world",
    "state_bytes_per_parameter",
    "state_floor_GiB",
    "useful_gpu_counts",
    "verdict",
    "what_to_change",
    "why_illegal",
]
