"""Runs an emitted script with recording stand-ins for its launchers, so that bash itself does the expansion."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("torchrun", "deepspeed", "python", "python3", "pdsh", "ssh", "scontrol", "ip", "sbatch", "nvidia-smi")

# Writes its own name, arguments and environment, NUL-separated, and does nothing else.
RECORDER = r"""#!/bin/bash
record=$(mktemp "$CAPTURE_FOLDER/XXXXXX")
printf '%s\0' "${0##*/}" "$@" > "$record.argv"
env -0 > "$record.env"
case "${0##*/}" in
    scontrol) for ((i = 0; i < ${SLURM_NNODES:-1}; i++)); do printf 'node%04d\n' "$i"; done ;;
    ip) echo "10.0.0.1 dev eno1 src 10.0.0.2" ;;
esac
"""
# Records, then runs the command it was given, as one task.
SRUN = (
    RECORDER
    + r"""
while [ "$#" -gt 0 ] && [ "$1" != bash ]; do shift; done
[ "$#" -gt 0 ] || exit 0
export SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=${SLURM_NTASKS:-1}
exec "$@"
"""
)


@dataclass(frozen=True)
class Call:
    """One program that a script ran."""

    program: str
    argv: list[str]
    environment: dict[str, str]


def run(files: Mapping[str, str], script: str, folder: Path, environment: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = ()) -> list[Call]:  # fmt: skip
    """Write `files` under `folder`, run `script` there, and return what it called, in order. Raises on a failing script."""
    work, programs, log = folder / "work", folder / "bin", folder / "log"
    for path in (work, programs, log):
        path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")
    for name in (*PROGRAMS, "srun"):
        target = programs / name
        target.write_text(SRUN if name == "srun" else RECORDER)
        target.chmod(0o755)
    env = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(work),
        "LANG": "C.UTF-8",
        "CAPTURE_FOLDER": str(log),
        **slurm(files[script]),
        **(environment or {}),
    }
    done = subprocess.run(
        ["bash", str(work / script), *arguments], cwd=work, env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise RuntimeError(f"{script} ended with {done.returncode}: {done.stderr[-2000:]}")
    return [_read(p) for p in sorted(log.glob("*.argv"), key=lambda p: p.stat().st_mtime_ns)]


def slurm(text: str) -> dict[str, str]:
    """The variables that sbatch would set for the #SBATCH lines of a script."""
    options = dict(line.split(None, 1)[1].split("=", 1) for line in text.splitlines() if line.startswith("#SBATCH") and "=" in line)
    if "--nodes" not in options:
        return {}
    nodes, tasks = int(options["--nodes"]), int(options.get("--ntasks-per-node", 1))
    return {
        "SLURM_NNODES": str(nodes),
        "SLURM_NTASKS": str(nodes * tasks),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": f"node[0000-{nodes - 1:04d}]",
    }


def _read(path: Path) -> Call:
    program, *argv = path.read_bytes().decode().split("\0")[:-1]
    pairs = path.with_suffix(".env").read_bytes().decode().split("\0")[:-1]
    return Call(program, argv, dict(os_pair.split("=", 1) for os_pair in pairs))


def of_program(calls: list[Call], entry: str) -> tuple[Call, list[str], list[str]]:
    """(the call, what stands before the program file, what stands behind it) of the call that starts `entry`."""
    for call in calls:
        if call.program in ("srun", "pdsh", "ssh"):
            continue
        for i, argument in enumerate(call.argv):
            if os.path.basename(argument) == entry:
                return call, call.argv[:i], call.argv[i + 1 :]
    raise LookupError(f"no call runs {entry}: {[c.program for c in calls]}")
