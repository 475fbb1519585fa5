"""Crashes, interruptions and damaged files: nothing is lost that was finished, and nothing of the user's is overwritten."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from commands import CLUSTER, command, run, search_json, write_inputs

# Large enough for dozens of batches of cells, each written to the journal; a second or two without one.
LARGE_CLUSTER = CLUSTER.replace("gpus: 8", "gpus: 256")
LARGE_MODEL = """\
name: large
num_layers: 48
hidden_size: 8192
num_attention_heads: 64
num_query_groups: 8
ffn_hidden_size: 4096
swiglu: true
add_bias_linear: false
num_experts: 64
moe_router_topk: 4
vocab_size: 128000
seq_length: 8192
training: {global_batch_size: 1024}
search: {context_parallel: [1, 2], expert_tensor_parallel: 1}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    write_inputs(tmp_path)
    return tmp_path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    write_inputs(tmp_path, LARGE_CLUSTER, LARGE_MODEL)
    return tmp_path


def finished_trials(journal: Path) -> int:
    """Trials a journal records as complete (operation 6 sets a trial's state)."""
    if not journal.exists():
        return 0
    records = (json.loads(line) for line in journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n"))
    return sum(1 for r in records if r["op_code"] == 6 and r.get("state") == 1)


def start_until(large: Path, trials: int, *arguments: object) -> subprocess.Popen[str]:
    """A search that has finished at least so many trials and is still running."""
    process = subprocess.Popen(
        command("search", "c.yaml", "m.yaml", "--json", "--top", 20, "--storage", "journal:j.log", *arguments),
        cwd=large, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 200
    while finished_trials(large / "j.log") < trials:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def same_result(a: dict, b: dict) -> None:
    assert [(p["id"], p["iteration_time_s"]) for p in a["plans"]] == [(p["id"], p["iteration_time_s"]) for p in b["plans"]]
    for key in ("points_total", "points_scored", "rejected", "exhaustive", "optimality"):
        assert a["search"][key] == b["search"][key], key


def test_a_killed_search_goes_on_where_it_was_and_finds_the_same(large):
    process = start_until(large, 40)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = finished_trials(large / "j.log")
    resumed = search_json(large, "--top", 20, "--storage", "journal:j.log", "--resume")
    fresh = search_json(large, "--top", 20)
    same_result(resumed, fresh)
    assert finished_trials(large / "j.log") == fresh["search"]["trials"] > before >= 40, "finished cells are not scored again"


def test_ctrl_c_saves_the_best_so_far(large):
    process = start_until(large, 40, "--out", "o")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    document = json.loads(out)
    assert document["interrupted"] is True and document["plans"] and not document["search"]["exhaustive"]
    search = document["search"]
    assert search["points_total"] == search["points_scored"] + sum(search["rejected"].values())
    assert json.loads((large / "o" / "result.json").read_text())["plans"][0]["id"] == document["plans"][0]["id"]
    assert (large / "o" / "plan.yaml").exists()
    resumed = search_json(large, "--top", 20, "--storage", "journal:j.log", "--resume")
    same_result(resumed, search_json(large, "--top", 20))


def test_a_lock_left_by_a_killed_process_is_taken_over(small):
    search_json(small, "--storage", "journal:sub.log")
    journal = small / "sub.log"
    os.symlink(journal, f"{journal}.lock")
    started = time.monotonic()
    done = run(small, "search", "c.yaml", "m.yaml", "--storage", "journal:sub.log", "--resume")
    assert done.returncode == 0 and "locked by another search" in done.stderr
    assert time.monotonic() - started > 9


def test_a_torn_last_record_is_dropped(small):
    whole = search_json(small, "--storage", "journal:j.log")
    journal = small / "j.log"
    journal.write_bytes(journal.read_bytes()[:-40])
    done = run(small, "search", "c.yaml", "m.yaml", "--json", "--storage", "journal:j.log", "--resume")
    assert done.returncode == 0 and "cut off" in done.stderr
    same_result(json.loads(done.stdout), whole)
    same_result(search_json(small, "--storage", "journal:j.log", "--resume"), whole)


@pytest.mark.parametrize(
    "content", [b"garbage", b"garbage\n", b"name: c\ngpus: 8\n", b"[]\n", b'{"op_code": 0, "study_name"\n{}\n', b"\x00\xff" * 100]
)
def test_a_file_that_is_no_journal_is_refused_and_kept(small, content):
    (small / "j.log").write_bytes(content)
    done = run(small, "search", "c.yaml", "m.yaml", "--storage", "journal:j.log", "--resume")
    assert done.returncode == 2 and "j.log" in done.stderr and "no record of a journal" in done.stderr
    assert (small / "j.log").read_bytes() == content


def test_a_journal_damaged_in_the_middle_is_refused_with_its_line(small):
    search_json(small, "--storage", "journal:j.log")
    lines = (small / "j.log").read_bytes().splitlines(keepends=True)
    lines[4] = b"\x00" * len(lines[4]) + b"\n"
    (small / "j.log").write_bytes(b"".join(lines))
    done = run(small, "search", "c.yaml", "m.yaml", "--storage", "journal:j.log", "--resume")
    assert done.returncode == 2 and "line 5" in done.stderr


@pytest.mark.parametrize("storage", ["nowhere", "journal:/nonexistent/deep/j.log", "journal:.", "sqlite:////nonexistent/x.db", "mysql://h/d"])
def test_storage_that_cannot_be_used(small, storage):
    done = run(small, "search", "c.yaml", "m.yaml", "--storage", storage)
    assert done.returncode == 2 and done.stderr.count("error:") == 1


def test_a_study_is_not_mixed_with_other_inputs(small):
    named = ("--storage", "journal:j.log", "--study-name", "s")
    search_json(small, *named)
    again = run(small, "search", "c.yaml", "m.yaml", *named)
    assert again.returncode == 2 and "--resume" in again.stderr
    write_inputs(small, CLUSTER.replace("gpus: 8", "gpus: 16"))
    other = run(small, "search", "c.yaml", "m.yaml", *named, "--resume")
    assert other.returncode == 2 and "other inputs" in other.stderr
    write_inputs(small, CLUSTER + "calibration: {gemm_efficiency: 0.5}\n")
    fitted = run(small, "search", "c.yaml", "m.yaml", *named, "--resume")
    assert fitted.returncode == 2 and "other inputs" in fitted.stderr


def test_output_folders_are_not_overwritten(small):
    out = small / "o"
    assert run(small, "search", "c.yaml", "m.yaml", "--out", "o").returncode == 0
    written = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    assert {"plan.yaml", "result.json"} <= written and any(p.startswith("megatron/") for p in written)
    (out / "mine.txt").write_text("keep")
    refused = run(small, "search", "c.yaml", "m.yaml", "--out", "o")
    assert refused.returncode == 2 and "--force" in refused.stderr
    assert (out / "mine.txt").read_text() == "keep"
    assert run(small, "search", "c.yaml", "m.yaml", "--out", "o", "--force").returncode == 0
    assert (out / "mine.txt").read_text() == "keep"
    assert [p.name for p in small.iterdir() if p.name.startswith(".o.")] == []


def test_output_that_cannot_be_a_folder(small):
    (small / "file").write_text("x")
    for path in ("file", "file/below"):
        done = run(small, "search", "c.yaml", "m.yaml", "--out", path)
        assert done.returncode == 2 and done.stderr.count("error:") == 1, path
    assert (small / "file").read_text() == "x"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_output_folder_not_writable(small):
    (small / "closed").mkdir(mode=0o500)
    done = run(small, "search", "c.yaml", "m.yaml", "--out", "closed/o")
    assert done.returncode == 2 and "cannot write" in done.stderr


def test_nothing_is_left_behind_when_nothing_fits(small):
    write_inputs(small, CLUSTER + "memory_reserve_GiB: 79\n")
    assert run(small, "search", "c.yaml", "m.yaml", "--out", "o").returncode == 3
    assert sorted(p.name for p in small.iterdir()) == ["c.yaml", "m.yaml"]
