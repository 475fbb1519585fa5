"""One damaged input by kind and number: the same number always gives the same bytes and the same command.

To repeat a reported input: `python -c "from fuzz_bulk import replay; replay('script', 17)"` in this folder.
"""

from __future__ import annotations

import contextlib
import random
import re
import tempfile
from pathlib import Path

from fuzz_corpus import KINDS, Seed, scripts_copy
from fuzz_drive import Outcome, fault, run
from fuzz_mutate import damage, damage_values

_NAMES = re.compile(r"[\w.-]+\.(?:json|ya?ml|toml)\b", re.ASCII)


def damaged(kind: str, number: int) -> tuple[random.Random, Seed, bytes]:
    """The generator after the damage, the good file, and its damaged bytes."""
    rng = random.Random(f"{kind} {number}")
    seeds = KINDS[kind].seeds()
    seed = seeds[rng.randrange(len(seeds))]
    change = damage_values if KINDS[kind].values and rng.random() < 0.5 else damage
    return rng, seed, change(rng, seed.data)


def attempt(kind: str, number: int, folder: Path) -> tuple[list[str], Outcome, str]:
    """Writes the damaged file below `folder`, runs its command; the command, how it ended, and what is wrong ('' = nothing)."""
    rng, seed, data = damaged(kind, number)
    if kind in ("script", "companion"):
        folder = scripts_copy(folder)
    path = folder / seed.name
    before = path.read_bytes() if path.exists() else None
    path.write_bytes(data)
    options = list(seed.options)
    target = folder / options.pop(0) if kind == "companion" else path
    args = [*KINDS[kind].command(rng, target, folder), *options]
    try:
        done = run(args)
    finally:
        if kind == "companion" and before is not None:
            path.write_bytes(before)
    # A damaged configuration may turn up as what its script then lacks, and a damaged script as a fault in what it names or writes.
    files = {target.name, path.name}
    if kind in ("script", "companion"):
        files |= {*_NAMES.findall(data.decode("utf-8", "replace")), *(p.name for p in target.parent.rglob("*.*"))}
    return args, done, fault(args, done, tuple(files), data if KINDS[kind].lined else b"")


def faults(kind: str, numbers: range, folder: Path, most: int = 5) -> tuple[int, list[str]]:
    """How many inputs were tried, and a description of the first `most` that went wrong."""
    found: list[str] = []
    tried = 0
    for number in numbers:
        args, done, reason = attempt(kind, number, folder)
        tried += 1
        if reason:
            found.append(f"{kind} {number}: {reason}\n  autotune {' '.join(args)}\n  {done.err.strip()[-600:]}\n  {damaged(kind, number)[2][:300]!r}")
        if len(found) >= most:
            break
    return tried, found


def replay(kind: str, number: int) -> None:
    """Runs one input and shows everything."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        args, done, reason = attempt(kind, number, folder)
        print(damaged(kind, number)[2].decode("utf-8", "backslashreplace"))
        print("autotune", *args, f"\ncode {done.code}, {done.cpu_s:.2f} s CPU, fault: {reason or 'none'}\n{done.out[-3000:]}\n{done.err[-3000:]}")
