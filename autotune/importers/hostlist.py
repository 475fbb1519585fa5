"""Slurm host lists: `node[001-004,7],login` and back to single names."""

from __future__ import annotations

import re

from autotune.errors import InputError

MOST_HOSTS = 131_072
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([0-9]+))?)?\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]*\Z")


def expand(text: str, file: str = "", line: int = 0, key: str = "") -> list[str]:
    """Every host of a list, in order, leading zeros kept. InputError when it is malformed or longer than 131,072 hosts.

    >>> expand("node[001-003,7],login")
    ['node001', 'node002', 'node003', 'node7', 'login']
    >>> expand("r[1-2]n[01-02]")
    ['r1n01', 'r1n02', 'r2n01', 'r2n02']
    """

    def wrong(message: str) -> InputError:
        return InputError.of(f"{message} in the host list '{_short(text)}'", file=file, line=line, key=key)

    hosts: list[str] = []
    for part in _split(text, wrong):
        hosts += _expand_one(part, wrong, MOST_HOSTS - len(hosts))
    if not hosts:
        raise wrong("no host")
    return list(dict.fromkeys(hosts))


def _split(text: str, wrong) -> list[str]:  # type: ignore[no-untyped-def]
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c == "[":
            depth += 1
            if depth > 1:
                raise wrong("a bracket inside a bracket")
        elif c == "]":
            depth -= 1
            if depth < 0:
                raise wrong("a closing bracket too many")
        elif c in ", \t\n" and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    if depth:
        raise wrong("a bracket that is not closed")
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def _expand_one(part: str, wrong, most: int) -> list[str]:  # type: ignore[no-untyped-def]
    names = [""]
    for i, piece in enumerate(re.split(r"[\[\]]", part)):
        if i % 2 == 0:
            if not _PLAIN.match(piece):
                raise wrong(f"'{_short(piece)}' is not a host name")
            names = [n + piece for n in names]
            continue
        numbers = _numbers(piece, wrong, most)
        if len(names) * len(numbers) > most:
            raise wrong(f"more than {MOST_HOSTS} hosts")
        names = [n + number for n in names for number in numbers]
    if len(names) > most:
        raise wrong(f"more than {MOST_HOSTS} hosts")
    return names


def _numbers(piece: str, wrong, most: int) -> list[str]:  # type: ignore[no-untyped-def]
    numbers: list[str] = []
    for item in piece.split(","):
        match = _RANGE.match(item.strip())
        if not match or len(item) > 60:
            raise wrong(f"'{_short(item)}' is not a number or a range")
        low, high, step = match[1], match[2] or match[1], int(match[3] or 1)
        first, last = int(low), int(high)
        if last < first:
            raise wrong(f"the range '{_short(item)}' runs backwards")
        if step < 1 or (last - first) // step + 1 + len(numbers) > most:
            raise wrong(f"more than {MOST_HOSTS} hosts" if step else "a step of 0")
        numbers += [str(n).zfill(len(low)) for n in range(first, last + 1, step)]
    return numbers


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
