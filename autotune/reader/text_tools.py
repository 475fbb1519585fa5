"""What small text tools would print, for the few that scripts use to build paths, lists and flags."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from autotune.reader import bash_words as w

if TYPE_CHECKING:
    from autotune.reader.bash_eval import Interpreter


def output(fields: list[str], stdin: str | None, shell: Interpreter) -> str | None:
    """The output of a tool that is imitated, None for any other command."""
    name, arguments = fields[0], fields[1:]
    if name in ("echo", "printf"):
        return echo(arguments) if name == "echo" else printf(arguments)
    if name == "pwd":
        return shell.cwd + "\n"
    if name in ("cat", "tee", "envsubst", "yq"):
        return _files(name, arguments, stdin, shell)
    tool = _TOOLS.get(name)
    return tool(arguments, stdin or "") if tool else None


def echo(arguments: list[str]) -> str:
    """`echo`."""
    words = [a for i, a in enumerate(arguments) if not (i < 2 and re.fullmatch(r"-[neE]+", a))]
    end = "" if arguments[:1] and re.fullmatch(r"-[eE]*n[eE]*", arguments[0]) else "\n"
    return " ".join(words) + end


def printf(arguments: list[str]) -> str:
    """`printf FORMAT ...`: the format is used again while arguments remain.

    >>> printf(["%02d ", "1", "2"]), printf(["%s"])
    ('01 02 ', '')
    """
    if not arguments:
        return ""
    template, values = arguments[0].replace("\\n", "\n").replace("\\t", "\t"), arguments[1:]
    pieces = re.split(r"(%[-+0 ]*\d*(?:\.\d+)?[sdifgqb%])", template)
    slots = sum(1 for p in pieces if p.startswith("%") and p != "%%")
    out = ""
    for start in range(0, max(len(values), 1), max(slots, 1)):
        row = iter(values[start : start + slots])
        for piece in pieces:
            if not re.fullmatch(r"%.*[sdifgqb%]", piece):
                out += piece
            elif piece == "%%":
                out += "%"
            else:
                out += _format(piece, next(row, ""))
        if not slots or len(out) > 100_000:
            break
    return out


def _format(piece: str, value: str) -> str:
    width = re.search(r"\d+", piece)
    if width and int(width[0]) > 1000:
        return value
    try:
        if piece[-1] in "di":
            return (piece[:-1] + "d") % int(value or 0)
        if piece[-1] in "fg":
            return piece % float(value or 0)
        return (piece[:-1] + "s") % value
    except (ValueError, TypeError):
        return value


def _files(name: str, arguments: list[str], stdin: str | None, shell: Interpreter) -> str | None:
    paths = [a for a in arguments if not a.startswith("-")]
    if name == "tee":
        for path in paths:
            if stdin is not None and w.is_known(path):
                shell.files.write(path, stdin, append="-a" in arguments)
        return stdin or ""
    if name == "envsubst":
        return envsubst(stdin or "", shell)
    if name == "yq":
        text = shell.files.read(paths[-1], wanted=False) if len(paths) > 1 else stdin
        return yaml_flags(paths[0], text, paths[-1]) if text and paths else None
    if not paths:
        return stdin if stdin is not None else ""
    texts = [shell.files.read(p, wanted=False) for p in paths]
    return "".join(t for t in texts if t) if any(t is not None for t in texts) else None


def envsubst(text: str, shell: Interpreter) -> str:
    """Replace `$NAME` and `${NAME}` by the script's variables; what is unset keeps its marker."""
    return re.sub(r"\$\{(\w+)\}|\$([A-Za-z_]\w*)", lambda m: shell.scope.text(m[1] or m[2]), text)


def yaml_flags(query: str, text: str, file: str = "") -> str | None:
    """The `key value` lines that a query over one mapping of a YAML file prints; `false` drops a flag, `true` bares it."""
    from autotune.yaml_lines import parse

    section = re.search(r"\.([A-Z_]{3,})\b", query)
    data = parse(text, file).data
    mapping = data.get(section[1]) if section and isinstance(data, dict) else None
    if not isinstance(mapping, dict):
        return None
    single = re.search(r"\.\"(--[\w-]+)\"", query)
    if single:
        return str(mapping.get(single[1], "")) + "\n"
    joiner = "=" if '"="' in query else " "
    lines = []
    for key, value in mapping.items():
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        if joiner == " " and shown == "false":
            continue
        lines.append(f"{key}{joiner}{'' if joiner == ' ' and shown == 'true' else shown}")
    return "\n".join(lines) + "\n"


