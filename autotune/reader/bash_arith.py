"""Arithmetic of bash: integers, variables by name, assignment, the conditional operator."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s*(0[xX][0-9a-fA-F]+|\d+#\w+|\d+|[A-Za-z_]\w*|\*\*|<<=|>>=|[-+*/%&|^]=|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\S)")
_BINARY = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", ">", "<=", ">="], ["<<", ">>"], ["+", "-"], ["*", "/", "%"]]
_LIMIT = 1 << 63


class ArithmeticFailed(ValueError):
    """The expression is not one."""


class Arithmetic:
    """Evaluates one expression. `get(name)` gives an integer or None (unknown), `set(name, value)` stores one.

    A result of None means that a name in the expression is unknown.

    >>> store = {"P": 2}
    >>> a = Arithmetic(store.get, store.__setitem__)
    >>> a.value("64 / P"), a.value("(P > 1) ? 7 : 8"), a.value("x = P ** 3"), store["x"], a.value("Q + 1")
    (32, 7, 8, 8, None)
    """

    def __init__(self, get: Callable[[str], int | None], set: Callable[[str, int], None]) -> None:
        self._get, self._set = get, set
        self._tokens: list[str] = []
        self._at = 0
        self._depth = 0

    def value(self, text: str) -> int | None:
        """The value of an expression; None if unknown; ArithmeticFailed if it is malformed."""
        self._tokens, self._at = _TOKEN.findall(text), 0
        if not self._tokens:
            return 0
        result = self._comma()
        if self._at != len(self._tokens):
            raise ArithmeticFailed(text)
        return result

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def _take(self, token: str) -> bool:
        if self._peek() == token:
            self._at += 1
            return True
        return False

    def _comma(self) -> int | None:
        result = self._assign()
        while self._take(","):
            result = self._assign()
        return result

    def _assign(self) -> int | None:
        self._depth += 1
        if self._depth > 60:
            raise ArithmeticFailed("too deep")
        try:
            name, operator = self._peek(), self._peek(1)
            if re.match(r"[A-Za-z_]", name) and operator in ("=", "+=", "-=", "*=", "/=", "%="):
                self._at += 2
                value = self._assign()
                if operator != "=":
                    value = _apply(operator[0], self._get(name), value)
                if value is not None:
                    self._set(name, value)
                return value
            return self._conditional()
        finally:
            self._depth -= 1

    def _conditional(self) -> int | None:
        test = self._binary(0)
        if not self._take("?"):
            return test
        yes = self._assign()
        if not self._take(":"):
            raise ArithmeticFailed("?:")
        no = self._assign()
        return None if test is None else yes if test else no

    def _binary(self, level: int) -> int | None:
        if level == len(_BINARY):
            return self._power()
        left = self._binary(level + 1)
        while self._peek() in _BINARY[level]:
            operator = self._peek()
            self._at += 1
            left = _apply(operator, left, self._binary(level + 1))
        return left

    def _power(self) -> int | None:
        base = self._unary()
        if self._take("**"):
            return _apply("**", base, self._power())
        return base

    def _unary(self) -> int | None:
        for sign in ("-", "+", "!", "~"):
            if self._take(sign):
                value = self._unary()
                if value is None:
                    return None
                return {"-": -value, "+": value, "!": int(not value), "~": ~value}[sign]
        if self._peek() in ("++", "--"):
            step = 1 if self._peek() == "++" else -1
            name = self._peek(1)
            self._at += 2
            value = self._get(name)
            if value is not None:
                self._set(name, value + step)
                return value + step
            return None
        return self._atom()

    def _atom(self) -> int | None:
        token = self._peek()
        self._at += 1
        if token == "(":
            value = self._comma()
            if not self._take(")"):
                raise ArithmeticFailed("(")
            return value
        if re.match(r"\d", token):
            return _number(token)
        if re.match(r"[A-Za-z_]", token):
            value = self._get(token)
            if self._peek() in ("++", "--"):
                step = 1 if self._peek() == "++" else -1
                self._at += 1
                if value is not None:
                    self._set(token, value + step)
            return value
        raise ArithmeticFailed(token)


def _number(token: str) -> int:
    try:
        if "#" in token:
            base, digits = token.split("#")
            return int(digits, int(base))
        if token[:2] in ("0x", "0X"):
            return int(token, 16)
        return int(token, 8) if token[0] == "0" and len(token) > 1 else int(token)
    except ValueError as e:
        raise ArithmeticFailed(token) from e


def _apply(operator: str, a: int | None, b: int | None) -> int | None:
    if operator == "&&" and (a == 0 or b == 0):
        return 0
    if operator == "||" and (a or b):
        return 1
    if a is None or b is None:
        return None
    if operator in "/%":
        if b == 0:
            raise ArithmeticFailed("division by zero")
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if operator == "/" else a - quotient * b
    if operator in ("<<", ">>", "**"):
        if not 0 <= b <= 63 or (operator == "**" and abs(a) > 1 << 31):
            raise ArithmeticFailed("too large")
        value = {"<<": a << b, ">>": a >> b, "**": a**b}[operator]
        return (value + _LIMIT) % (2 * _LIMIT) - _LIMIT
    return int({
        "+": a + b, "-": a - b, "*": (a * b + _LIMIT) % (2 * _LIMIT) - _LIMIT, "&": a & b, "|": a | b, "^": a ^ b,
        "==": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "&&": bool(a and b), "||": bool(a or b),
    }[operator])
