"""Conditions of `[ ]`, `[[ ]]` and `test`: true, false, or None where only the running job could tell."""

from __future__ import annotations

import re
from collections.abc import Callable

from autotune.reader import bash_words as w
from autotune.reader.bash_expand import Expander

Answer = bool | None
_NUMERIC: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b, "-gt": lambda a, b: a > b, "-ge": lambda a, b: a >= b,
}
_FILE = {"-f", "-d", "-e", "-s", "-r", "-w", "-x", "-L", "-h", "-p", "-S", "-t"}


def negate(answer: Answer) -> Answer:
    """Logical not over three values."""
    return None if answer is None else not answer


def both(a: Answer, b: Answer) -> Answer:
    """Logical and over three values."""
    return False if a is False or b is False else None if a is None or b is None else True


def either(a: Answer, b: Answer) -> Answer:
    """Logical or over three values."""
    return True if a is True or b is True else None if a is None or b is None else False


class Condition:
    """Evaluates the inside of a test. Files are taken to exist: a script that checks for its program is not meant to stop."""

    def __init__(self, expander: Expander, double: bool) -> None:
        self._x = expander
        self._double = double
        self._words: list[str] = []
        self._at = 0

    def answer(self, inside: str) -> Answer:
        """The truth of the text between the brackets."""
        raw = w.split_words(_space_operators(inside) if self._double else inside)
        if not self._double:
            raw = [quoted for word in raw for quoted in self._single(word)]
        self._words, self._at = raw[:400], 0
        return self._or() if raw else False

    def _single(self, word: str) -> list[str]:
        """In `[ ]` a word is split before the test sees it; `[ -z $X ]` with X unset has one word less."""
        if word in ("!", "-a", "-o", "(", ")", "=", "==", "!=") or word in _NUMERIC:
            return [word]
        return ["'" + f.replace("'", "'\\''") + "'" for f in self._x.fields(word) if not (w.plain(f) == "" and f)] or (
            ["''"] if word.startswith(('"', "'", "$", "`")) else []
        )

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _next(self) -> str:
        self._at += 1
        return self._words[self._at - 1] if self._at <= len(self._words) else ""

    def _or(self) -> Answer:
        result = self._and()
        while self._peek() in ("||", "-o"):
            self._next()
            result = either(result, self._and())
        return result

    def _and(self) -> Answer:
        result = self._not()
        while self._peek() in ("&&", "-a"):
            self._next()
            result = both(result, self._not())
        return result

    def _not(self) -> Answer:
        if self._peek() in ("!", "'!'") and self._at + 1 < len(self._words):
            self._next()
            return negate(self._not())
        if self._peek() == "(":
            self._next()
            result = self._or()
            self._next()
            return result
        return self._primary()

    def _primary(self) -> Answer:
        first = self._next()
        bare = first.strip("'")
        binary = self._peek()
        if binary in ("=", "==", "!=", "=~", "<", ">") or binary in _NUMERIC:
            self._next()
            return self._compare(first, binary, self._next())
        if bare in _FILE:
            self._next()
            return True
        if bare in ("-z", "-n"):
            operand = "" if self._peek() in ("", "&&", "||", "-a", "-o", ")") else self._next()
            text = w.plain(self._x.text(operand))
            return None if text is None else (text == "") == (bare == "-z")
        if bare == "-v":
            return self._is_set(self._x.text(self._next()))
        text = w.plain(self._x.text(first))
        return None if text is None else text != ""

    def _is_set(self, name: str) -> bool:
        match = re.fullmatch(r"(\w+)\[(.*)\]", name)
        value = self._x.scope.get(match[1] if match else name)
        if match and isinstance(value, dict):
            return match[2] in value
        return value is not None

    def _compare(self, left_raw: str, operator: str, right_raw: str) -> Answer:
        left, right = w.plain(self._x.text(left_raw)), w.plain(self._x.text(right_raw))
        if left is None or right is None:
            return None
        if operator in _NUMERIC:
            numbers = [self._integer(v) for v in (left, right)]
            if numbers[0] is None or numbers[1] is None:
                return None if self._double else False
            return _NUMERIC[operator](numbers[0], numbers[1])
        if operator == "=~":
            return self._regex(left, right_raw)
        if operator in ("<", ">"):
            return left < right if operator == "<" else left > right
        quoted = right_raw[:1] in "\"'" or not self._double
        same = left == right if quoted else w.matches(right, left)
        return same if operator != "!=" else not same

    def _integer(self, text: str) -> int | None:
        text = text.strip()
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        if self._double:
            value = w.plain(self._x.arithmetic(text)) if text else "0"
            return int(value) if value and re.fullmatch(r"-?\d+", value) else None
        return None

    def _regex(self, left: str, right_raw: str) -> Answer:
        text = self._x.text(right_raw)
        pattern = re.escape(text) if right_raw[:1] in "\"'" else text
        if len(pattern) > 200 or len(left) > 50_000 or re.search(r"[*+}]\)?[*+{]", pattern):
            return None
        try:
            return re.search(pattern.replace("[[:space:]]", r"\s").replace("[[:digit:]]", r"\d"), left) is not None
        except re.error:
            return None


def _space_operators(text: str) -> str:
    """`[[ a&&b ]]`: blanks around the operators, outside quotes."""
    out, i = "", 0
    while i < len(text):
        if text.startswith(("&&", "||"), i):
            out, i = out + f" {text[i:i + 2]} ", i + 2
            continue
        end = w.skip_unit(text, i)
        out, i = out + text[i:end], end
    return out
