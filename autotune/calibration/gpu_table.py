"""The file that `scripts/measure_gpu.py` writes: operator timings of one GPU and its node.

JSON: {"format": "autotune-gpu-table", "version": 1, "gpu": name, "gemm": [...], "attention": [...], "elementwise": [...],
"launch": [...], "collectives": [...]}; times in seconds, sizes in elements or bytes as named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.errors import InputError, Problem
from autotune.schema_errors import show
from autotune.specs import MAX_GPUS
from autotune.textfile import read_text
from autotune.yaml_lines import parse

FORMAT = "autotune-gpu-table"
_COLUMNS: dict[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k", "seconds"),
    "attention": ("batch", "heads", "seq", "head_dim", "seconds"),
    "elementwise": ("nbytes", "seconds"),
    "launch": ("kernels", "seconds"),
    "collectives": ("ranks", "nbytes", "seconds"),
}
_TEXT: dict[str, dict[str, tuple[str, ...]]] = {
    "gemm": {"dtype": ("bf16", "fp16", "fp8")},
    "attention": {"direction": ("forward", "backward")},
    "collectives": {"collective": ("all_reduce", "all_gather", "reduce_scatter", "alltoall")},
}
MOST_SIZE = 10**15
# Limits of a column where they are not 1 and MOST_SIZE. One rank alone sends nothing.
_LIMITS: dict[str, tuple[float, float]] = {"seconds": (1e-9, 1e6), "ranks": (2, MAX_GPUS)}


@dataclass(frozen=True)
class GpuTable:
    """Checked rows by section; every number within its limits, sizes whole."""

    gpu: str
    gemm: list[dict[str, Any]] = field(default_factory=list)
    attention: list[dict[str, Any]] = field(default_factory=list)
    elementwise: list[dict[str, Any]] = field(default_factory=list)
    launch: list[dict[str, Any]] = field(default_factory=list)
    collectives: list[dict[str, Any]] = field(default_factory=list)


def read_gpu_table(path: str | Path) -> GpuTable:
    """Read and check a table file; InputError lists every problem."""
    return parse_gpu_table(read_text(path), str(path))


def parse_gpu_table(text: str, file: str = "") -> GpuTable:
    """The table of a text. InputError lists every problem with its line and key.

    >>> text = '{"format": "autotune-gpu-table", "version": 1, "elementwise": [{"nbytes": 1024, "seconds": 1e-6}]}'
    >>> parse_gpu_table(text).elementwise
    [{'nbytes': 1024, 'seconds': 1e-06}]
    """
    document = parse(text, file)
    data = document.data
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != 1:
        raise InputError.of(f'is not a GPU table: expected "format": "{FORMAT}", "version": 1', file)
    problems: list[Problem] = []
    sections: dict[str, list[dict[str, Any]]] = {}
    for section in _COLUMNS:
        rows = data.get(section, [])
        if not isinstance(rows, list):
            problems.append(Problem(f"must be a list, got {show(rows)}", file, document.line_of((section,)), section))
            continue
        for i, row in enumerate(rows):
            for key, message in _faults(section, row):
                name = f"{section}[{i}]" + (f".{key}" if key else "")
                problems.append(Problem(message, file, document.line_of((section, i, key) if key else (section, i)), name))
        sections[section] = [] if problems else [_whole(section, row) for row in rows]
    if problems:
        raise InputError(problems)
    return GpuTable(gpu=str(data.get("gpu", "")), **sections)


def _faults(section: str, row: Any) -> list[tuple[str, str]]:
    """(key, what is wrong with it)."""
    if not isinstance(row, dict):
        return [("", f"must be a mapping, got {show(row)}")]
    wrong = []
    for key in _COLUMNS[section]:
        low, high = _LIMITS.get(key, (1, MOST_SIZE))
        value: Any = row.get(key)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not low <= value <= high:  # NaN is neither
            wrong.append((key, f"must be a number from {low:g} to {high:g}, got {show(value)}"))
        elif key != "seconds" and value != int(value):
            wrong.append((key, f"must be a whole number, got {show(value)}"))
    for key, allowed in _TEXT.get(section, {}).items():
        if row.get(key) not in allowed:
            wrong.append((key, f"must be one of {', '.join(allowed)}, got {show(row.get(key))}"))
    return wrong


def _whole(section: str, row: dict[str, Any]) -> dict[str, Any]:
    """Sizes as integers: a kernel compiled for whole numbers is not compiled again for 8.0."""
    return {k: int(v) if k in _COLUMNS[section] and k != "seconds" else v for k, v in row.items()}
