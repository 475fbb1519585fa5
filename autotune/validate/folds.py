"""Splits for honest fitting: whole choice groups, whole systems, or whole cells stay together."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Sequence

from autotune.validate.rows import Row

Split = tuple[list[int], list[int]]  # training and test positions


def grouped_folds(rows: Sequence[Row], key: Callable[[Row], Hashable], folds: int = 5, seed: int = 0) -> list[Split]:
    """Split into `folds` parts made of whole groups, about equal in rows; the seed shuffles the groups.

    >>> rows = [Row(str(i), model_name=str(i // 2)) for i in range(10)]
    >>> splits = grouped_folds(rows, lambda r: r.model_name)
    >>> sorted(i for _, test in splits for i in test) == list(range(10))
    True
    """
    groups: dict[Hashable, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(key(row), []).append(i)
    parts = list(groups.values())
    random.Random(seed).shuffle(parts)
    buckets: list[list[int]] = [[] for _ in range(min(folds, len(parts)))]
    for part in parts:
        min(buckets, key=len).extend(part)
    return [_split(len(rows), bucket) for bucket in buckets]


def leave_one_out(rows: Sequence[Row], key: Callable[[Row], Hashable]) -> Iterator[tuple[Hashable, Split]]:
    """One split per value of `key`, that value held out."""
    for value in dict.fromkeys(key(row) for row in rows):
        yield value, _split(len(rows), [i for i, row in enumerate(rows) if key(row) == value])


def choice_group(row: Row) -> Hashable:
    """Key of `grouped_folds`: alternatives for one job stay together."""
    return row.choice_key


def system(row: Row) -> Hashable:
    """Key: the machine."""
    return row.system_group


def cell(row: Row) -> Hashable:
    """Key: one profiled piece of the single-node set composed from a profile (hidden, micro-batch, tensor degree)."""
    return (row.hidden, row.micro_batch, row.tp)


def _split(n: int, test: list[int]) -> Split:
    held = set(test)
    return [i for i in range(n) if i not in held], sorted(test)
