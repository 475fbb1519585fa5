"""Reads an input file as text, or says plainly why it cannot: missing, a folder, a pipe, too large, not UTF-8."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from autotune.errors import InputError, did_you_mean

MAX_BYTES = 8 << 20


def read_text(path: str | Path) -> str:
    """The text of a regular file of at most 8 MiB; `-` reads standard input. InputError otherwise.

    >>> read_text("no/such/file.yaml")
    Traceback (most recent call last):
    autotune.errors.InputError: no such file at no/such/file.yaml
    """
    name = str(path)
    return _decode(_standard_input() if name == "-" else _read_bytes(name), name)


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise InputError.of("is closed", "standard input")
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    except (OSError, ValueError) as e:
        raise InputError.of(f"cannot be read: {e}", "standard input") from None
    if len(data) > MAX_BYTES:
        raise InputError.of(f"is longer than {MAX_BYTES >> 20} MiB", "standard input")
    return data


def _read_bytes(name: str) -> bytes:
    if "\0" in name:
        raise InputError.of("a file name cannot hold NUL", name.replace("\0", "\\0"))
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer before its kind can be seen.
        handle = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        if os.path.islink(name):
            raise InputError.of(f"is a link to {os.readlink(name)}, which does not exist", name) from None
        raise InputError.of(f"no such file{_neighbour(name)}", name) from None
    except (OSError, ValueError) as e:
        raise InputError.of(f"cannot be read: {getattr(e, 'strerror', None) or e}", name) from None
    try:
        _check_kind(os.fstat(handle), name)
        with os.fdopen(handle, "rb", closefd=False) as f:
            data = f.read(MAX_BYTES + 1)
    except OSError as e:
        raise InputError.of(f"cannot be read: {e.strerror or e}", name) from None
    finally:
        os.close(handle)
    if len(data) > MAX_BYTES:
        raise InputError.of(f"is larger than {MAX_BYTES >> 20} MiB", name)
    return data


def _check_kind(kind: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(kind.st_mode):
        raise InputError.of("is a folder, not a file", name)
    if not stat.S_ISREG(kind.st_mode):
        raise InputError.of("is not a regular file (a pipe or device); pass '-' to read standard input", name)
    if kind.st_size > MAX_BYTES:
        raise InputError.of(
            f"is {kind.st_size / (1 << 20):.0f} MiB; input files are at most {MAX_BYTES >> 20} MiB", name
        )


def _decode(data: bytes, name: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError.of("is UTF-16 text; save it as UTF-8", name, 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        raise InputError.of(f"is not UTF-8 text (byte {data[e.start]:#04x})", name, line) from None
    if "\0" in text:
        raise InputError.of("holds NUL bytes; not a text file", name, text[: text.index("\0")].count("\n") + 1)
    return text


def _neighbour(name: str) -> str:
    folder, base = os.path.split(name)
    try:
        return did_you_mean(base, sorted(os.listdir(folder or "."))[:2000])
    except OSError:
        return ""
