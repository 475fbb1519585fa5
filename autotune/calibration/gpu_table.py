"""The file that `scripts/measure_gpu.py` writes: operator timings of one GPU and its node.

JSON: {"format": "autotune-gpu-table", "version": 1, "gpu": name, "gemm": [...], "attention": [...], "elementwise": [...],
"launch": [...], "collectives": [...]}; times in seconds, sizes in elements or bytes as named.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.errors import InputError, Problem

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


@dataclass(frozen=True)
class GpuTable:
    """Checked rows by section; every number positive and finite."""

    gpu: str
    gemm: list[dict[str, Any]] = field(default_factory=list)
    attention: list[dict[str, Any]] = field(default_factory=list)
    elementwise: list[dict[str, Any]] = field(default_factory=list)
    launch: list[dict[str, Any]] = field(default_factory=list)
    collectives: list[dict[str, Any]] = field(default_factory=list)


def read_gpu_table(path: str | Path) -> GpuTable:
    """Read and check a table; InputError lists every problem."""
    name = str(path)
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError.of(f"cannot read {name}: {error.strerror}") from None
    except ValueError as error:
        raise InputError.of(f"is not JSON: {error}", name) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != 1:
        raise InputError.of(f'is not a GPU table: expected "format": "{FORMAT}", "version": 1', name)
    problems: list[Problem] = []
    sections: dict[str, list[dict[str, Any]]] = {}
    for section in _COLUMNS:
        rows = data.get(section, [])
        if not isinstance(rows, list):
            problems.append(Problem("must be a list", name, key=section))
            continue
        for i, row in enumerate(rows):
            problems += [Problem(text, name, key=f"{section}[{i}]") for text in _faults(section, row)]
        sections[section] = rows
    if problems:
        raise InputError(problems)
    return GpuTable(gpu=str(data.get("gpu", "")), **sections)


def _faults(section: str, row: Any) -> list[str]:
    if not isinstance(row, dict):
        return ["must be a mapping"]
    wrong = []
    for key in _COLUMNS[section]:
        value = row.get(key)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value) or value <= 0:
            wrong.append(f"{key} must be a positive number, got {value!r}")
    for key, allowed in _TEXT.get(section, {}).items():
        if row.get(key) not in allowed:
            wrong.append(f"{key} must be one of {', '.join(allowed)}, got {row.get(key)!r}")
    return wrong
