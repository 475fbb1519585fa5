"""The validation set of the source tree, and reading of measurement files with a clear error when unusable."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from autotune.errors import InputError
from autotune.validate.rows import Row, read_rows

FOLDER = Path(__file__).resolve().parents[2] / "results" / "validation"


def shipped_files(infeasible: Path | None) -> tuple[Path, Path]:
    """Measured and failed runs of `results/validation`; InputError where the source tree is not at hand (a wheel)."""
    rows = FOLDER / "measurements.csv"
    if not rows.is_file():
        raise InputError.of("the validation set is part of the source tree, not of the installed package; give MEASUREMENTS.csv")
    return rows, infeasible or FOLDER / "infeasible.csv"


def read_checked(path: Path, failed: bool = False) -> list[Row]:
    """Rows of a file, at least one; `failed` marks rows without a status as failed."""
    rows = read_rows(path)
    if not rows:
        raise InputError.of("no rows", file=str(path))
    if failed:
        rows = [row if row.status != "ok" else dataclasses.replace(row, status="failed_or_oom") for row in rows]
    return rows
