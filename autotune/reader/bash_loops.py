"""Loops of a script: `for`, `for ((;;))`, `while` and `until`, each with a bound on its rounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from autotune.reader import bash_words as w
from autotune.reader.bash_syntax import braces, text_before, text_of
from autotune.reader.bash_test import Answer

if TYPE_CHECKING:
    from autotune.reader.bash_eval import Interpreter

MAX_ROUNDS = 2000


class Leave(Exception):
    """`return`, `break` and `continue`."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def run(shell: Interpreter, rounds: Iterator[Any], body: Any) -> Answer:
    """Follow the body once per round; `break` and `continue` act here."""
    for _ in rounds:
        try:
            shell.statement(body)
        except Leave as e:
            if e.kind == "break":
                break
            if e.kind == "return":
                raise
    return True


def for_words(shell: Interpreter, node: Any) -> Answer:
    """`for NAME in WORDS`."""
    body = next((c for c in node.children if c.type in ("do_group", "compound_statement")), None)
    name = next((text_of(c) for c in node.children if c.type == "variable_name"), "")
    if body is None or not name:
        return True
    head = text_before(node, body)
    match = re.match(r"(?:for|select)\s+\w+\s+in\b(.*)", head, re.DOTALL)
    raw = w.split_words(match[1].strip().rstrip(";")) if match else ['"$@"']
    values = [v for word in raw for v in braces(word, shell.expander)]

    def rounds() -> Iterator[None]:
        for value in values[:MAX_ROUNDS]:
            shell.scope.set(name, value)
            yield None

    return run(shell, rounds(), body)


def for_counter(shell: Interpreter, node: Any) -> Answer:
    """`for ((start; test; step))`; an unknown bound ends it."""
    body = next((c for c in node.children if c.type in ("do_group", "compound_statement")), None)
    match = re.match(r"for\s*\(\((.*?);(.*?);(.*?)\)\)", text_of(node), re.DOTALL)
    if body is None or not match:
        return True

    def rounds() -> Iterator[None]:
        shell.expander.arithmetic(match[1])
        for _ in range(MAX_ROUNDS):
            if w.plain(shell.expander.arithmetic(match[2])) in (None, "0"):
                return
            yield None
            shell.expander.arithmetic(match[3])

    return run(shell, rounds(), body)


def while_condition(shell: Interpreter, node: Any) -> Answer:
    """`while` and `until`; an unknown condition ends them."""
    body = next((c for c in node.children if c.type == "do_group"), None)
    if body is None:
        return True
    condition = [c for c in node.children if c.is_named and c is not body and c.end_byte <= body.start_byte]
    wanted = node.children[0].type != "until"

    def rounds() -> Iterator[None]:
        for _ in range(MAX_ROUNDS):
            if shell.statements(condition) is not wanted:
                return
            yield None

    return run(shell, rounds(), body)
