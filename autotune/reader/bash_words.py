"""Lexical parts of bash: markers for what cannot be known, word tokens, field splitting, patterns.

A value that depends on something outside the script carries a *marker*: `\\ue000u:NAME\\ue001` for a variable nobody
set (bash would use the empty string) and `\\ue000?:NAME\\ue001` for the output of a command. Markers travel through
strings like text, so that in the end the flag that lacks a value can name what it lacks.
"""

from __future__ import annotations

import re

_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{_OPEN}([u?]):([^{_CLOSE}]*){_CLOSE}")


def unset(name: str) -> str:
    """The value of a variable nobody set."""
    return f"{_OPEN}u:{name}{_CLOSE}"


def unknown(names: str) -> str:
    """A value only the running job knows, e.g. `$(nvidia-smi ...)`."""
    return f"{_OPEN}?:{names}{_CLOSE}"


def names_missing(text: str) -> list[str]:
    """The names behind the markers in a text.

    >>> names_missing("--n=" + unset("NNODES")), names_missing("8")
    (['NNODES'], [])
    """
    return list(dict.fromkeys(n for _, names in _MARK.findall(text) for n in names.split(",") if n))


def is_known(text: str) -> bool:
    """Whether a text has no marker at all."""
    return _OPEN not in text


def plain(text: str) -> str | None:
    """The text as bash would see it (unset variables are empty), or None if part of it is unknown.

    >>> plain("a" + unset("X")), plain("a" + unknown("Y"))
    ('a', None)
    """
    text = _MARK.sub(lambda m: "" if m[1] == "u" else m[0], text)
    return None if _OPEN in text else text


def only_marker(text: str) -> bool:
    """Whether a word consists of nothing but markers."""
    return bool(text) and not _MARK.sub("", text)


def readable(text: str) -> str:
    """The text for messages, markers shown as `$NAME`."""
    return _MARK.sub(lambda m: "$" + m[2].replace(",", ",$"), text)


def split_words(text: str) -> list[str]:
    """Raw shell words of a text, quotes and `$` kept, comments dropped, `\\`-newline joined.

    >>> split_words('a "b c"  --x=$(f "1 2") # hi')
    ['a', '"b c"', '--x=$(f "1 2")']
    >>> split_words("[k]=' 1 2' $((1 + 2)) `pwd`/x")
    ["[k]=' 1 2'", '$((1 + 2))', '`pwd`/x']
    """
    words: list[str] = []
    start: int | None = None
    i = 0
    while i < len(text):
        c = text[i]
        if c == "\\" and text[i + 1 : i + 2] == "\n":
            if start is not None:  # a continuation inside a word joins it
                text = text[:i] + text[i + 2 :]
            else:
                i += 2
            continue
        if c in " \t\n\r":
            if start is not None:
                words.append(text[start:i])
                start = None
            i += 1
            continue
        if c == "#" and start is None:
            end = text.find("\n", i)
            i = len(text) if end < 0 else end
            continue
        if start is None:
            start = i
        i = skip_unit(text, i)
    if start is not None:
        words.append(text[start:])
    return words


def skip_unit(text: str, i: int) -> int:
    """The index behind the quoted string, expansion or character that begins at `i`."""
    c = text[i]
    if c == "\\":
        return min(i + 2, len(text))
    if c == "'":
        end = text.find("'", i + 1)
        return len(text) if end < 0 else end + 1
    if c == '"':
        return skip_double(text, i)
    if c == "`":
        end = i + 1
        while end < len(text) and text[end] != "`":
            end += 2 if text[end] == "\\" else 1
        return min(end + 1, len(text))
    if c == "$" and text[i + 1 : i + 2] in ("(", "{"):
        return skip_bracket(text, i + 1)
    if c == "$" and text[i + 1 : i + 2] == "'":
        end = i + 2
        while end < len(text) and text[end] != "'":
            end += 2 if text[end] == "\\" else 1
        return min(end + 1, len(text))
    if c in "<>" and text[i + 1 : i + 2] == "(":
        return skip_bracket(text, i + 1)
    return i + 1


def skip_double(text: str, i: int) -> int:
    """The index behind a double-quoted string."""
    i += 1
    while i < len(text) and text[i] != '"':
        if text[i] in "\\`" or (text[i] == "$" and text[i + 1 : i + 2] in ("(", "{")):
            i = skip_unit(text, i)
        else:
            i += 1
    return min(i + 1, len(text))


def skip_bracket(text: str, i: int) -> int:
    """The index behind the bracket that matches the one at `i`, quotes respected."""
    close = {"(": ")", "{": "}"}[text[i]]
    opening = text[i]
    depth = 0
    while i < len(text):
        c = text[i]
        if c == opening:
            depth += 1
        elif c == close:
            depth -= 1
            if depth == 0:
                return i + 1
        elif c in "\\'\"`$":
            i = skip_unit(text, i)
            continue
        i += 1
    return len(text)


class Fields:
    """Collects the fields of one word: literal text, split text, and hard breaks between array elements.

    >>> f = Fields(); f.literal("-x="); f.split("1 2"); f.result()
    ['-x=1', '2']
    """

    def __init__(self, ifs: str = " \t\n") -> None:
        self._done: list[str] = []
        self._open: str | None = None
        self._ifs = ifs

    def literal(self, text: str) -> None:
        """Quoted text, or text written in the script: never split."""
        self._open = (self._open or "") + text

    def split(self, text: str) -> None:
        """The result of an unquoted expansion."""
        for i, part in enumerate(re.split(f"[{re.escape(self._ifs)}]+", text) if self._ifs else [text]):
            if i:
                self.close()
            if part:
                self._open = (self._open or "") + part

    def close(self) -> None:
        """End the field."""
        if self._open is not None:
            self._done.append(self._open)
            self._open = None

    def result(self) -> list[str]:
        """The fields so far."""
        self.close()
        return self._done


def glob_regex(pattern: str) -> str:
    """A bash pattern as a regular expression.

    >>> glob_regex("a*[0-9]?")
    'a.*[0-9].'
    """
    out, i = "", 0
    while i < len(pattern):
        c = pattern[i]
        if c == "*":
            out += ".*"
        elif c == "?":
            out += "."
        elif c == "[" and "]" in pattern[i + 2 :]:
            end = pattern.index("]", i + 2)
            body = pattern[i + 1 : end].replace("\\", "\\\\")
            out += "[" + ("^" + body[1:] if body[0] in "!^" else body) + "]"
            i = end
        elif c == "\\" and i + 1 < len(pattern):
            i += 1
            out += re.escape(pattern[i])
        else:
            out += re.escape(c)
        i += 1
    return out


def matches(pattern: str, text: str) -> bool:
    """Whether a bash pattern matches the whole text.

    >>> matches("*.json", "ds.json"), matches("a|b", "a")
    (True, False)
    """
    return bool(_compiled(glob_regex(pattern)).fullmatch(text))


def _compiled(regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex, re.DOTALL)
    except re.error:
        return re.compile(r"(?!)")


def strip_pattern(value: str, pattern: str, end: str, longest: bool) -> str:
    """`${value#p}`, `##`, `%`, `%%`.

    >>> strip_pattern("a/b/c", "*/", "#", True), strip_pattern("a.b.c", ".*", "%", False)
    ('c', 'a.b')
    """
    if len(value) > 20_000:
        return value
    whole = _compiled(glob_regex(pattern))
    cuts = range(len(value) + 1)
    order = cuts if (end == "#") != longest else reversed(cuts)
    for i in order:
        if whole.fullmatch(value[:i] if end == "#" else value[i:]):
            return value[i:] if end == "#" else value[:i]
    return value
