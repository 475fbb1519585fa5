"""Text output of nccl-tests (and rccl-tests): one collective, a table of sizes and times."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from autotune.errors import InputError

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv")
_RANK = re.compile(r"^#\s*Rank\s+\d+\b.*\bon\s+(\S+)\s+device", re.IGNORECASE)
_NAME = re.compile("|".join(COLLECTIVES))
_HEADER = re.compile(r"^#\s+size\s+count\b")
_WHOLE = re.compile(r"[0-9]{1,15}")
_TIME = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")


class Collective(NamedTuple):
    """One timed size. `nbytes` is what nccl-tests prints: the larger of the send and receive buffer of a rank."""

    name: str
    ranks: int
    ranks_per_node: int
    nbytes: float
    time_s: float


def looks_like_nccl(text: str) -> bool:
    """Whether a text holds an nccl-tests table.

    >>> looks_like_nccl("#       size         count      type   redop    root     time   algbw   busbw")
    True
    """
    return any(_HEADER.match(line) for line in text.splitlines())


def parse_nccl(text: str, file: str = "", least_bytes: float = 1 << 20) -> list[Collective]:
    """Timed sizes of at least `least_bytes` (out-of-place column). InputError when ranks or the collective are unknown.

    The collective comes from the text, else from the file name (`all_reduce_perf.txt`).

    >>> log = '''# Collective test starting: all_reduce_perf
    ... #  Rank  0 Group  0 Pid 1 on node-a device  0 [0x1b] NVIDIA H100
    ... #  Rank  1 Group  0 Pid 2 on node-a device  1 [0x1c] NVIDIA H100
    ... #       size         count      type   redop    root     time   algbw   busbw #wrong
    ... #        (B)    (elements)                               (us)  (GB/s)  (GB/s)
    ...    134217728      33554432     float     sum      -1    380.0  353.20  353.20      0'''
    >>> parse_nccl(log)[0]
    Collective(name='all_reduce', ranks=2, ranks_per_node=2, nbytes=134217728.0, time_s=0.00038)
    """
    hosts = [m.group(1) for line in text.splitlines() if (m := _RANK.match(line))]
    if not hosts:
        raise InputError.of("no '# Rank ... on HOST device ...' lines: the number of ranks and nodes is not known", file)
    found = _NAME.search("\n".join(line for line in text.splitlines() if line.startswith("#"))) or _NAME.search(file.rsplit("/", 1)[-1])
    if not found:
        raise InputError.of(f"the collective is not named; name the file after it, one of {', '.join(COLLECTIVES)}", file)
    if len(hosts) < 2:
        raise InputError.of("shows one rank, which sends nothing; run nccl-tests over two GPUs or more", file)
    per_node = max(Counter(hosts).values())
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        row = _row(line)
        if row is None:
            continue
        nbytes, time_us = row
        if time_us <= 0:
            raise InputError.of(f"time must be positive, got {time_us}", file, number)
        if nbytes >= least_bytes:
            rows.append(Collective(found.group(0), len(hosts), per_node, nbytes, time_us / 1e6))
    if not rows:
        raise InputError.of(f"no sizes of {least_bytes / 2**20:g} MiB or more", file)
    return rows


def _row(line: str) -> tuple[float, float] | None:
    """(bytes, microseconds) of a table line: size count type redop root time ...; `root` is absent in old versions."""
    words = line.split()
    if len(words) < 7 or not _WHOLE.fullmatch(words[0]) or not _WHOLE.fullmatch(words[1]):
        return None
    numbers = [w for w in words[3:] if _TIME.fullmatch(w)]
    if len(numbers) > 3 and numbers[0] in ("-1", "0"):
        numbers = numbers[1:]
    return (float(words[0]), float(numbers[0])) if numbers else None
