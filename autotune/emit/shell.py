"""Text that is safe to put into shell scripts, comments and job names.

Everything that comes from a user's file passes through here: values are quoted for the shell, comments lose line breaks,
names that schedulers restrict are cut down to the letters those allow.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable


class Raw(str):
    """A shell word that is already quoted, such as `"$MASTER_ADDR"`. Never built from a user's input."""


def word(value: str | int | float) -> str:
    """One shell word.

    >>> word("a b"), word(4), word(Raw('"$X"'))
    ("'a b'", '4', '"$X"')
    """
    return value if isinstance(value, Raw) else shlex.quote(str(value))


def array(name: str, rows: Iterable[Iterable[str | int | float]]) -> str:
    """A bash array, one row of words per line.

    >>> print(array("ARGS", [("--lr", 0.1), ("--name", "a b")]))
    ARGS=(
        --lr 0.1
        --name 'a b'
    )
    """
    lines = ["    " + " ".join(word(w) for w in row) for row in rows]
    return "\n".join([f"{name}=(", *lines, ")"])


def comment(text: object) -> str:
    """Text for one comment line: no line breaks, no control characters.

    >>> comment("a\\nrm -rf /")
    'a rm -rf /'
    """
    clean = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs") else c for c in str(text))
    return " ".join(clean.split())[:200]


def job_name(text: str, limit: int = 48) -> str:
    """A name every scheduler takes: letters, digits, dots and hyphens, lower case, starting with a letter.

    >>> job_name("GPT 175B; rm -rf /"), job_name("$()")
    ('gpt-175b-rm-rf', 'job')
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not name:
        return "job"
    if not name[0].isalpha():
        name = "job-" + name
    return name[:limit].rstrip("-")