def _dirname(arguments: list[str], _: str) -> str:
    return "".join((posixpath.dirname(a) or ".") + "\n" for a in arguments if a != "--")


def _basename(arguments: list[str], _: str) -> str:
    words = [a for a in arguments if not a.startswith("-")]
    name = posixpath.basename(words[0].rstrip("/")) if words else ""
    return (name.removesuffix(words[1]) if len(words) > 1 else name) + "\n"


def _path(arguments: list[str], _: str) -> str:
    return "".join(posixpath.normpath(a) + "\n" for a in arguments if not a.startswith("-"))


def _seq(arguments: list[str], _: str) -> str | None:
    numbers = [a for a in arguments if re.fullmatch(r"-?\d+", a)]
    if len(numbers) != len(arguments) or not numbers:
        return None
    first = int(numbers[0]) if len(numbers) > 1 else 1
    step = int(numbers[1]) if len(numbers) > 2 else 1
    values = range(first, int(numbers[-1]) + (1 if step > 0 else -1), step or 1)
    return "".join(f"{v}\n" for v in values[:5000])


def _wc(arguments: list[str], stdin: str) -> str | None:
    if not w.is_known(stdin):
        return None
    if "-w" in arguments:
        return f"{len(stdin.split())}\n"
    return f"{stdin.count(chr(10))}\n" if "-l" in arguments else f"{len(stdin)}\n" if "-c" in arguments else None


def _tr(arguments: list[str], stdin: str) -> str | None:
    if len(arguments) != 2:
        return None
    if arguments[0] == "-d":
        return "".join(c for c in stdin if c not in arguments[1].replace("\\n", "\n"))
    classes = {"[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "[:lower:]": "abcdefghijklmnopqrstuvwxyz", "A-Z": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "a-z": "abcdefghijklmnopqrstuvwxyz"}
    a, b = (classes.get(x, x.replace("\\n", "\n")) for x in arguments)
    if not w.is_known(stdin) and any(c.isalpha() for c in a):
        return stdin
    return stdin.translate({ord(c): b[min(i, len(b) - 1)] for i, c in enumerate(a)}) if b else None


def _cut(arguments: list[str], stdin: str) -> str | None:
    joined = " ".join(arguments)
    delimiter = re.search(r"-d ?['\"]?(.)", joined)
    field = re.search(r"-f ?(\d+)(-?)", joined)
    if not delimiter or not field:
        return None
    n = int(field[1]) - 1
    rows = [line.split(delimiter[1]) for line in stdin.splitlines()]
    return "".join(delimiter[1].join(r[n:] if field[2] else r[n : n + 1]) + "\n" for r in rows)


def _head(arguments: list[str], stdin: str) -> str:
    count = next((int(m[1]) for a in arguments if (m := re.fullmatch(r"-?n?(\d+)", a))), 10)
    return "".join(line + "\n" for line in stdin.splitlines()[:count])


def _expr(arguments: list[str], _: str) -> str | None:
    from autotune.reader.bash_arith import Arithmetic, ArithmeticFailed

    try:
        value = Arithmetic(lambda _: None, lambda *_: None).value(" ".join(arguments))
    except ArithmeticFailed:
        return None
    return None if value is None else f"{value}\n"


def _bc(_: list[str], stdin: str) -> str | None:
    return _expr([line for line in stdin.splitlines() if "=" not in line or "==" in line][:1], "") if w.is_known(stdin) else None


def _xargs(arguments: list[str], stdin: str) -> str | None:
    return None if arguments else " ".join(stdin.split()) + "\n"


_TOOLS: dict[str, Callable[[list[str], str], str | None]] = {
    "dirname": _dirname, "basename": _basename, "readlink": _path, "realpath": _path, "seq": _seq, "wc": _wc, "tr": _tr, "cut": _cut,
    "head": _head, "expr": _expr, "bc": _bc, "xargs": _xargs,
}
