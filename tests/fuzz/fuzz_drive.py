"""Runs the command line inside this process on one hostile input, and says what is wrong with the way it ended."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from autotune.cli import main

ROOT = Path(__file__).resolve().parents[2]
CPU_LIMIT_S = 5.0
WALL_LIMIT_S = 60.0  # only a read that blocks takes this long; the CPU limit ends everything else, also on a loaded machine
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Hang(BaseException):
    """Not an Exception, so that no handler of the program takes it for an error of its own."""


@dataclass(frozen=True)
class Outcome:
    """How one run ended: exit code (None: it hung), what it printed, and the CPU seconds it took."""

    code: int | None
    out: str
    err: str
    cpu_s: float


def _ring(signum, frame):
    raise Hang


def run(args: list[str], cpu_limit_s: float = CPU_LIMIT_S, wall_limit_s: float | None = None) -> Outcome:
    """`autotune ARGS`, cut short after `cpu_limit_s` seconds of CPU time."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    old_argv, sys.argv = sys.argv, ["autotune", *args]
    old = [(s, signal.signal(s, _ring)) for s in (signal.SIGPROF, signal.SIGALRM)]
    started = time.process_time()
    code: int | None = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            signal.setitimer(signal.ITIMER_PROF, cpu_limit_s, 0.5)
            signal.setitimer(signal.ITIMER_REAL, wall_limit_s or max(WALL_LIMIT_S, cpu_limit_s), 0.5)
            try:
                main()
            except SystemExit as e:
                code = e.code if isinstance(e.code, int) else 1 if e.code else 0
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
    except Hang:
        code = None
    finally:
        sys.argv = old_argv
        for number, handler in old:
            signal.signal(number, handler)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return Outcome(code, texts[0], texts[1], time.process_time() - started)


def fault(args: list[str], done: Outcome, files: tuple[str, ...], lined: bytes = b"") -> str:
    """What is wrong with a run on damaged `files`; the empty string when it ended as it should.

    Right are: code 0 with its result, 2 with a message that names one of them (and the line of every key of the text `lined`), 3 with a message, and for `check` also 4.
    """
    if done.code is None:
        return "hung"
    if done.code not in ((0, 2, 3, 4) if args[0] == "check" else (0, 2, 3)):
        return f"exit code {done.code}"
    if "Traceback" in done.err or "internal:" in done.err:
        return "a traceback"
    if found := _CONTROL.search(done.out + done.err):
        return f"prints the control character {found[0]!r}"
    if "--json" in args and (reason := _document_fault(done)):
        return reason
    if done.code == 0:
        return "" if done.out.strip() else "says nothing"
    if not re.search(r"^(error: |Error: )\S", done.err, re.M):
        return "" if done.code == 4 and "--json" in args else "ends without a message"
    if done.code == 2 and not any(file in done.err for file in files):
        return "does not name the file"
    if done.code == 2 and lined and "--json" in args:
        return _line_fault(json.loads(done.out)["problems"], files, lined)
    return ""


def _document_fault(done: Outcome) -> str:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        document = json.loads(done.out, parse_constant=refuse)
    except ValueError as e:
        return f"--json prints no JSON document: {e}"
    if done.code in (2, 3) and (not document.get("error") or document.get("exit_code") != done.code):
        return "--json does not tell the error"
    return ""


def _line_fault(problems: list[dict], files: tuple[str, ...], text: bytes) -> str:
    for p in problems:
        if p["file"].endswith(files) and p["line"] < 1 and p["key"] and re.split(r"[.\[]", p["key"])[0].encode() in text:
            return f"names the key {p['key']} without its line"
    return ""
