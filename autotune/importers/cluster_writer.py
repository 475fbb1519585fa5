"""A draft as the text of a cluster file: one key per line, with a comment that says where the value comes from."""

from __future__ import annotations

import json
import re
from typing import Any

from autotune.importers.assemble import Draft, Line

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\Z")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def render(draft: Draft, sources: list[str]) -> str:
    """YAML text; `autotune.load.load_cluster` accepts it.

    >>> draft = Draft()
    >>> draft.add("name", "c1", "given")
    >>> draft.add("hb_domain.size", 8, "seen")
    >>> print(render(draft, ["topo.txt"]), end="")
    # Written by 'autotune cluster import' from topo.txt. Lines marked (!) were assumed: check them.
    name: c1  # given
    hb_domain:
      size: 8  # seen
    """
    head = f"# Written by 'autotune cluster import' from {_comment(', '.join(sources)) or 'options'}."
    rows = [head + " Lines marked (!) were assumed: check them."]
    rows += [f"# Note: {_comment(note)}" for note in draft.notes]
    rows += [f"# Not known: {_comment(text)}" for text in draft.unknown]
    section = ""
    for line in sorted(draft.lines, key=lambda item: _order(item, draft)):
        parent, _, key = line.key.rpartition(".")
        if parent and parent != section:
            rows.append(f"{parent}:")
        section = parent
        mark = "(!) " if line.assumed else ""
        rows.append(f"{'  ' if parent else ''}{key}: {value(line.value)}  # {mark}{_comment(line.why)}")
    return "\n".join(rows) + "\n"


def _order(line: Line, draft: Draft) -> tuple[int, int]:
    """Keep the order of first appearance, with the keys of one section together."""
    section = line.key.rpartition(".")[0]
    first = next(i for i, other in enumerate(draft.lines) if (other.key.rpartition(".")[0] or other.key) == (section or line.key))
    return first, draft.lines.index(line)


def value(item: Any) -> str:
    """One YAML 1.2 value on one line.

    >>> value("aws-p5"), value(3.5), value(["a", "n 1"]), value("no"), value(400.0)
    ('aws-p5', '3.5', '[a, "n 1"]', '"no"', '400')
    """
    if isinstance(item, list):
        return f"[{', '.join(value(i) for i in item)}]"
    if isinstance(item, bool):
        return str(item).lower()
    if isinstance(item, float):
        return str(int(item)) if item.is_integer() else repr(item)
    if isinstance(item, int):
        return str(item)
    text = str(item)
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text)


def _comment(text: str) -> str:
    """One line without control characters."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]+", " ", text)[:1500]
