"""Reads YAML and JSON text into plain values and remembers the line of every key. The only module that imports yaml.

Scalars follow YAML 1.2, so `300e9` is a number and `no` is text. What an untrusted file could do harm with is
refused: tags such as `!!python/object`, aliases that expand without end, deep nesting, duplicate keys, control
characters, and more than one document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from autotune.errors import InputError

MAX_DEPTH = 40
MAX_NODES = 50_000
Path = tuple[str | int, ...]

_INT = re.compile(r"[-+]?[0-9]+\Z")
_RADIX_INT = re.compile(r"0(o[0-7]+|x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_SAFE_TAGS = frozenset(f"tag:yaml.org,2002:{t}" for t in ("str", "int", "float", "bool", "null", "map", "seq"))
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],:]|[^\s{}\[\],:"]+')
_UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass
class Document:
    """Parsed values and where they stood.

    >>> parse("a: 1\\nb: {c: [x, y]}\\n", "f.yaml").line_of(("b", "c", 1))
    2
    """

    data: Any
    file: str = ""
    lines: dict[Path, int] = field(default_factory=dict)

    def line_of(self, path: Path) -> int:
        """Line of the nearest key on the way to `path`; 0 when unknown."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return 0


def parse(text: str, file: str = "") -> Document:
    """YAML or JSON text as plain values. Every fault is an InputError with its line.

    >>> parse("tokens: 300e9\\nname: no", "m.yaml").data
    {'tokens': 300000000000.0, 'name': 'no'}
    >>> parse("a: 1\\na: 2", "m.yaml")
    Traceback (most recent call last):
    autotune.errors.InputError: duplicate key, first given on line 1 at m.yaml:2, a
    """
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _parse_json(text, file)
        except ValueError:
            pass  # a flow mapping of YAML, or broken JSON: the YAML parser names the line
    return _parse_yaml(text, file)


