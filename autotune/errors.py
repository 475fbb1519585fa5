"""Errors that reach the user, each with its exit code.

0 done, 2 bad input or usage, 3 nothing feasible, 4 a requested check failed, 130 interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

# What a terminal obeys or cannot show: control characters but tab and newline, text direction, lone surrogates.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text with what a terminal would obey written as escapes: a message may quote any file.

    >>> printable("a\x1b[2Jb\n")
    'a\\u001b[2Jb\n'
    """
    return _CONTROL.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


class AutotuneError(Exception):
    """Base class: a message for the user, an exit code, and details for `--json`."""

    exit_code = 1

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


@dataclass(frozen=True)
class Problem:
    """One thing wrong with an input.

    >>> str(Problem("must be at least 1, got -8", file="c.yaml", line=3, key="gpus"))
    'must be at least 1, got -8 at c.yaml:3, gpus'
    """

    message: str
    file: str = ""
    line: int = 0
    key: str = ""

    def __post_init__(self) -> None:
        for name in ("message", "file", "key"):
            object.__setattr__(self, name, printable(getattr(self, name)))

    def __str__(self) -> str:
        where = ":".join(filter(None, [self.file, str(self.line) if self.line else ""]))
        place = ", ".join(filter(None, [where, self.key]))
        return f"{self.message} at {place}" if place else self.message


class InputError(AutotuneError):
    """Bad input: every problem found, reported together. Exit code 2.

    >>> InputError.of("no such file", file="x.yaml").exit_code
    2
    """

    exit_code = 2

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(p) for p in problems), problems=[vars(p) for p in problems])
        self.problems = problems

    def place(self, file: str, line_of: Callable[[str], int]) -> None:
        """Give problems that name no file this one. A message that is more than its problems is kept, behind the file's name."""
        plain = self.message == "\n".join(map(str, self.problems))
        lost = [p for p in self.problems if not p.file and not p.key.startswith("-")]
        self.problems = [replace(p, file=file, line=p.line or line_of(p.key)) if p in lost else p for p in self.problems]
        self.details["problems"] = [vars(p) for p in self.problems]
        if plain:
            self.message = "\n".join(map(str, self.problems))
        elif lost:
            self.message = f"{file}: {self.message}"
        self.args = (self.message,)

    @classmethod
    def of(cls, message: str, file: str = "", line: int = 0, key: str = "") -> InputError:
        """An error with a single problem."""
        return cls([Problem(message, file, line, key)])


@contextmanager
def about(file: str, line_of: Callable[[str], int] = lambda key: 0) -> Iterator[None]:
    """Input errors inside that name no place get this file as theirs, and the line that `line_of` knows for their key.

    Errors of an option (their key starts with `-`) stay as they are.

    >>> with about("plan.yaml"):
    ...     raise InputError.of("holds 16 layers")
    Traceback (most recent call last):
    autotune.errors.InputError: holds 16 layers at plan.yaml
    """
    try:
        yield
    except InputError as e:
        e.place(file, line_of)
        raise


class InfeasibleError(AutotuneError):
    """No plan is legal and fits. Carries reject counts, the closest miss, and the smallest change. Exit code 3."""

    exit_code = 3


class CheckFailed(AutotuneError):
    """A requested check (`check`, `validate --max-...`) did not hold. Exit code 4."""

    exit_code = 4


def did_you_mean(name: str, known: list[str]) -> str:
    """A suggestion for a mistyped name, or the empty string.

    >>> did_you_mean("gpuz", ["gpus", "name"])
    " (did you mean 'gpus'?)"
    >>> did_you_mean("qqqq", ["gpus"])
    ''
    """
    import difflib

    close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""
