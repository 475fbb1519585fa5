"""`autotune validate` as a user runs it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "results" / "validation"


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "autotune", "validate", *args], capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("rows")
    for name, prefixes in (("measurements", ("korthikanti22", "internevo", "simumax")), ("infeasible", ("bigscience",))):
        with open(ROWS / f"{name}.csv", newline="") as handle:
            reader = csv.DictReader(handle)
            rows = [r for r in reader if r["id"].startswith(prefixes)]
        with open(folder / f"{name}.csv", "w", newline="") as handle:
            writer = csv.DictWriter(handle, reader.fieldnames or [])
            writer.writeheader()
            writer.writerows(rows)
    return folder / "measurements.csv", folder / "infeasible.csv"


def test_json_has_the_promised_keys_and_one_line_per_row(small: tuple[Path, Path], tmp_path: Path) -> None:
    done = run(str(small[0]), "--infeasible", str(small[1]), "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {"rows", "scored", "skipped", "time", "memory", "feasibility", "choice", "by_group", "row_results"} <= set(report)
    assert {"n", "mape", "median_ape", "bias", "p90_ape", "max_ape"} == set(report["time"]) == set(report["memory"])
    assert {"n", "true_fit", "false_fit", "true_oom", "false_oom"} == set(report["feasibility"])
    assert {"groups", "top1", "top5", "mean_regret", "max_regret", "spearman"} == set(report["choice"])
    assert report["scored"] + sum(report["skipped"].values()) == report["rows"]
    with open(report["row_results"], newline="") as handle:
        lines = list(csv.DictReader(handle))
    assert len(lines) == report["rows"]
    promised = "id predicted_time_s measured_time_s predicted_memory_GiB measured_memory_GiB predicted_fits skip_reason stack system_group"
    assert set(promised.split()) <= set(lines[0])
    assert all(bool(r["skip_reason"]) != bool(r["predicted_time_s"]) for r in lines)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"rows.csv", "validation.json", "parity.svg", "parity.png"}


def test_a_limit_that_does_not_hold_exits_4_and_one_that_does_exits_0(small: tuple[Path, Path]) -> None:
    bad = run(str(small[0]), "--max-mape", "0.0001")
    assert bad.returncode == 4 and "exceeds" in bad.stderr and "Traceback" not in bad.stderr
    as_json = run(str(small[0]), "--max-mape", "0.0001", "--json")
    assert as_json.returncode == 4 and json.loads(as_json.stdout)["time"]["mape"] > 0.0001
    assert run(str(small[0]), "--max-mape", "0.2", "--max-memory-mape", "0.05").returncode == 0


def test_bad_files_exit_2_without_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    for text in ("", "id\nx\n", "a,b\n1,2\n"):
        path.write_text(text)
        done = run(str(path))
        assert done.returncode == 2 and "Traceback" not in done.stderr and str(path) in done.stderr
    assert run(str(tmp_path / "none.csv")).returncode == 2
