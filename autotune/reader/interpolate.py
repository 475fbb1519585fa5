"""References inside configuration files: `${a.b}`, `${.b}`, `${multiply:4, ${.h}}`, `${oc.env:X,d}`, `${X:default}`."""

from __future__ import annotations

import re
from typing import Any

from autotune.yaml_lines import plain_scalar

_INNER = re.compile(r"\$\{([^${}]*)\}")
_ARITHMETIC = {"multiply": lambda a, b: a * b, "mul": lambda a, b: a * b, "add": lambda a, b: a + b, "sub": lambda a, b: a - b}


def resolve(data: Any, settings: dict[str, str], environment: bool = False) -> Any:
    """A copy of `data` with references replaced by what they name; those that name nothing stay as text.

    `environment`: `${NAME:default}` is a variable with a default (Primus). Variables come from `settings`.

    >>> resolve({"h": 8, "f": "${multiply:4, ${.h}}", "s": "${x.y}", "x": {"y": "${h}"}}, {})
    {'h': 8, 'f': 32, 's': 8, 'x': {'y': 8}}
    >>> resolve({"m": "${MBS:2}", "p": "${TEAM:amd}/x"}, {"MBS": "4"}, environment=True)
    {'m': 4, 'p': 'amd/x'}
    """
    return _Resolver(data, settings, environment).value(data, (), 0)


class _Resolver:
    def __init__(self, root: Any, settings: dict[str, str], environment: bool) -> None:
        self._root, self._settings, self._environment = root, settings, environment
        self._budget = 20_000

    def value(self, data: Any, path: tuple[str, ...], depth: int) -> Any:
        if isinstance(data, dict):
            return {k: self.value(v, (*path, str(k)), depth) for k, v in data.items()}
        if isinstance(data, list):
            return [self.value(v, path, depth) for v in data]
        if isinstance(data, str) and "${" in data and depth < 12:
            return self._text(data, path, depth)
        return data

    def _text(self, text: str, path: tuple[str, ...], depth: int) -> Any:
        for _ in range(30):
            self._budget -= 1
            match = _INNER.search(text)
            if not match or self._budget < 0 or len(text) > 10_000:
                break
            value = self._reference(match[1].strip(), path, depth)
            if match[0] == text:
                return "$" + "{" + match[1] + "}" if value is None else value
            shown = "\0" + match[1] + "\1" if value is None else str(value)
            text = text[: match.start()] + shown + text[match.end() :]
        return plain_scalar(text.replace("\0", "${").replace("\1", "}"))

    def _reference(self, body: str, path: tuple[str, ...], depth: int) -> Any:
        name, colon, rest = body.partition(":")
        if colon and name in (*_ARITHMETIC, "divide"):
            return self._compute(name, rest)
        if colon and name in ("oc.env", "env"):
            variable, _, default = rest.partition(",")
            given = self._settings.get(variable.strip())
            return plain_scalar(given if given is not None else default.strip())
        if self._environment and re.fullmatch(r"[A-Za-z_]\w*", name) and (colon or name in self._settings):
            given = self._settings.get(name)
            return plain_scalar(given if given else rest.strip().strip("\"'"))
        return self._lookup(body, path, depth)

    @staticmethod
    def _compute(name: str, rest: str) -> Any:
        numbers = [plain_scalar(x.strip()) for x in rest.split(",")]
        if len(numbers) != 2 or not all(isinstance(n, int | float) and abs(n) < 1e15 for n in numbers):
            return None
        a, b = numbers
        if name == "divide":
            return None if b == 0 else a // b if isinstance(a, int) and isinstance(b, int) else a / b
        return _ARITHMETIC[name](a, b)

    def _lookup(self, body: str, path: tuple[str, ...], depth: int) -> Any:
        if body.startswith("."):
            ups = len(body) - len(body.lstrip("."))
            parts = [*path[: len(path) - ups], *body.lstrip(".").split(".")]
        else:
            parts = body.split(".")
        for start in (0, 1):  # a file may be mounted below one name: ${training.model.x} inside model.x
            value: Any = self._root
            for part in parts[start:]:
                value = value.get(part) if isinstance(value, dict) else None
            if value is not None and parts[start:]:
                return None if isinstance(value, dict | list) else self.value(value, tuple(parts[start:]), depth + 1)
        variables = self._root.get("variables") if isinstance(self._root, dict) else None
        found = variables.get(body) if isinstance(variables, dict) else None
        return None if isinstance(found, dict | list) else found
