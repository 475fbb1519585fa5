"""Writes the reproduction to a folder: the table of claims, every figure as CSV, SVG and PNG, and a README."""

from __future__ import annotations

import datetime
import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import autotune
from autotune.outdir import OutputFolder
from autotune.output import jsonable
from autotune.reproduce.claims import Row, load_sources
from autotune.reproduce.figures import Figure, all_figures, csv_text, rounded
from autotune.reproduce.rail_only import reproduce_rows

COMMAND = "autotune reproduce rail-only"
TABLE = "reproduction.csv"
REFERENCE_SETTING = (
    "R1: 32,768 GPUs, 450 GB/s HB and 50 GB/s NIC bandwidth per GPU one way, 989 TFLOP/s at efficiency 0.5, full "
    "recomputation, 8 tensor collectives a layer, 2-byte activations and gradients, stage-to-stage transfers only in the "
    "pipeline bubble and split over the tensor group, no memory limit, any number of micro-batches"
)
_COLUMNS = ["id", "part", "claim", "unit", "expected", "got", "tolerance", "rule", "grade", "verdict", "label", "settings", "source", "note"]


def versions() -> dict[str, str]:
    """Versions the numbers were made with."""
    packages = {name: metadata.version(name) for name in ("numpy", "numba", "matplotlib")}
    return {"autotune": autotune.__version__, "python": platform.python_version(), **packages}


def document(rows: list[Row], out: Path, files: list[str]) -> dict[str, Any]:
    """The JSON document of the command."""
    gated = [row for row in rows if row.claim.gated]
    return {
        "paper": "arXiv 2307.12169",
        "rows": [row.to_dict() for row in rows],
        "summary": {
            "pass": sum(row.verdict == "pass" for row in gated),
            "fail": sum(row.verdict == "fail" for row in gated),
            "not_gated": len(rows) - len(gated),
        },
        "reference_setting": REFERENCE_SETTING,
        "sources": load_sources(),
        "out": str(out),
        "files": files,
        "versions": versions(),
    }


def table_csv(rows: list[Row]) -> str:
    """The claims as CSV, one line per part; context values are lines without an expected value."""
    lines: list[list[Any]] = []
    for row in rows:
        claim = row.claim
        tail = [claim.settings, claim.source, claim.note]
        rule = ["" if claim.tolerance is None else claim.tolerance, claim.rule, claim.grade, row.verdict, row.label]
        for (part, got), expected in zip(row.values.parts.items(), row.expected, strict=True):
            lines.append([claim.id, part, claim.claim, claim.unit, expected, float(got), *rule, *tail])
        for part, got in row.values.context.items():
            lines.append([claim.id, part, claim.claim, claim.unit, "", float(got), "", "context", claim.grade, "", "", *tail])
    return csv_text(_COLUMNS, lines)


def short(values: list[Any], limit: int = 4) -> str:
    """Values on one line, shortened when there are many.

    >>> short([1.23456, 2.0]), short([38, 62, 77, 38, 77])
    ('1.23 / 2', '38 ... 77 (5 values)')
    """
    texts = [f"{v:.3g}" if isinstance(v, float) and abs(v) < 1000 else str(rounded(v)) for v in values]
    return " / ".join(texts) if len(texts) <= limit else f"{texts[0]} ... {texts[-1]} ({len(texts)} values)"


def row_cells(row: Row) -> list[str]:
    """A row for people: id, claim, expected, got, unit, grade, verdict."""
    claim, got = row.claim, list(row.values.parts.values())
    expected = row.expected if isinstance(claim.expected, dict) else row.expected[:1]
    sign = {"above": "> ", "below": "< ", "at-most": "<= "}.get(claim.rule, "")
    return [claim.id, claim.claim, sign + short(expected), short(got), claim.unit, claim.grade, row.verdict]


def readme(rows: list[Row], figures: list[Figure], date: str) -> str:
    """The README of the result folder."""
    lines = [
        "# Rail-only paper (arXiv 2307.12169) against this model",
        "",
        f"Made by `{COMMAND}`. Numbers last changed: {date}. No GPU is needed.",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in versions().items()) + ".",
        "",
        "Grade A is a closed form, B holds under settings inferred here, C is about shape or order, D is not reproduced.",
        "Most settings of the iteration-time rows (M) are not given in the text that could be read. They were chosen so that",
        "the rows agree: a pass says that the model matches published figures under inferred settings, not that it predicted them.",
        "`sensitivity.csv` shows how far each moves when one setting changes.",
        "",
        REFERENCE_SETTING + ".",
        "",
        "| id | claim | expected | got | unit | grade | verdict |",
        "|---|---|---|---|---|---|---|",
        *("| " + " | ".join(row_cells(row)) + " |" for row in rows),
        "",
        "## Rows that are not gated",
        "",
        *(f"- {row.claim.id}: {row.claim.note}" for row in rows if not row.claim.gated),
        "",
        "## Sources",
        "",
        *(f"- {name}: {meaning}" for name, meaning in load_sources().items()),
        "",
        "## Files",
        "",
        f"- `{TABLE}`: every claim by part, with tolerance, rule, settings and source; `reproduction.json`: the same as JSON.",
        *(f"- `{figure.name}.csv`: {figure.caption}" for figure in figures),
        "- `*.svg`, `*.png`: the charts.",
        "",
    ]
    return "\n".join(lines)


def _is_current(folder: Path, texts: dict[str, str]) -> bool:
    return all((folder / name).is_file() and (folder / name).read_text(encoding="utf-8") == text for name, text in texts.items())


def is_own(folder: Path) -> bool:
    """Whether a folder was written by this command before, so that it may be rebuilt."""
    guide = folder / "README.md"
    return (folder / TABLE).is_file() and guide.is_file() and f"`{COMMAND}`" in guide.read_text(encoding="utf-8")


def write_reproduction(out: Path, force: bool) -> tuple[list[Row], list[str]]:
    """Compute everything and write it to `out`; the rows and the names of the files.

    An unchanged result keeps its README, so that running the command again leaves the folder as it was.
    Raises InputError when the folder holds something and `force` is not given.
    """
    with OutputFolder(out, force) as folder:
        rows, figures = reproduce_rows(), all_figures()
        data = {"rows": jsonable([row.to_dict() for row in rows]), "versions": versions()}
        texts = {TABLE: table_csv(rows), "reproduction.json": json.dumps(_six_digits(data), indent=1, ensure_ascii=False) + "\n"}
        texts |= {f"{figure.name}.csv": figure.csv() for figure in figures}
        root = folder.file("README.md").parent
        if not _is_current(root, texts) or not (root / "README.md").is_file():
            texts["README.md"] = readme(rows, figures, datetime.date.today().isoformat())
        for name, text in texts.items():
            folder.write(name, text)
        for figure in figures:
            if figure.draw:
                figure.draw(root)
        charts = sorted(path.name for path in root.iterdir() if path.suffix in (".svg", ".png"))
    return rows, ["README.md", *(name for name in texts if name != "README.md"), *charts]


def _six_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _six_digits(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_six_digits(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