def dump_yaml(value: Any) -> str:
    """Plain values as YAML text that `parse` reads back to the same values, keys in their order.

    >>> print(dump_yaml({"a": [1, 2.5], "b": "no", "c": 3e11}), end="")
    a: [1, 2.5]
    b: 'no'
    c: 300000000000.0
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: Any, data: str) -> Any:
        # PyYAML quotes what YAML 1.1 would misread; add what YAML 1.2 would.
        quoted = None if isinstance(plain_scalar(data), str) else "'"
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=quoted)

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)


def _parse_json(text: str, file: str) -> Document:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in items:
            if key in seen:
                raise ValueError("duplicate key")
            seen[key] = value
        return seen

    try:
        data = json.loads(text, object_pairs_hook=pairs)
    except RecursionError:
        raise InputError.of(f"nested deeper than {MAX_DEPTH} levels", file) from None
    _check_json(data, file)
    return Document(data, file, _json_lines(text) if len(text) <= 500_000 else {})


def _json_lines(text: str) -> dict[Path, int]:
    """The line of every key and item of a valid JSON text.

    >>> _json_lines('{"a":\\n [1,\\n  {"b": 2}]}')
    {(): 1, ('a',): 1, ('a', 0): 2, ('a', 1): 3, ('a', 1, 'b'): 3}
    """
    lines: dict[Path, int] = {}
    place: list[str | int] = []  # keys and indexes on the way to the value that comes next
    mappings: list[bool] = []  # for every open container: is it a mapping
    line, counted, key_next = 1, 0, False
    for token in _JSON_TOKEN.finditer(text):
        line, counted = line + text.count("\n", counted, token.start()), token.start()
        mark = token[0]
        if mark in "}]":
            mappings.pop()
            place.pop()
        elif mark == ",":
            key_next = mappings[-1]
            if not key_next:
                place[-1] = int(place[-1]) + 1
        elif mark == ":":
            key_next = False
        elif key_next:
            place[-1] = json.loads(mark)
            lines[tuple(place)] = line
        else:
            lines.setdefault(tuple(place), line)  # a key has its line already
            if mark in "{[":
                key_next = mark == "{"
                mappings.append(key_next)
                place.append("" if key_next else 0)
    return lines


def _check_json(data: Any, file: str) -> None:
    if isinstance(data, str):
        data = [data]
    stack = [(data, 1)] if isinstance(data, (dict, list)) else []
    while stack:
        value, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise InputError.of(f"nested deeper than {MAX_DEPTH} levels", file)
        for child in [*value, *value.values()] if isinstance(value, dict) else value:
            if isinstance(child, (dict, list)):
                stack.append((child, depth + 1))
            elif isinstance(child, str) and _UNWANTED.search(child):
                raise InputError.of(f"control character in {child[:40]!r}", file)


def _parse_yaml(text: str, file: str) -> Document:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events = iter(yaml.parse(text, Loader=loader))
        return _Builder(events, file).document()
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        message = " ".join(filter(None, [e.context, e.problem]))
        raise InputError.of(f"not valid YAML: {message}", file, mark.line + 1 if mark else 0) from None
    except yaml.reader.ReaderError as e:
        line = text[: e.position].count("\n") + 1 if isinstance(e.position, int) else 0
        code = ord(e.character) if isinstance(e.character, str) else e.character
        raise InputError.of(f"not valid YAML: {e.reason} (character {code:#x})", file, line) from None
    except yaml.YAMLError as e:
        raise InputError.of(f"not valid YAML: {e}", file) from None
    except RecursionError:
        raise InputError.of(f"nested deeper than {MAX_DEPTH} levels", file) from None


class _Builder:
    """Turns parser events into values, with limits on depth and size (aliases count in full)."""

    def __init__(self, events: Iterator[Any], file: str) -> None:
        self.events = events
        self.file = file
        self.lines: dict[Path, int] = {}
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.nodes = 0

    def document(self) -> Document:
        import yaml

        next(self.events)  # stream start
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            return Document(None, self.file)
        first = next(self.events)
        self.lines[()] = first.start_mark.line + 1
        data = self.node(first, (), 1)
        next(self.events)  # document end
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise InputError.of("holds more than one YAML document ('---')", self.file, event.start_mark.line + 1)
        return Document(data, self.file, self.lines)

    def node(self, event: Any, path: Path, depth: int) -> Any:
        import yaml

        line = event.start_mark.line + 1
        if depth > MAX_DEPTH and isinstance(event, yaml.CollectionStartEvent):
            raise InputError.of(f"nested deeper than {MAX_DEPTH} levels", self.file, line)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, line)
        self.count(1, line)
        before = self.nodes
        tag = event.tag
        if tag not in (None, "!") and tag not in _SAFE_TAGS:
            raise InputError.of(f"tag {tag!r} is not allowed", self.file, line)
        if isinstance(event, yaml.ScalarEvent):
            value = self.scalar(event, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self.sequence(path, depth)
        else:
            value = self.mapping(path, depth)
        if event.anchor:
            self.anchors[event.anchor] = (value, self.nodes - before + 1)
        return value

    def count(self, nodes: int, line: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise InputError.of(f"holds more than {MAX_NODES:,} values, aliases expanded", self.file, line)

    def alias(self, event: Any, line: int) -> Any:
        if event.anchor not in self.anchors:
            raise InputError.of(f"alias *{event.anchor} refers to nothing before it, or to itself", self.file, line)
        value, size = self.anchors[event.anchor]
        self.count(size, line)
        return value

    def sequence(self, path: Path, depth: int) -> list[Any]:
        import yaml

        values: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            here = (*path, len(values))
            self.lines[here] = event.start_mark.line + 1
            values.append(self.node(event, here, depth + 1))
        return values

    def mapping(self, path: Path, depth: int) -> dict[str, Any]:
        import yaml

        values: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            if not isinstance(event, yaml.ScalarEvent):
                raise InputError.of("a key must be plain text", self.file, line, dotted(path))
            key = event.value
            if _UNWANTED.search(key):
                raise InputError.of(f"control character in key {key[:40]!r}", self.file, line)
            here = (*path, key)
            if key == "<<" and event.implicit[0]:
                merged += self.merge_sources(self.node(next(self.events), here, depth + 1), line)
                continue
            if key in values:
                raise InputError.of(
                    f"duplicate key, first given on line {self.lines[here]}", self.file, line, dotted(here)
                )
            self.lines[here] = line
            values[key] = self.node(next(self.events), here, depth + 1)
        for source in merged:
            values = {**source, **values}
        return values

    def merge_sources(self, value: Any, line: int) -> list[dict[str, Any]]:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(s, dict) for s in sources):
            raise InputError.of("the merge key '<<' needs a mapping", self.file, line)
        return sources  # of several, the first one wins

    def scalar(self, event: Any, line: int) -> Any:
        text = event.value
        if _UNWANTED.search(text):
            raise InputError.of(f"control character in {text[:40]!r}", self.file, line)
        if not event.implicit[0] or event.tag == "tag:yaml.org,2002:str":
            return text
        return plain_scalar(text)


def plain_scalar(text: str) -> Any:
    """An unquoted scalar by the YAML 1.2 core schema. A number of thousands of digits stays text.

    >>> [plain_scalar(s) for s in ("8", "0x10", "1e3", "1.", "true", "yes", "~", "1_000", "010")]
    [8, 16, 1000.0, 1.0, True, 'yes', None, '1_000', 10]
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= 400:
        if _INT.match(text):
            return int(text)
        if _RADIX_INT.match(text):
            return int(text, 0)
        if _FLOAT.match(text):
            return float(text)
    return text


def dotted(path: Path) -> str:
    """A key path as users write it.

    >>> dotted(("network", "nic_Gbps", 1))
    'network.nic_Gbps[1]'
    """
    text = ""
    for part in path:
        name = part if isinstance(part, int) or len(part) <= 80 else part[:77] + "..."
        text += f"[{name}]" if isinstance(part, int) else f".{name}" if text else str(name)
    return text
