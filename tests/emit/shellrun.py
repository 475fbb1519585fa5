"""Runs an emitted script under bash with stand-in launchers that only record what they were given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

STAND_IN = r"""#!/bin/bash
for a in "${0##*/}" "$@"; do printf '%s\0' "$a"; done > "$RECORD/${0##*/}.argv"
env -0 > "$RECORD/${0##*/}.env"
[ "${0##*/}" = scontrol ] && echo node0
[ "${0##*/}" = ip ] && echo "default via 10.0.0.1 dev eno7"
exit 0
"""
SRUN = STAND_IN.replace("exit 0\n", 'while [ "$1" != bash ]; do shift; done\nSLURM_PROCID=9 SLURM_LOCALID=1 exec "$@"\n')


def run(files: dict[str, str], script: str, folder: Path, *arguments: str, **environment: str) -> dict[str, list[str]]:
    """Program -> its arguments, for each stand-in that was called. The environment of a program is in `environment_of`."""
    work, programs, record = folder / "work dir", folder / "bin", folder / "record"
    for path in (work, programs, record):
        path.mkdir(exist_ok=True)
    for name, text in files.items():
        (work / name).write_text(text)
    for name in ("torchrun", "deepspeed", "python", "pdsh", "scontrol", "ip", "srun"):
        (programs / name).write_text(SRUN if name == "srun" else STAND_IN)
        (programs / name).chmod(0o755)
    env = {"PATH": f"{programs}:/usr/bin:/bin", "RECORD": str(record), "HOME": str(folder), "LC_ALL": "C.UTF-8", **environment}
    done = subprocess.run(["bash", str(work / script), *arguments], cwd=work, env=env, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return {p.stem: p.read_bytes().decode().split("\0")[1:-1] for p in record.glob("*.argv")}


def environment_of(program: str, folder: Path) -> dict[str, str]:
    """The environment a stand-in was called with."""
    text = (folder / "record" / f"{program}.env").read_bytes().decode()
    return dict(pair.split("=", 1) for pair in text.split("\0")[:-1])


def value(argv: list[str], option: str) -> str:
    """The word behind an option."""
    return argv[argv.index(option) + 1]


def bash_accepts(text: str) -> bool:
    """`bash -n`."""
    return subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, env=os.environ).returncode == 0
