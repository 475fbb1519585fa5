"""A script is never run: no process, no file written, no network, and hostile input ends in a message."""

from __future__ import annotations

import ast
import contextlib
import os
import random
import socket
import subprocess
from pathlib import Path

import pytest

import autotune.reader
from autotune.errors import InputError
from autotune.reader import model_spec, plan_of, read

HERE = Path(__file__).parent
SCRIPTS = sorted(p for p in (HERE / "scripts").rglob("*") if p.is_file())
LAUNCH = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 128 --micro-batch-size 1\n"

HOSTILE = {
    "remove": "rm -rf {victim}\n" + LAUNCH,
    "substitution": "X=$(touch {victim}2; rm -rf {victim})\n" + LAUNCH,
    "backticks": "X=`rm -rf {victim}`\n" + LAUNCH,
    "redirect": "echo gone > {victim}/kept\n" + LAUNCH,
    "heredoc": "cat <<EOF > {victim}/kept\n$(rm -rf {victim})\nEOF\n" + LAUNCH,
    "eval": 'eval "rm -rf {victim}"\n' + LAUNCH,
    "trap": "trap 'rm -rf {victim}' EXIT\n" + LAUNCH,
    "arithmetic": "A=$((x[$(rm -rf {victim})]))\n" + LAUNCH,
    "process": "cat <(rm -rf {victim})\n" + LAUNCH,
    "function": "python() {{ rm -rf {victim}; }}\npython x\n" + LAUNCH,
    "bash": "bash -c 'rm -rf {victim}'\n" + LAUNCH,
    "tee": "echo x | tee {victim}/kept\n" + LAUNCH,
    "prompt": "X=${{Y@P}} Z='$(rm -rf {victim})'\n" + LAUNCH,
}


@pytest.fixture
def guarded(monkeypatch):
    """Everything that could act on the machine raises."""

    def refuse(*args, **kwargs):
        raise AssertionError(f"the reader acted: {args}")

    for name in ("Popen", "run", "call", "check_output"):
        monkeypatch.setattr(subprocess, name, refuse)
    for name in ("system", "popen", "execv", "execve", "remove", "unlink", "rmdir", "rename", "posix_spawn", "fork", "kill", "mkdir"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "write_bytes", refuse)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_scripts_are_read_and_harm_nothing(name, tmp_path, guarded):
    victim = tmp_path / "victim"
    script = tmp_path / "job.sh"
    with open(script, "w") as f:
        f.write(HOSTILE[name].format(victim=victim))
    with open(str(victim) + "_kept", "w") as f:
        f.write("kept")
    before = sorted(os.listdir(tmp_path))
    found = read(script)
    assert found.model["num_layers"] == 8
    assert sorted(os.listdir(tmp_path)) == before


def test_the_reader_imports_nothing_that_could_act():
    folder = Path(autotune.reader.__file__).parent
    forbidden = {"subprocess", "socket", "os", "shutil", "ctypes", "urllib", "http", "requests", "multiprocessing", "pty", "importlib", "runpy"}
    for module in folder.glob("*.py"):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {n.split(".")[0] for n in names} & forbidden, module.name
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__", "open"), module.name


def test_files_outside_the_scripts_folders_are_not_read(tmp_path):
    inner = tmp_path / "repo" / "jobs"
    inner.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    secret = tmp_path / "secret.sh"
    secret.write_text("export LAYERS=99\n")
    os.symlink(secret, inner / "linked.sh")
    script = inner / "job.sh"
    for line in (f"source {secret}", "source ../../secret.sh", "source linked.sh", "source /etc/passwd"):
        script.write_text(line + "\n" + LAUNCH.replace("--num-layers 8", "--num-layers ${LAYERS:-4}"))
        assert read(script).model["num_layers"] == 4


@pytest.mark.parametrize(
    "text",
    [
        "while true; do X=$X$X; done\n" + LAUNCH,
        "X=aaaaaaaaaaaaaaaa\nfor i in {1..100}; do X=$X$X; done\n" + LAUNCH,
        "f() { f; }\nf\n" + LAUNCH,
        "source job.sh\n" + LAUNCH,
        "eval eval eval eval eval eval eval eval eval eval eval eval eval eval ls\n" + LAUNCH,
        "X=" + "${Y:-" * 300 + "}" * 300 + "\n" + LAUNCH,
        "X=$((" + "(" * 5000 + "1" + ")" * 5000 + "))\n" + LAUNCH,
        "X=$((2**2**2**2**2))\n" + LAUNCH,
        "if [[ " + "a" * 5000 + " =~ (a+)+b ]]; then :; fi\n" + LAUNCH,
        "A=" + "*" * 3000 + "; B=${A%%*a*a*a*a*b}\n" + LAUNCH,
        "printf '%999999999d' 1\n" + LAUNCH,
        "for i in $(seq 1 99999999); do for j in $(seq 1 99999999); do k=1; done; done\n" + LAUNCH,
    ],
    ids=lambda t: t[:24],
)
def test_scripts_that_never_end_are_cut_short(text, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(text)
    with contextlib.suppress(InputError):
        read(script)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_damaged_scripts_give_facts_or_a_message(path, tmp_path):
    rng = random.Random(path.name)
    text = path.read_text()
    for n in range(12):
        damaged = damage(text, rng)
        script = tmp_path / f"{n}_{path.name}"
        script.write_text(damaged, encoding="utf-8", errors="replace")
        try:
            found = read(script, {"GPUS_PER_NODE": "8", "NNODES": "2"})
            model = model_spec(found)
            if model:
                plan_of(found, "megatron-core", 8, 400, "rail-only")
        except InputError:
            pass


def damage(text: str, rng: random.Random) -> str:
    """One kind of damage: cut, repeat, swap, insert, or change numbers."""
    kind = rng.randrange(6)
    i, j = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    if kind == 0:
        return text[:i]
    if kind == 1:
        return text[:i] + text[j:]
    if kind == 2:
        return text[:i] + text[i:j] * 2 + text[j:]
    if kind == 3:
        return "".join(rng.choice("${}()[]'\"\\`#\n;|&<>=0 é\x00") if rng.random() < 0.01 else c for c in text)
    if kind == 4:
        return "".join(str(rng.choice([0, -1, 3, 10**9, 7])) if c.isdigit() and rng.random() < 0.1 else c for c in text)
    lines = text.splitlines(keepends=True)
    rng.shuffle(lines)
    return "".join(lines)
