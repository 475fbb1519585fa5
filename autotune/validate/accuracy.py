"""The accuracy table: every published set in columns D, X and F, shipped constants, memory, and the baselines.

`python -m autotune.validate.accuracy results/validation` rebuilds the table, its JSON and the plots (some minutes).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotune.validate.columns import (
    Sample,
    baseline_columns,
    column_f,
    column_x,
    fit_samples,
    folds_of,
    predict,
    samples_of,
    summary,
)
from autotune.validate.folds import cell, grouped_folds
from autotune.validate.report import memory_summary
from autotune.validate.rows import Row, read_rows
from autotune.validate.runner import Predictor, Result, plan_predictor, score
from autotune.validate.scoring import feasibility_summary
from autotune.validate.sets import SETS, PublishedSet
from autotune.validate.tensor_mode import with_learnt_mode
from autotune.validate.tunable import shipped_values

KEYS = ("n", "mape", "median_ape", "bias", "p90_ape", "max_ape")


def set_columns(published: PublishedSet, samples: Sequence[Sample], everything: Sequence[Sample]) -> dict[str, Any]:
    """All columns of one set."""
    splits = folds_of(samples)
    columns: dict[str, Any] = {
        "D": summary(samples, predict(samples)),
        "shipped": summary(samples, predict(samples, shipped_values(samples))),
        **transfer_columns(samples, everything),
        "F": summary(samples, column_f(samples, splits, published.scale, published.heavy)),
    }
    if published.by_cell:
        cells = grouped_folds([s.row for s in samples], cell, folds=10_000)
        columns["F, cell left out"] = summary(samples, column_f(samples, cells, published.scale, published.heavy))
    for name, predicted in baseline_columns(samples, splits).items():
        columns[f"F, {name}"] = summary(samples, predicted)
    fitted = fit_samples(samples, published.scale, None, published.heavy)
    constants = {k: {"value": v, "error": fitted.errors[k], "identified": k in fitted.identified} for k, v in fitted.values.items()}
    return {"title": published.title, "columns": columns, "fitted_on_all_rows": constants}


def transfer_columns(samples: Sequence[Sample], everything: Sequence[Sample]) -> dict[str, Any]:
    """Column X, and where a set holds several GPU types, X of each type's machines apart."""
    predicted = column_x(samples, everything, 0.03)
    columns = {"X": summary(samples, predicted)}
    gpus = list(dict.fromkeys(s.row.gpu for s in samples))
    for gpu in gpus if len(gpus) > 1 else ():
        chosen = [i for i, s in enumerate(samples) if s.row.gpu == gpu]
        columns[f"X, {gpu}"] = summary([samples[i] for i in chosen], predicted[chosen])
    return columns


def fast_columns(published: PublishedSet, samples: Sequence[Sample]) -> dict[str, Any]:
    """D and shipped only: seconds, for the regression test."""
    return {"D": summary(samples, predict(samples)), "shipped": summary(samples, predict(samples, shipped_values(samples)))}


def in_set(published: PublishedSet, samples: Sequence[Sample]) -> list[Sample]:
    """The samples of one set."""
    return [s for s in samples if published.holds(s.row)]


def memory_table(results: Sequence[Result], failed: Sequence[Result], predictor: Predictor) -> dict[str, Any]:
    """Memory errors by source, and how often fit or failure was told right."""
    learnt = with_learnt_mode([r for r in results if r.row.prefix == "playbook" and not r.skip_reason], predictor)

    def of(*prefixes: str, narrow: bool = False, among: Sequence[Result] = results) -> dict[str, Any]:
        rows = [r for r in among if r.row.prefix in prefixes and not r.skip_reason and (not narrow or (r.row.tp or 0) <= 2)]
        return memory_summary(rows)

    verdicts = [r for r in (*results, *failed) if r.fits is not None and r.row.prefix == "playbook"]
    confusion = feasibility_summary([bool(r.fits) for r in verdicts], [r.row.status == "ok" for r in verdicts])
    feasible = confusion["true_fit"] + confusion["false_fit"]
    return {
        "playbook": of("playbook"),
        "playbook, T <= 2": of("playbook", narrow=True),
        "playbook, F": of("playbook", among=learnt),
        "playbook, F, T <= 2": of("playbook", narrow=True, among=learnt),
        "simumax": of("simumax-b200"),
        "bigscience": of("bigscience"),
        "torchtitan, no pipeline": of("titan-1d", "titan-2d", "titan-cp"),
        "torchtitan, pipeline": of("titan-3d", "titan-4d"),
        "fit or failure, playbook": {
            **confusion,
            "right": round((confusion["true_fit"] + confusion["true_oom"]) / max(1, len(verdicts)), 4),
            "failed_among_feasible": round(confusion["false_fit"] / max(1, feasible), 4),
        },
    }


def table_markdown(report: dict[str, Any]) -> str:
    """The table as Markdown."""
    lines = [
        "| set | column | rows | mean | median | bias | largest | regret mean / max | best in top 5 | rank corr. |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for entry in report["sets"].values():
        for column, s in entry["columns"].items():
            c = s["choice"]
            cells = [_pct(s[k]) for k in ("mape", "median_ape", "bias", "max_ape")]
            choice = [f"{_pct(c['mean_regret'])} / {_pct(c['max_regret'])}", _pct(c["top5"]), _num(c["spearman"])] if c["groups"] else ["", "", ""]
            lines.append("| " + " | ".join([entry["title"], column, str(s["n"]), *cells, *choice]) + " |")
    lines += ["", "| memory | rows | mean | median | bias | largest |", "|---|---|---|---|---|---|"]
    for name, s in report["memory"].items():
        if "mape" in s:
            lines.append(f"| {name} | {s['n']} | " + " | ".join(_pct(s[k]) for k in ("mape", "median_ape", "bias", "max_ape")) + " |")
    f = report["memory"]["fit or failure, playbook"]
    lines += ["", f"Fit or failure (playbook, {f['n']} rows): {_pct(f['right'])} right; of plans called feasible {_pct(f['failed_among_feasible'])} failed."]
    return "\n".join(lines) + "\n"


def _pct(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _num(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def headline(report: dict[str, Any]) -> dict[str, Any]:
    """The numbers the regression test holds: mean and median per set and column, memory and verdicts."""
    sets = {
        name: {column: {k: s[k] for k in ("n", "mape", "median_ape")} for column, s in entry["columns"].items() if not column.startswith("F, ")}
        for name, entry in report["sets"].items()
    }
    memory = {name: {k: s[k] for k in ("n", "mape", "right", "failed_among_feasible") if k in s} for name, s in report["memory"].items()}
    return {"sets": sets, "memory": memory}


def build(rows: Sequence[Row], failed: Sequence[Row], only: Sequence[str] = ()) -> dict[str, Any]:
    """The whole report."""
    samples = samples_of(rows)
    sets = {}
    for published in SETS:
        if not only or published.name in only:
            print(published.name, file=sys.stderr, flush=True)
            sets[published.name] = set_columns(published, in_set(published, samples), samples)
    predictor = plan_predictor()
    return {"sets": sets, "memory": memory_table(score(rows, predictor), score(failed, predictor), predictor)}


def main(folder: str) -> None:
    """Rebuild `accuracy.json`, `headline.json` and `accuracy.md` of a folder that holds the rows."""
    root = Path(folder)
    report = build(read_rows(root / "measurements.csv"), read_rows(root / "infeasible.csv"))
    (root / "accuracy.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (root / "headline.json").write_text(json.dumps(headline(report), indent=1) + "\n", encoding="utf-8")
    (root / "accuracy.md").write_text(table_markdown(report), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
