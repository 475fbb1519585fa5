"""Command-line flags of a training program as a table, with typed access that asks for what is unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from autotune.reader import bash_words as w
from autotune.reader.recovered import Recovered

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off", "none", "null"}


class Flags:
    """Flags by name (`-` written as `_`), each with its list of values; a bare flag has none. The last one wins.

    >>> f = Flags.parse(["--num-layers=32", "--fp16", "--rampup-batch-size", "16", "16", "9_765_625"])
    >>> f.values("num_layers"), f.has("fp16"), f.values("rampup_batch_size")
    (['32'], True, ['16', '16', '9_765_625'])
    """

    def __init__(self, table: dict[str, list[str]] | None = None, positional: list[str] | None = None) -> None:
        self.table = table or {}
        self.positional = positional or []
        self.odd: list[str] = []

    @classmethod
    def parse(cls, words: Iterable[str]) -> Flags:
        """The flags among a program's arguments."""
        flags = cls()
        current: list[str] | None = None
        for word in words:
            if word.startswith("--") and len(word) > 2:
                name, equals, value = word[2:].partition("=")
                if " " in name:
                    flags.odd.append(word)
                name = name.split(" ")[0].replace("-", "_")
                current = []
                flags.table[name] = current
                if equals:
                    current.append(value)
                    current = None
            elif current is not None and not (re.match(r"-[A-Za-z]", word) and w.is_known(word)):
                current.append(word)
            elif not w.only_marker(word):
                flags.positional.append(word)
                current = None
        return flags

    @classmethod
    def of(cls, mapping: dict[str, Any]) -> Flags:
        """Flags from a mapping of plain values (YAML, overrides); null leaves a flag out."""
        table = {}
        for key, value in mapping.items():
            if value is None or isinstance(value, dict):
                continue
            values = [str(v) for v in value] if isinstance(value, list) else [str(value)]
            table[str(key).lstrip("-").replace("-", "_")] = values
        return cls(table)

    def has(self, *names: str) -> bool:
        """Whether one of these is given at all."""
        return any(n in self.table for n in names)

    def values(self, name: str) -> list[str]:
        """The values of a flag."""
        return self.table.get(name, [])

    def on(self, *names: str) -> bool:
        """Whether a switch is set: bare, or with a true value."""
        for name in names:
            if name in self.table:
                text = (w.plain(self.table[name][0]) or "").strip().lower() if self.table[name] else ""
                if text not in _FALSE or text == "":
                    return True
        return False

    def text(self, *names: str) -> str | None:
        """The first value of the first of these flags that has a known one."""
        for name in names:
            known = [v for v in self.values(name) if w.is_known(v)]
            if known and known[0].lower() not in ("none", "null", ""):
                return known[0].strip("'\"")
        return None

    def number(self, found: Recovered, *names: str, wanted: bool = True) -> int | None:
        """The integer of the first of these flags that is given. A value that depends on an unset name is asked for."""
        for name in names:
            if name not in self.table:
                continue
            values = self.table[name]
            text = values[0] if values else ""
            missing = w.names_missing(text)
            if missing:
                if wanted:
                    for unknown in missing:
                        found.need(unknown, f"--{name.replace('_', '-')}")
                return None
            parsed = integer(text)
            if parsed is not None:
                return parsed
        return None


def integer(text: Any) -> int | None:
    """An integer as scripts write it, None if it is not one.

    >>> integer("9_765_625"), integer("1e3"), integer("4.5"), integer("x")
    (9765625, 1000, None, None)
    """
    if isinstance(text, bool) or text is None:
        return None
    if isinstance(text, int):
        return text
    plain = str(text).strip().strip("'\"").replace("_", "")
    if re.fullmatch(r"[-+]?\d{1,15}", plain):
        return int(plain)
    if re.fullmatch(r"[-+]?\d+(\.\d*)?([eE][-+]?\d{1,2})?", plain):
        number = float(plain)
        return int(number) if number.is_integer() else None
    return None
