"""Follows a bash script without running it: statements, branches, loops, functions.

The syntax tree comes from tree-sitter. No process is started, no network or device is touched and nothing is written:
commands are either imitated (`echo`, `read`, `dirname`, ... see `bash_commands`) or recorded as launches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.reader import bash_loops, directives
from autotune.reader import bash_words as w
from autotune.reader.bash_expand import Expander, Scope, TooLarge, Value
from autotune.reader.bash_loops import Leave
from autotune.reader.bash_syntax import branches, only_stops, parse, text_before, text_of
from autotune.reader.bash_test import Answer, Condition, both, either, negate
from autotune.reader.companions import Companions

MAX_STEPS = 60_000
MAX_DEPTH = 12
MAX_MARKS = 5000  # closing parentheses and redirections: the parser needs time in the square of their number
_PLACEHOLDER = re.compile(r"(?<==)<(?=[A-Za-z])([^<>\n;|&$()]*)>(?=\s*$)", re.MULTILINE)


class Stop(Exception):
    """`exit`: the script, or the file it sources, ends here."""


@dataclass
class Launch:
    """A command that starts something: its words, the launchers around it, and the variables at that point."""

    words: list[str]
    outer: list[list[str]]
    variables: dict[str, str]
    counts: dict[str, int]
    line: int


@dataclass
class Input:
    """Text on standard input, consumed line by line by `read`."""

    text: str
    at: int = 0

    def line(self) -> str | None:
        """The next line, None at the end."""
        if self.at >= len(self.text):
            return None
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        line, self.at = self.text[self.at : end], end + 1
        return line


@dataclass
class State:
    """What a walk through a script has found."""

    launches: list[Launch] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    stopped: str = ""
    steps: int = 0


class Interpreter:
    """One walk through a script. `settings` are variables the user supplies; they win over the script's own."""

    def __init__(self, path: Path | None, settings: dict[str, str], arguments: list[str], ignore_exit: bool = False) -> None:
        from autotune.reader.bash_commands import Commands

        self.scope = Scope(dict(settings), set(settings), list(arguments), str(path or "script.sh"))
        self.scope.values.setdefault("BASH_VERSION", "5.2.0")
        self.cwd = str(path.resolve().parent) if path else "."
        self.scope.values.setdefault("PWD", self.cwd)
        self.expander = Expander(self.scope, self.substitute)
        self.files = Companions(path)
        self.state = State()
        self.counts: dict[str, int] = {}
        self.outer: list[list[str]] = []
        self.captures: list[list[str]] = []
        self.stdin: Input | None = None
        self.functions: dict[str, Any] = {}
        self.ignore_exit = ignore_exit
        self.line_offset = 0
        self._depth = 0
        self._commands = Commands(self)

    # --- entry points ---

    def run(self, text: str) -> State:
        """Follow a whole script."""
        try:
            self.run_text(text)
        except (Stop, Leave):
            pass
        except (TooLarge, RecursionError):
            self.note("the script grows without bound and was followed only in part")
        return self.state

    def run_text(self, text: str) -> Answer:
        """Follow a text in the present scope (`eval`, `source`, `bash -c`)."""
        if self._depth >= MAX_DEPTH:
            raise TooLarge("nesting")
        if any(text.count(mark) > MAX_MARKS for mark in ")<"):
            raise TooLarge("marks")
        for key, count in directives.from_text(text).items():
            self.counts[key] = count
        for name, value in directives.slurm_variables(self.counts).items():
            if name not in self.scope.forced:
                self.scope.values[name] = value
        fixed = _PLACEHOLDER.sub(lambda m: "'<" + m[1].replace("'", "") + ">'", text)
        if fixed != text:
            self.note("an unquoted <placeholder> is a redirection to bash; it was read as text")
        self._depth += 1
        try:
            return self.statements(parse(fixed).children)
        finally:
            self._depth -= 1

    def note(self, text: str) -> None:
        """Remember something the user should know."""
        self.state.notes.setdefault(w.readable(text))

    def substitute(self, text: str) -> str:
        """The output of `$(text)`, a marker where only the machine could tell."""
        if re.search(r"nvidia-smi|rocm-smi|amd-smi|device_count|list-gpus|rocminfo", text):
            given = self.scope.get("GPUS_PER_NODE")
            usable = isinstance(given, str) and w.is_known(given) and given.strip().isdigit()
            return str(given) if usable else w.unknown("GPUS_PER_NODE")
        if "scontrol" in text and re.search(r"\bwc\b", text):
            return self.scope.text("SLURM_NNODES")
        saved = self.fork()
        self.captures.append([])
        try:
            self.run_text(text)
        except (Stop, Leave):
            pass
        finally:
            out = "".join(self.captures.pop())
            self.join(saved)
        if len(out) > 500_000:
            raise TooLarge("output")
        return out.rstrip("\n")

    def fork(self) -> tuple[dict[str, Value], list[str], str, Input | None]:
        """Keep the variables, as a subshell does."""
        copy: dict[str, Value] = {k: v if isinstance(v, str) else v.copy() for k, v in self.scope.values.items()}
        return copy, list(self.scope.positional), self.cwd, self.stdin

    def join(self, saved: tuple[dict[str, Value], list[str], str, Input | None]) -> None:
        """Restore what `fork` kept."""
        self.scope.values, self.scope.positional, self.cwd, self.stdin = saved

    def emit(self, text: str) -> None:
        """Standard output: kept only where something reads it."""
        if self.captures:
            self.captures[-1].append(text)

    # --- statements ---

    def statements(self, nodes: list[Any]) -> Answer:
        """Follow statements in order; the answer is that of the last."""
        answer: Answer = True
        for node in nodes:
            if node.is_named and node.type != "comment":
                answer = self.statement(node)
        return answer

    def statement(self, node: Any) -> Answer:
        """Follow one statement."""
        self.state.steps += 1
        if self.state.steps > MAX_STEPS:
            raise TooLarge("steps")
        handler = getattr(self, "_" + node.type, None)
        if handler is not None:
            result: Answer = handler(node)
            return result
        if node.type in ("ERROR", "subshell", "do_group", "compound_statement", "program"):
            return self.statements(node.children)
        return True

    def _subshell(self, node: Any) -> Answer:
        saved = self.fork()
        try:
            return self.statements(node.children)
        except Stop:
            return True
        finally:
            self.join(saved)

    def _compound_statement(self, node: Any) -> Answer:
        text = text_of(node)
        if text.startswith("(("):
            value = w.plain(self.expander.arithmetic(text[2:-2]))
            return None if value is None else value != "0"
        return self.statements(node.children)

    def _list(self, node: Any) -> Answer:
        left, operator, right = node.children[0], node.children[1].type, node.children[-1]
        first = self.statement(left)
        if operator == "&&":
            return False if first is False else both(first, self.statement(right))
        if operator == "||":
            return True if first is True else either(first, self._unless_stop(right, first))
        return self.statement(right)

    def _unless_stop(self, node: Any, first: Answer) -> Answer:
        return None if first is None and only_stops([node]) else self.statement(node)

    def _negated_command(self, node: Any) -> Answer:
        return negate(self.statements(node.children))

    def _test_command(self, node: Any) -> Answer:
        text = text_of(node)
        if text.startswith("(("):
            value = w.plain(self.expander.arithmetic(text[2:-2]))
            return None if value is None else value != "0"
        double = text.startswith("[[")
        return Condition(self.expander, double).answer(text[2:-2] if double else text[1:-1])

    def _variable_assignment(self, node: Any) -> Answer:
        self.assign(text_of(node))
        return True

    def _variable_assignments(self, node: Any) -> Answer:
        return self.statements(node.children)

    def assign(self, text: str, associative: bool = False) -> str:
        """`NAME=value`, `NAME+=value`, `NAME=(...)`, `NAME[i]=value`; returns the name."""
        match = re.match(r"([A-Za-z_]\w*)(?:\[(.*?)\])?(\+?=)", text, re.DOTALL)
        if not match:
            return ""
        name, subscript, operator = match.groups()
        raw = text[match.end() :]
        old = self.scope.get(name)
        if raw.startswith("("):
            value = self._elements_of(raw[1:].rstrip()[:-1], old, operator, associative or isinstance(old, dict))
            self.scope.set(name, value)
            return name
        new = self.expander.text(raw)
        if subscript is not None:
            self._assign_element(name, subscript, new)
        elif operator == "+=":
            if isinstance(old, list):
                self.scope.set(name, [(old[0] if old else "") + new, *old[1:]])
            else:
                self.scope.set(name, (old if isinstance(old, str) else "") + new)
        else:
            self.scope.set(name, new, from_itself=bool(re.search(rf"\$\{{?{name}\b", raw)))
        return name

    def _elements_of(self, raw: str, old: Value | None, operator: str, associative: bool) -> Value:
        words = w.split_words(raw)
        if associative:
            table: dict[str, str] = dict(old) if operator == "+=" and isinstance(old, dict) else {}
            for word in words:
                match = re.match(r"\[(.*?)\]=(.*)", word, re.DOTALL)
                if match:
                    table[self.expander.text(match[1])] = self.expander.text(match[2])
            return table
        items = self.expander.words(words)
        if operator == "+=" and old is not None:
            return [*([old] if isinstance(old, str) else list(old)), *items]
        return items

    def _assign_element(self, name: str, subscript: str, new: str) -> None:
        old = self.scope.get(name)
        if isinstance(old, dict):
            self.scope.set(name, {**old, self.expander.text(subscript): new})
            return
        items = list(old) if isinstance(old, list) else [old] if isinstance(old, str) else []
        index = w.plain(self.expander.arithmetic(subscript))
        if index is not None and index.isdigit() and int(index) < 10_000:
            items += [""] * (int(index) + 1 - len(items))
            items[int(index)] = new
            self.scope.set(name, items)

    def _declaration_command(self, node: Any) -> Answer:
        self._commands.declare(text_of(node), [c for c in node.children if c.is_named])
        return True

    def _unset_command(self, node: Any) -> Answer:
        for name in text_of(node).split()[1:]:
            if name not in self.scope.forced:
                self.scope.values.pop(name, None)
        return True

    def _command(self, node: Any) -> Answer:
        return self._commands.command(node, self.line_offset + node.start_point[0] + 1)

    def _pipeline(self, node: Any) -> Answer:
        stages = [c for c in node.children if c.is_named]
        saved = self.stdin
        answer: Answer = True
        for i, stage in enumerate(stages):
            last = i == len(stages) - 1
            if not last:
                self.captures.append([])
            try:
                answer = self.statement(stage)
            finally:
                if not last:
                    self.stdin = Input("".join(self.captures.pop()))
        self.stdin = saved
        return answer

    def _redirected_statement(self, node: Any) -> Answer:
        from autotune.reader.bash_redirect import redirected

        return redirected(self, node)

    def _if_statement(self, node: Any) -> Answer:
        for condition, body, line in branches(node):
            answer = self.statements(condition) if condition is not None else True
            if answer is None:
                if only_stops(body):
                    continue
                words = " ".join(text_of(c) for c in condition or [])[:80]
                self.note(f"line {line}: whether `{words}` holds is not known; the branch was taken")
            if answer is not False:
                return self.statements(body)
        return True

    def _case_statement(self, node: Any) -> Answer:
        items = [c for c in node.children if c.type == "case_item"]
        head = text_before(node, items[0]) if items else ""
        subject = w.plain(self.expander.text(re.sub(r"^case\s+|\s+in\s*$", "", head)))
        for item in items:
            at = next((i for i, c in enumerate(item.children) if c.type == ")"), 0)
            patterns = [self.expander.text(text_of(c)) for c in item.children[:at] if c.is_named]
            if (subject is None and "*" in patterns) or (subject is not None and any(w.matches(p, subject) for p in patterns)):
                return self.statements(item.children[at + 1 :])
        return True

    def _for_statement(self, node: Any) -> Answer:
        return bash_loops.for_words(self, node)

    def _c_style_for_statement(self, node: Any) -> Answer:
        return bash_loops.for_counter(self, node)

    def _while_statement(self, node: Any) -> Answer:
        return bash_loops.while_condition(self, node)

    def _function_definition(self, node: Any) -> Answer:
        name = next((text_of(c) for c in node.children if c.type == "word"), "")
        self.functions[name] = node.children[-1]
        return True
