"""Variables of a script and their expansion: `$X`, `${X:-d}`, `${X%.*}`, `"${A[@]}"`, `$(( ))`, here-documents."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from autotune.reader import bash_words as w
from autotune.reader.bash_arith import Arithmetic, ArithmeticFailed

Value = str | list[str] | dict[str, str]
MAX_TEXT = 500_000
MAX_ELEMENTS = 20_000
MAX_WORK = 10_000_000  # characters that expansions may copy, an array element counting as 32
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERATOR = re.compile(r":[-=?+]|##|%%|//|/#|/%|\^\^|,,|[-=?+#%/^,:@]")


class TooLarge(Exception):
    """A script grows a text without bound."""


@dataclass
class Scope:
    """The variables a script sees. `forced` names are given by the user and cannot be reassigned."""

    values: dict[str, Value] = field(default_factory=dict)
    forced: set[str] = field(default_factory=set)
    positional: list[str] = field(default_factory=list)
    script: str = "script.sh"
    references: dict[str, str] = field(default_factory=dict)
    asked: dict[str, None] = field(default_factory=dict)
    work: int = 0

    def spend(self, parts: list[str]) -> None:
        """Count what an expansion copies; TooLarge when the script has gone on for too long."""
        self.work += sum(map(len, parts)) + 32 * len(parts)
        if self.work > MAX_WORK:
            raise TooLarge("expansions")

    def name(self, name: str) -> str:
        """The variable behind a `local -n` reference."""
        return self.references.get(name, name)

    def get(self, name: str) -> Value | None:
        """The value of a variable, None if nobody set it."""
        return self.values.get(self.name(name))

    def text(self, name: str) -> str:
        """The value as text: the first element of an array, a marker for an unset variable."""
        value = self.get(name)
        if isinstance(value, list):
            return value[0] if value else ""
        if isinstance(value, dict):
            return value.get("0", "")
        if value is None:
            self.asked.setdefault(name)
            return w.unset(name)
        return value

    def set(self, name: str, value: Value, from_itself: bool = False) -> None:
        """Assign, unless the user fixed the variable; `X=${X,,}` may still change its form."""
        name = self.name(name)
        if name in self.forced and not (from_itself and isinstance(value, str) and w.is_known(value) and value):
            return
        if isinstance(value, str):
            if len(value) > MAX_TEXT:
                raise TooLarge(name)
            if w.only_marker(value) and any(n.startswith("$") for n in w.names_missing(value)):
                value = w.unknown(name)  # the output of a command is asked for by the name of its variable
        elif len(value) > MAX_ELEMENTS:
            raise TooLarge(name)
        self.values[name] = value

    def integer(self, name: str) -> int | None:
        """The value as an integer, None if it is not known to be one."""
        value = w.plain(self.text(name))
        if value is None or not re.fullmatch(r"\s*-?\d+\s*", value):
            return None
        return int(value)


class Expander:
    """Expands raw words of one scope. `substitute` answers `$(...)` without running anything."""

    def __init__(self, scope: Scope, substitute: Callable[[str], str]) -> None:
        self.scope = scope
        self._substitute = substitute
        self._depth = 0

    def words(self, raw: list[str]) -> list[str]:
        """All fields of several raw words."""
        return [f for word in raw for f in self.fields(word)]

    def fields(self, raw: str) -> list[str]:
        """The fields of one raw word."""
        out = w.Fields(self._ifs())
        self._walk(raw, out, quoted=False)
        return out.result()

    def text(self, raw: str) -> str:
        """One raw word as a single text (the right-hand side of an assignment)."""
        out = w.Fields(ifs="")
        self._walk(raw, out, quoted=False)
        return " ".join(out.result())

    def heredoc(self, body: str) -> str:
        """A here-document whose delimiter was not quoted."""
        out = w.Fields(ifs="")
        self._walk(body, out, quoted=True)
        return " ".join(out.result())

    def arithmetic(self, raw: str) -> str:
        """`$((...))`: digits, or a marker naming what is unknown."""
        text = self.heredoc(raw)
        missing = w.names_missing(text)
        known = w.plain(text)
        if known is None:
            return w.unknown(",".join(missing))
        unknown_names = list(missing)

        def get(name: str) -> int | None:
            value = w.plain(self.scope.text(name))
            if self.scope.get(name) is None:
                unknown_names.append(name)
                return None
            if value is None or not re.fullmatch(r"\s*-?\d+\s*", value):
                unknown_names.extend(w.names_missing(self.scope.text(name)) or [name])
                return None
            return int(value)

        def set_(name: str, value: int) -> None:
            self.scope.set(name, str(value))

        try:
            value = None if missing else Arithmetic(get, set_).value(known)
        except (ArithmeticFailed, RecursionError):
            value = None
        if value is None:
            return w.unknown(",".join(dict.fromkeys(unknown_names)) or "arithmetic")
        return str(value)

    def _ifs(self) -> str:
        value = self.scope.get("IFS")
        return value if isinstance(value, str) and w.is_known(value) else " \t\n"

    def _walk(self, raw: str, out: w.Fields, quoted: bool) -> None:
        self._depth += 1
        if self._depth > 40:
            raise TooLarge("nested expansion")
        try:
            i = 0
            if not quoted and (raw == "~" or raw.startswith("~/")):
                out.literal(w.unset("HOME") if self.scope.get("HOME") is None else self.scope.text("HOME"))
                i = 1
            while i < len(raw):
                i = self._step(raw, i, out, quoted)
        finally:
            self._depth -= 1

    def _step(self, raw: str, i: int, out: w.Fields, quoted: bool) -> int:
        c = raw[i]
        if c == "\\":
            following = raw[i + 1 : i + 2]
            if following == "\n":
                return i + 2
            if quoted and following not in ("$", "`", '"', "\\"):
                out.literal("\\" + following)
            else:
                out.literal(following)
            return i + 2
        if c in "`$":
            end = w.skip_unit(raw, i) if c == "`" or raw[i + 1 : i + 2] in ("(", "{", "'") else i + 1
            if c == "$" and raw[i + 1 : i + 2] == "'" and quoted:
                end = i + 1
            return self._expansion(raw, i, end, out, quoted)
        if c in "<>" and raw[i + 1 : i + 2] == "(" and not quoted:
            end = w.skip_unit(raw, i)
            out.literal(w.unknown("$substitution"))
            return end
        if quoted:
            out.literal(c)
            return i + 1
        end = w.skip_unit(raw, i)
        if c == "'":
            out.literal(raw[i + 1 : end - 1])
        elif c == '"':
            self._walk_double(raw[i + 1 : end - 1], out)
        else:
            out.literal(raw[i:end])
        return end

    def _walk_double(self, body: str, out: w.Fields) -> None:
        if re.fullmatch(r"\$(\{\w+\[@\]\}|@|\{@\})", body) and self._parameter(body.strip("${}")) == []:
            return  # "${A[@]}" of an empty array makes no field at all
        out.literal("")
        self._walk(body, out, quoted=True)

    def _expansion(self, raw: str, i: int, end: int, out: w.Fields, quoted: bool) -> int:
        if raw[i] == "`":
            body = re.sub(r"\\([`$\\])", r"\1", raw[i + 1 : end - 1])
            value: str | list[str] = self._substitute(body)
        elif raw.startswith("$((", i) and raw[end - 2 : end] == "))":
            value = self.arithmetic(raw[i + 3 : end - 2])
        elif raw.startswith("$(", i):
            value = self._substitute(raw[i + 2 : end - 1])
        elif raw.startswith("${", i):
            value = self._parameter(raw[i + 2 : end - 1])
        elif raw.startswith("$'", i) and not quoted:
            out.literal(_ansi(raw[i + 2 : end - 1]))
            return end
        else:
            name = _NAME.match(raw, i + 1)
            if name:
                value, end = self.scope.text(name[0]), name.end()
            elif raw[i + 1 : i + 2] and raw[i + 1] in "0123456789@*#?$!-_":
                value, end = self._parameter(raw[i + 1]), i + 2
            else:
                out.literal("$")
                return i + 1
        self._put(value, out, quoted)
        return end

    def _put(self, value: str | list[str], out: w.Fields, quoted: bool) -> None:
        parts = value if isinstance(value, list) else [value]
        self.scope.spend(parts)
        for n, part in enumerate(parts):
            if n:
                out.close()
            (out.literal if quoted else out.split)(part)

    def _parameter(self, body: str) -> str | list[str]:
        """`${body}`: a text, or a list for `[@]`."""
        if body in ("@", "*"):
            return list(self.scope.positional) if body == "@" else " ".join(self.scope.positional)
        if body == "#":
            return str(len(self.scope.positional))
        if body in ("?", "!", "$", "-", "_"):
            return {"?": "0", "!": "0"}.get(body, "")
        if body.startswith("#"):
            value = self._base(*_name_of(body[1:])[:2])
            return str(len(value)) if isinstance(value, list) else _length(value)
        if body.startswith("!") and len(body) > 1:
            return self._indirect(body[1:])
        name, subscript, rest = _name_of(body)
        if not name:
            return w.unknown("$expansion")
        value = self._base(name, subscript)
        if not rest:
            return value
        operator = _OPERATOR.match(rest)
        if not operator:
            return value
        return self._operate(name, value, operator[0], rest[operator.end() :])

    def _base(self, name: str, subscript: str | None) -> str | list[str]:
        if name.isdigit():
            n = int(name)
            if n == 0:
                return self.scope.script
            return self.scope.positional[n - 1] if n <= len(self.scope.positional) else w.unset(name)
        if name in ("@", "*"):
            return list(self.scope.positional)
        if name == "BASH_SOURCE":
            return self.scope.script
        if subscript is None:
            return self.scope.text(name)
        value = self.scope.get(name)
        if subscript in ("@", "*"):
            items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else [value] if value else []
            return items if subscript == "@" else " ".join(items)
        if isinstance(value, dict):
            return value.get(self.text(subscript), w.unset(name))
        items = value if isinstance(value, list) else [] if value is None else [value]
        index = w.plain(self.arithmetic(subscript))
        if index is None or not re.fullmatch(r"-?\d+", index):
            return w.unknown(name)
        n = int(index)
        return items[n] if -len(items) <= n < len(items) else w.unset(name)

    def _indirect(self, body: str) -> str | list[str]:
        name, subscript, _ = _name_of(body)
        if subscript in ("@", "*"):
            value = self.scope.get(name)
            return list(value) if isinstance(value, dict) else [str(i) for i in range(len(value or []))]
        target = w.plain(self.scope.text(name))
        return self.scope.text(target) if target else w.unset(name)

    def _operate(self, name: str, value: str | list[str], operator: str, argument: str) -> str | list[str]:
        flat = " ".join(value) if isinstance(value, list) else value
        known = w.plain(flat)
        absent = known == "" if operator.startswith(":") and len(operator) == 2 else flat == w.unset(name)
        if operator in (":-", "-"):
            return self.heredocish(argument) if absent else value
        if operator in (":=", "="):
            if absent:
                self.scope.set(name, self.heredocish(argument))
                return self.scope.text(name)
            return value
        if operator in (":?", "?"):
            return w.unset(name) if absent else value
        if operator in (":+", "+"):
            return "" if absent else self.heredocish(argument)
        if isinstance(value, list) and operator == ":":
            return self._slice(value, argument)
        if isinstance(value, list):
            return [self._edit(v, operator, argument) for v in value]
        return self._edit(value, operator, argument)

    def heredocish(self, raw: str) -> str:
        """The word behind `:-` and its kin: quotes are removed, nothing is split."""
        return self.text(raw)

    def _edit(self, value: str, operator: str, argument: str) -> str:
        if operator in ("#", "##", "%", "%%"):
            pattern = self.text(argument)
            return w.strip_pattern(value, pattern, operator[0], len(operator) == 2) if w.is_known(pattern) else value
        if operator in ("^", "^^", ",", ",,"):
            change = str.upper if operator[0] == "^" else str.lower
            if not w.is_known(value):
                return value
            return change(value) if len(operator) == 2 else change(value[:1]) + value[1:]
        if operator in ("/", "//", "/#", "/%"):
            return self._replace(value, operator, argument)
        if operator == ":":
            sliced = self._slice(list(value), argument)
            return "".join(sliced)
        return value

    def _replace(self, value: str, operator: str, argument: str) -> str:
        cut = next((i for i in range(len(argument)) if argument[i] == "/" and (i == 0 or argument[i - 1] != "\\")), len(argument))
        pattern, replacement = self.text(argument[:cut]) if argument[:cut].strip() else argument[:cut], self.text(argument[cut + 1 :])
        if not w.is_known(pattern) or not pattern or len(value) > 100_000:
            return value
        regex = w.glob_regex(pattern).replace(".*", ".*?") if operator == "//" else w.glob_regex(pattern)
        if operator == "/#":
            regex = "^" + regex
        if operator == "/%":
            regex += "$"
        try:
            return re.sub(regex, lambda _: replacement, value, count=0 if operator == "//" else 1, flags=re.DOTALL)
        except re.error:
            return value

    def _slice(self, items: list[str], argument: str) -> list[str]:
        start_text, _, length_text = argument.partition(":")
        start, length = w.plain(self.arithmetic(start_text)), w.plain(self.arithmetic(length_text)) if length_text else None
        if start is None or not re.fullmatch(r"-?\d+", start) or (length_text and (length is None or not re.fullmatch(r"-?\d+", length))):
            return items
        first = int(start)
        if first < 0:
            first += len(items)
        if length is None:
            return items[first:]
        n = int(length)
        return items[first : first + n] if n >= 0 else items[first:n]


def _name_of(body: str) -> tuple[str, str | None, str]:
    """Name, subscript and remainder of a parameter expression."""
    match = re.match(r"[A-Za-z_]\w*|\d+|[@*]", body)
    if not match:
        return "", None, body
    name, rest = match[0], body[match.end() :]
    if rest.startswith("["):
        end = rest.find("]")
        depth, i = 0, 0
        while i < len(rest):
            depth += (rest[i] == "[") - (rest[i] == "]")
            if depth == 0:
                end = i
                break
            i += 1
        if end > 0:
            return name, rest[1:end], rest[end + 1 :]
    return name, None, rest


def _length(value: str) -> str:
    known = w.plain(value)
    return w.unknown(",".join(w.names_missing(value))) if known is None else str(len(known))


def _ansi(text: str) -> str:
    table = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r", "e": "\x1b", "0": "\0"}
    return re.sub(r"\\(.)", lambda m: table.get(m[1], m[0]), text)
