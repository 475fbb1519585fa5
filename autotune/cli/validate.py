"""`autotune validate`: score the model against measured runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_LIMITS = {
    "max_mape": ("time", "mape"),
    "max_median": ("time", "median_ape"),
    "max_bias": ("time", "bias"),
    "max_memory_mape": ("memory", "mape"),
    "max_regret": ("choice", "mean_regret"),
}


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


@click.command()
@click.argument("measurements", required=False, type=click.Path(path_type=Path))
@click.option("--infeasible", type=click.Path(path_type=Path), help="Runs that failed or ran out of memory, same columns.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for rows.csv, validation.json and the parity plot.")
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.option("--max-mape", type=float, help="Exit 4 when the mean absolute time error exceeds this fraction.")
@click.option("--max-median", type=float, help="... the median absolute time error.")
@click.option("--max-bias", type=float, help="... the absolute mean signed time error.")
@click.option("--max-memory-mape", type=float, help="... the mean absolute memory error.")
@click.option("--max-regret", type=float, help="... the mean regret of the plan ranked first.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    measurements: Path | None, infeasible: Path | None, out: Path | None, force: bool, as_json: bool, **limits: float | None
) -> None:
    """Score the model against measured runs.

    Without MEASUREMENTS, the validation set in results/validation is used. Errors are fractions of the measured value.
    """
    from autotune.errors import CheckFailed
    from autotune.output import print_json, warn
    from autotune.validate.runner import plan_predictor, score
    from autotune.validate.shipped import read_checked, shipped_files

    if measurements is None:
        measurements, infeasible = shipped_files(infeasible)
    rows = read_checked(measurements)
    failed_rows = read_checked(infeasible, failed=True) if infeasible else []
    predict = plan_predictor()
    results, failed = score(rows, predict), score(failed_rows, predict)
    report = _write(results, failed, out, force)
    if as_json:
        print_json(report)
    else:
        _print(report)
    broken = [
        f"{section} {name} {value:.4f} exceeds {limit:.4f}"
        for option, limit in limits.items()
        for section, name in [_LIMITS[option]]
        if limit is not None and (value := abs(report[section][name] or 0.0)) > limit
    ]
    if broken:
        if as_json:
            warn("; ".join(broken))
            raise SystemExit(CheckFailed.exit_code)  # the report is the one JSON document of this run
        raise CheckFailed("; ".join(broken))


def _write(results: list[Any], failed: list[Any], out: Path | None, force: bool) -> dict[str, Any]:
    import json
    import os
    import tempfile

    from autotune.outdir import OutputFolder
    from autotune.output import jsonable
    from autotune.validate.report import document, parity_plot, rows_csv

    report = document(results, failed)
    if out is None:
        handle, name = tempfile.mkstemp(prefix="autotune-validate-", suffix=".csv")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(rows_csv([*results, *failed]))
        return {**report, "row_results": name}
    report["row_results"] = str(out / "rows.csv")
    with OutputFolder(out, force) as folder:
        folder.write("rows.csv", rows_csv([*results, *failed]))
        folder.write("validation.json", json.dumps(jsonable(report), indent=1) + "\n")
        parity_plot(folder.file("parity"), results)
    return report


def _print(report: dict[str, Any]) -> None:
    from autotune.output import console, table

    show = console()
    columns = ["source", "system", "stack", "rows", "time error", "median", "bias", "memory error"]
    lines = [
        [g["source"], g["system_group"], g["stack"], g["n"], *(_percent(g["time"][k]) for k in ("mape", "median_ape", "bias"))]
        + [_percent(g["memory"]["mape"])]
        for g in report["by_group"]
    ]
    show.print(table("Mean absolute error by source", columns, lines, right={3, 4, 5, 6, 7}))
    for section in ("time", "memory"):
        s = report[section]
        values = ", ".join(f"{k.replace('_', ' ')} {_percent(s[k])}" for k in ("mape", "median_ape", "bias", "p90_ape", "max_ape"))
        show.print(f"{section}: {s['n']} rows, {values}")
    f, c = report["feasibility"], report["choice"]
    show.print(f"fit or out of memory: {f['true_fit'] + f['true_oom']} of {f['n']} right ({f['false_fit']} failed though called feasible)")
    regret = f"mean regret {_percent(c['mean_regret'])}, largest {_percent(c['max_regret'])}"
    show.print(f"choice: {c['groups']} groups, best in top five {_percent(c['top5'])}, {regret}, rank correlation {c['spearman']}")
    show.print(f"scored {report['scored']} of {report['rows']} rows; skipped: {report['skipped'] or 'none'}")
    show.print(f"row by row: {report['row_results']}")
