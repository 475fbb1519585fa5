"""Redirections: here-documents into files and commands, here-strings, `< file`, `> file`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from autotune.reader import bash_words as w
from autotune.reader.bash_syntax import text_of
from autotune.reader.bash_test import Answer

if TYPE_CHECKING:
    from autotune.reader.bash_eval import Interpreter

_REDIRECTS = ("file_redirect", "heredoc_redirect", "herestring_redirect")


def redirected(shell: Interpreter, node: Any) -> Answer:
    """A statement with redirections: its input is supplied, its output kept as the file it would write."""
    from autotune.reader.bash_eval import Input

    body = [c for c in node.children if c.is_named and c.type not in _REDIRECTS]
    redirects = [c for c in node.children if c.type in _REDIRECTS]
    saved = shell.stdin
    pipeline: list[Any] = []
    for redirect in list(redirects):
        if redirect.type == "heredoc_redirect":
            shell.stdin = Input(heredoc(shell, redirect))
            redirects += [c for c in redirect.children if c.type == "file_redirect"]
            pipeline += [c for c in redirect.children if c.type in ("pipeline", "command", "list")]
        elif redirect.type == "herestring_redirect":
            shell.stdin = Input(shell.expander.text(text_of(redirect).lstrip("< ")) + "\n")
        else:
            given = _input(shell, redirect)
            if given is not None:
                shell.stdin = Input(given)
    target = next((t for r in redirects if (t := _target(r))), None)
    kept = bool(target or pipeline)
    if kept:
        shell.captures.append([])
    try:
        answer = shell.statements(body)
    finally:
        out = "".join(shell.captures.pop()) if kept else ""
        shell.stdin = saved
    if target:
        shell.files.write(shell.expander.text(target[0]), out, append=target[1])
    if pipeline:
        shell.stdin = Input(out)
        shell.statements(pipeline)
        shell.stdin = saved
    return answer


def heredoc(shell: Interpreter, redirect: Any) -> str:
    """The text of a here-document, expanded unless its delimiter is quoted."""
    start = next((text_of(c) for c in redirect.children if c.type == "heredoc_start"), "")
    body = next((text_of(c) for c in redirect.children if c.type == "heredoc_body"), "")
    if text_of(redirect).startswith("<<-"):
        body = re.sub(r"^\t+", "", body, flags=re.MULTILINE)
    return body if re.search(r"['\"\\]", start) else shell.expander.heredoc(body)


def _input(shell: Interpreter, redirect: Any) -> str | None:
    text = text_of(redirect)
    match = re.match(r"(?:0?<)\s*(.*)", text, re.DOTALL)
    if not match or text.startswith(("<&", "<<")):
        return None
    if match[1].startswith("<("):
        return shell.substitute(match[1][2:-1])
    return shell.files.read(shell.expander.text(match[1]), wanted=False) or ""


def _target(redirect: Any) -> tuple[str, bool] | None:
    match = re.match(r"1?(>>|>\|?)\s*([^&\s].*)", text_of(redirect), re.DOTALL)
    return (match[2], match[1] == ">>") if match and match[2] != "/dev/null" else None


def without_redirects(node: Any) -> tuple[list[str], list[str], Any | None]:
    """Assignments and raw words of a command node, and its here-string if it has one."""
    source = node.text
    pieces: list[bytes] = []
    assignments: list[str] = []
    herestring = None
    at = 0
    for child in node.children:
        begin, end = child.start_byte - node.start_byte, child.end_byte - node.start_byte
        if child.type == "variable_assignment" and not pieces and not source[at:begin].replace(b"\\\n", b"").strip():
            assignments.append(text_of(child))
            at = end
        elif child.type in _REDIRECTS:
            pieces.append(source[at:begin])
            at = end
            herestring = child if child.type == "herestring_redirect" else herestring
    pieces.append(source[at:])
    words = w.split_words(b" ".join(pieces).decode("utf-8", "replace"))
    return assignments, [x for x in words if not re.fullmatch(r"\d*[<>]{1,2}&?[\w/.-]*|&>+.*", x)], herestring
