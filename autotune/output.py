"""Where output goes: results on stdout, everything else on stderr.

`--json` prints exactly one JSON document on stdout. Progress, warnings and notes go to stderr. `NO_COLOR` and
non-terminals are honoured (rich does both).
"""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

from autotune.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_verbosity = 0


def set_verbosity(level: int) -> None:
    """-1 quiet, 0 normal, 1 verbose, 2 debug."""
    global _verbosity
    _verbosity = level


def verbosity() -> int:
    """The level set on the command line."""
    return _verbosity


def note(text: str) -> None:
    """A line for the user on stderr; silent under `-q`."""
    if _verbosity >= 0:
        print(printable(text), file=sys.stderr)


def warn(text: str) -> None:
    """A warning on stderr, always shown."""
    print(f"warning: {printable(text)}", file=sys.stderr)


def jsonable(value: Any) -> Any:
    """Plain JSON values: numpy scalars and arrays unwrapped, NaN and infinities as null.

    >>> jsonable({"a": float("nan"), "b": (1, 2.5)})
    {'a': None, 'b': [1, 2.5]}
    """
    if isinstance(value, dict):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [jsonable(v) for v in value]
    if hasattr(value, "tolist"):
        return jsonable(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return str(value)


def print_json(document: Any) -> None:
    """Write the one JSON document of this run to stdout."""
    text = json.dumps(jsonable(document), indent=1, ensure_ascii=False)
    sys.stdout.write(printable(text) + "\n")  # in JSON the escapes mean the characters they stand for


def console(stderr: bool = False) -> Console:
    """A rich console; imported here so that start-up stays fast."""
    from rich.console import Console

    width = None if (sys.stderr if stderr else sys.stdout).isatty() else 220
    # Names come from files: a `[/]` or `:smile:` in one is text.
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


def table(title: str, columns: list[str], rows: list[list[Any]], right: set[int] | None = None) -> Table:
    """A rich table from plain values; `right` names the right-aligned columns."""
    from rich.table import Table

    result = Table(title=printable(title) or None, title_justify="left", show_edge=False, pad_edge=False)
    for i, column in enumerate(columns):
        result.add_column(column, justify="right" if right and i in right else "left", no_wrap=i == 0)
    for row in rows:
        result.add_row(*[printable(str(cell)) for cell in row])
    return result
