"""Typed access to the keys of a configuration, under any of their names, collecting what is wrong."""

from __future__ import annotations

from typing import Any

from autotune.errors import InputError, Problem

LARGEST = 10**12


class Reader:
    """Looks keys up in a mapping (and, failing that, in the mapping around it).

    Problems are collected; `fail_if_problems` raises them together. `notes` gathers what had to be assumed.

    >>> r = Reader({"n_embd": 768, "bias": False})
    >>> r.integer("hidden_size", "n_embd"), r.flag("bias", True), r.integer("n_inner", default=3072)
    (768, False, 3072)
    """

    def __init__(self, data: dict[str, Any], file: str = "", around: dict[str, Any] | None = None, prefix: str = "") -> None:
        self.data = data
        self.file = file
        self.around = around or {}
        self.prefix = prefix
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def raw(self, *names: str) -> Any:
        """The value of the first name that is present and not null; None when none is."""
        for source in (self.data, self.around):
            for name in names:
                if source.get(name) is not None:
                    return source[name]
        return None

    def has(self, *names: str) -> bool:
        """Is one of the names present and not null?"""
        return self.raw(*names) is not None

    def problem(self, message: str, key: str) -> None:
        """Note something wrong with a key."""
        self.problems.append(Problem(message, self.file, 0, self.prefix + key))

    def integer(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number; a missing one without a default is a problem."""
        value = uniform(self.raw(*names))
        if value is None:
            if default is None:
                self.problem(f"missing (also looked for {', '.join(names[1:])})" if names[1:] else "missing", names[0])
                return least
            return default
        key = next(n for n in names if n in self.data or n in self.around)
        if isinstance(value, float) and value.is_integer() and abs(value) < LARGEST:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.problem(f"must be a whole number, got {_short(value)}", key)
        elif not least <= value <= LARGEST:
            self.problem(f"must be between {least} and {LARGEST}, got {_short(value)}", key)
        else:
            return value
        return max(least, default or least)

    def optional(self, *names: str) -> int | None:
        """A whole number of at least 1, or None when the key is missing, null or 0."""
        value = self.raw(*names)
        if value is None or value is False or (value == 0 and not isinstance(value, bool)):
            return None
        return self.integer(*names)

    def flag(self, name: str, default: bool) -> bool:
        """A true/false key."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        self.problem(f"must be true or false, got {_short(value)}", name)
        return default

    def text(self, *names: str) -> str:
        """A string key, or the empty string."""
        value = self.raw(*names)
        return value if isinstance(value, str) else ""

    def mapping(self, name: str) -> dict[str, Any]:
        """A nested mapping, or an empty one."""
        value = self.raw(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problem(f"must be a mapping, got {_short(value)}", name)
            return {}
        return value

    def inner(self, name: str) -> Reader:
        """A reader of a nested mapping that reports into this one."""
        reader = Reader(self.mapping(name), self.file, prefix=f"{self.prefix}{name}.")
        reader.problems, reader.notes = self.problems, self.notes
        return reader

    def refuse(self, reason: str, key: str = "") -> InputError:
        """The error that says what cannot be priced."""
        return InputError.of(f"this model cannot be priced: {reason}", file=self.file, key=self.prefix + key if key else "")

    def fail_if_problems(self) -> None:
        """Raise every problem found so far."""
        if self.problems:
            raise InputError(self.problems)


def uniform(value: Any) -> Any:
    """A list of one repeated number (one entry per layer) as that number; anything else unchanged.

    >>> uniform([8, 8, 8]), uniform([8, 4])
    (8, [8, 4])
    """
    same = isinstance(value, list) and len(value) > 1 and all(type(v) is int and v == value[0] for v in value)
    return value[0] if same else value


def _short(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a number with more than 60 digits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
