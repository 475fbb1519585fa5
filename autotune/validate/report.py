"""The validation document, the row-by-row table and the parity plot."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from autotune.validate.rows import GIB
from autotune.validate.runner import Result
from autotune.validate.scoring import choice_summary, error_summary, feasibility_summary

ROW_COLUMNS = (
    "id", "predicted_time_s", "measured_time_s", "predicted_memory_GiB", "measured_memory_GiB", "predicted_fits", "skip_reason",
    "stack", "system_group", "time_error", "memory_error", "tier", "status", "choices",
)  # fmt: skip


def document(results: Sequence[Result], failed: Sequence[Result] = ()) -> dict[str, Any]:
    """The JSON of `autotune validate`: errors are fractions of the measured value. `failed` are rows that did not run."""
    scored = [r for r in results if not r.skip_reason]
    verdicts = [r for r in (*scored, *failed) if r.fits is not None]
    skipped = Counter(r.skip_reason for r in (*results, *failed) if r.skip_reason)
    timed = _timed(scored)
    return {
        "rows": len(results) + len(failed),
        "scored": len(scored) + sum(not r.skip_reason for r in failed),
        "skipped": dict(skipped.most_common()),
        "coverage": _coverage(results),
        "time": time_summary(scored),
        "memory": memory_summary(scored),
        "feasibility": feasibility_summary([bool(r.fits) for r in verdicts], [r.row.status == "ok" for r in verdicts]),
        "choice": choice_summary([r.row.choice_key for r in timed], _numbers(r.time_s for r in timed), _numbers(r.row.time_s for r in timed)),
        "by_group": by_group(results),
    }


def _numbers(values: Iterable[float | None]) -> list[float]:
    return [float(v) for v in values if v is not None]


def _timed(results: Sequence[Result]) -> list[Result]:
    return [r for r in results if r.time_s is not None and r.row.time_s]


def time_summary(results: Sequence[Result]) -> dict[str, Any]:
    """Errors in time over the rows that have a measured time."""
    timed = _timed(results)
    return error_summary(_numbers(r.time_s for r in timed), _numbers(r.row.time_s for r in timed))


def memory_summary(results: Sequence[Result]) -> dict[str, Any]:
    """Errors in memory over the rows that have a measured peak."""
    known = [r for r in results if r.memory_bytes is not None and r.row.memory_bytes]
    return error_summary(_numbers(r.memory_bytes for r in known), _numbers(r.row.memory_bytes for r in known))


def _coverage(results: Sequence[Result]) -> dict[str, Any]:
    tiers = sorted({r.row.tier for r in results if r.row.tier})
    return {
        tier: {"rows": len(rs), "scored": sum(not r.skip_reason for r in rs)}
        for tier in tiers
        for rs in [[r for r in results if r.row.tier == tier]]
    }


def by_group(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Errors by source (prefix of the row id), system and stack."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for r in results:
        if not r.skip_reason:
            groups.setdefault((r.row.prefix, r.row.system_group, r.stack), []).append(r)
    return [
        {"source": k[0], "system_group": k[1], "stack": k[2], "n": len(rs), "time": time_summary(rs), "memory": memory_summary(rs)}
        for k, rs in sorted(groups.items())
    ]


def rows_csv(results: Sequence[Result]) -> str:
    """One line per row: prediction, measurement, error, and why it was skipped."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(ROW_COLUMNS)
    for r in results:
        fits = "" if r.fits is None else ("yes" if r.fits else "no")
        memory, measured = (None if b is None else b / GIB for b in (r.memory_bytes, r.row.memory_bytes))
        errors = _number(_error(r.time_s, r.row.time_s), 4), _number(_error(r.memory_bytes, r.row.memory_bytes), 4)
        cells = (_number(r.time_s), _number(r.row.time_s), _number(memory), _number(measured), fits, r.skip_reason)
        writer.writerow((r.row.id, *cells, r.stack, r.row.system_group, *errors, r.row.tier, r.row.status, r.choices))
    return text.getvalue()


def _error(predicted: float | None, measured: float | None) -> float | None:
    return None if predicted is None or not measured else predicted / measured - 1


def _number(value: float | None, digits: int = 6) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def parity_plot(path: Path, results: Sequence[Result]) -> list[Path]:
    """Predicted against measured iteration time, log axes, one colour per stack; writes `path`.svg and `path`.png."""
    from autotune.plotting import scatter_chart

    series: dict[str, tuple[list[float], list[float]]] = {}
    for r in _timed(results):
        xs, ys = series.setdefault(r.stack, ([], []))
        xs.append(float(r.row.time_s or 0))
        ys.append(float(r.time_s or 0))
    title = "Predicted and measured iteration time"
    return scatter_chart(path, title, "measured, s", "predicted, s", dict(sorted(series.items())), log=True, diagonal=True)
