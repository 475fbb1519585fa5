"""The syntax tree of a script, and questions asked of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from autotune.reader.bash_expand import Expander


def text_of(node: Any) -> str:
    """The source text of a syntax node."""
    return str(node.text.decode("utf-8", "replace"))


def text_before(node: Any, child: Any) -> str:
    """The text of a node up to one of its children."""
    return str(node.text[: child.start_byte - node.start_byte].decode("utf-8", "replace"))


def parse(text: str) -> Any:
    """The syntax tree of a script."""
    import tree_sitter
    import tree_sitter_bash

    language = tree_sitter.Language(tree_sitter_bash.language())
    return tree_sitter.Parser(language).parse(text.encode("utf-8", "replace")).root_node


def branches(node: Any) -> Iterator[tuple[list[Any] | None, list[Any], int]]:
    """Condition (None for `else`), body and line of each branch of an `if`."""
    clauses = [c for c in node.children if c.type in ("elif_clause", "else_clause")]
    for clause in [node, *clauses]:
        children = [c for c in clause.children if c.type not in ("elif_clause", "else_clause")]
        line = clause.start_point[0] + 1
        if clause.type == "else_clause":
            yield None, children[1:], line
            continue
        then = next((i for i, c in enumerate(children) if c.type == "then"), len(children))
        yield [c for c in children[1:then] if c.is_named], children[then + 1 :], line


def only_stops(body: list[Any]) -> bool:
    """Whether statements do nothing but report and end the script."""
    names = [text_of(c).split()[0] for c in body if c.is_named and c.type != "comment" and text_of(c).split()]
    nested = [n for c in body if c.type == "compound_statement" for n in [only_stops(c.children)]]
    return any(n in ("exit", "return") for n in names) or any(nested)


def braces(word: str, expander: Expander) -> list[str]:
    """A word of a `for` list: `{1..4}` or its fields."""
    match = re.fullmatch(r"\{(-?\d+)\.\.(-?\d+)\}", word)
    if match and abs(int(match[2]) - int(match[1])) <= 2000:
        a, b = int(match[1]), int(match[2])
        return [str(i) for i in (range(a, b + 1) if a <= b else range(a, b - 1, -1))]
    return expander.fields(word)
