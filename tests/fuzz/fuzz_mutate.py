"""Damages files: bytes, lines, words, and the values of YAML and JSON. Everything follows from the generator given."""

from __future__ import annotations

import copy
import json
import random
import re
from typing import Any

from autotune.load import dump_yaml, read_yaml

NUMBERS: list[Any] = [
    0, -1, 1, 2, 3, 7, 1.5, 0.1, 1e-300, 1e300, -1e300, 2**31, 2**53, 2**63, 2**64, 10**25, 10**400, -(10**400), 1e15, 99999999, 1048577,
    float("nan"), float("inf"), -float("inf"), 5e-324,
]  # fmt: skip
TEXTS = [
    "", " ", "x", "nan", "inf", "-inf", "1e9999", "0x10", "1_000", "yes", "null", "~", "\u00e9\u4e2d\U0001f600", "a" * 3000, "../../etc/passwd", "/dev/zero",
    "{{x}}", "${HOME}", "$(id)", "`id`", "%s%n", "<x>", "&amp;", "\u202egnp", "\u2028", "\t", "-", "--", "=", "[1-9", "rail-only", "H100-80GB-SXM", "none", "bf16",
    "megatron-core", "full", "'", '"', "\\", "[bold]x[/nothing]", "[/]", "a.b", "<<", "1.5.2", "0b1", "١٢", "½", "²", "\ud800",
]  # fmt: skip
_NASTY_WORDS = [str(n) if abs(n) < 1e30 or n != n else repr(float(n)) if isinstance(n, float) else "9" * 400 for n in NUMBERS] + [
    t for t in TEXTS if t.isprintable() and t
]
_SNIPPETS = [
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"\r", b"\t", b"\x1b[31m", b"\xc3", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"&a ", b"*a ", b"!!python/object:os.system ",
    b"!!binary ", b"<<: *a\n", b"---\n", b"...\n", b"%YAML 9.9\n", b": ", b"- ", b"? ", b"{", b"}", b"[", b"]", b"'", b'"', b"|\n", b">\n", b"#", b"\\\n", b"${", b"$((", b"`", b"<<EOF\n",
    b"<!DOCTYPE x [<!ENTITY e 'eeee'>]>", b"&e;", b"<![CDATA[", b"]]>", b"<!--", b"</", b"/>", b"\n\n", b"NaN", b"Infinity", b"1e999", b"9" * 400, b"[" * 200, b"{a: " * 100, b"(" * 300,
    b"a: &a [x,x]\nb: &b [*a,*a,*a]\n", b"while true; do :; done\n", b"done\n", b"fi\n", b"if true; then\n", b"{1..999999999}", b"exit\n", b"\xf0\x9f\x98\x80",
]  # fmt: skip


def damage(rng: random.Random, data: bytes) -> bytes:
    """The bytes with one to three kinds of damage, now and then with many."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 8))):
        data = rng.choice(_DAMAGES)(rng, data)
    return data[: 1 << 20]


def damage_values(rng: random.Random, data: bytes) -> bytes:
    """YAML or JSON with some of its values, keys or nesting replaced; other text goes through `damage`."""
    value = _parsed(data)
    if not isinstance(value, (dict, list)) or not value:
        return damage(rng, data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = _change(rng, value)
    try:
        if data.lstrip()[:1] == b"{" or rng.random() < 0.3:
            return json.dumps(value, indent=rng.choice((None, 1))).encode()
        return dump_yaml(value).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):  # an integer too long to print, or nested too deep for the writer
        return damage(rng, data)


_parses: dict[bytes, Any] = {}


def _parsed(data: bytes) -> Any:
    import tempfile
    from pathlib import Path

    from autotune.errors import InputError

    if data not in _parses:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "f.yaml"
            path.write_bytes(data)
            try:
                _parses[data] = read_yaml(path)
            except InputError:
                _parses[data] = None
    return copy.deepcopy(_parses[data])


def _change(rng: random.Random, value: Any) -> Any:
    places = [p for p in _places(value) if p]
    if not places:
        return rng.choice([None, [], {}, 1, "x", [1], {"a": 1}])
    path = rng.choice(places)
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    last = path[-1]
    action = rng.randrange(9)
    if action == 0:
        del parent[last]
    elif action == 1 and isinstance(parent, dict):  # a renamed key, others kept in their order
        items = [(_misspelt(rng, k) if k == last else k, v) for k, v in parent.items()]
        parent.clear()
        parent.update(items)
    elif action == 2 and isinstance(parent, dict):
        parent[rng.choice(["x", "", "<<", "a.b", "plans", "plan", "name", "calibration", "search", "options", "sources", "model_type", "\n", "k" * 400])] = unpleasant(rng)
    elif action == 3 and type(parent[last]) in (int, float) and abs(parent[last]) < 1e300:
        parent[last] = parent[last] * rng.choice([-1, 0.5, 1.0, 2, 3, 1e6, 10**9, 1e300]) if rng.random() < 0.7 else str(parent[last])
    elif action == 4:
        parent[last] = rng.choice([[parent[last]], {"a": parent[last]}, [parent[last]] * 3, {"min": parent[last], "max": parent[last]}])
    elif action == 5:
        other = value
        for key in rng.choice(places):
            other = other[key]
        parent[last] = copy.deepcopy(other)
    else:
        parent[last] = unpleasant(rng)
    return value


def unpleasant(rng: random.Random) -> Any:
    """A value that few keys expect."""
    kind = rng.randrange(10)
    if kind < 4:
        return rng.choice(NUMBERS)
    if kind < 7:
        return rng.choice(TEXTS)
    if kind < 9:
        return copy.deepcopy(rng.choice([None, True, False, [], [[]], [None], [1, 1], ["a", 1], {}, {"a": None}, {"": 1}, [[[[1]]]], {"min": 1, "max": 2}, {"min": 2, "max": 1, "step": 0}, [8, "8", 8.0], list(range(2000))]))  # fmt: skip
    deep: Any = 1
    for _ in range(rng.choice((5, 39, 60, 300))):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    return deep


def _places(value: Any, path: tuple = ()) -> list[tuple]:
    found, stack = [], [(value, path)]
    while stack and len(found) < 2000:
        node, here = stack.pop()
        found.append(here)
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        stack += [(child, (*here, key)) for key, child in items]
    return found


def _misspelt(rng: random.Random, key: str) -> str:
    at = rng.randrange(len(key) + 1)
    return rng.choice([key[:at] + key[at + 1 :], key[:at] + "x" + key[at:], key.upper(), key.replace("_", "-"), key + " ", "\u0430" + key])


def _flip(rng: random.Random, data: bytes) -> bytes:
    raw = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        if raw:
            raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(raw)


def _truncate(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] if rng.random() < 0.8 else data[at:]


def _splice(rng: random.Random, data: bytes) -> bytes:
    i, j = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return rng.choice((data[:i] + data[j:], data[:j] + data[i:], data[:i] + data[i:j] * 3 + data[j:]))


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_SNIPPETS) + data[at:]


def _lines(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    action = rng.randrange(7)
    if action == 0:
        lines[i], lines[j] = lines[j], lines[i]
    elif action == 1:
        lines.insert(j, lines[i])
    elif action == 2:
        del lines[i]
    elif action == 3:
        lines[i] = rng.choice([b"  ", b"\t", b"- ", b"? ", b"&a ", b"*a ", b"# ", b"!!str ", b"export ", b"\xc2\xa0"]) + lines[i]
    elif action == 4:
        lines[i] += rng.choice([b"}", b"]", b",", b'"', b"'", b" #", b" : 1", b"\\", b" \\", b" &", b" |", b";", b"\xe2\x80\xa8"])
    elif action == 5:
        lines[i] = lines[i].lstrip() if rng.random() < 0.5 else lines[i][:-1]
    else:
        rng.shuffle(lines)
    return b"\n".join(lines)


def _words(rng: random.Random, data: bytes) -> bytes:
    """One to three words or numbers replaced by nasty ones or by words from elsewhere in the file."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        found = list(re.finditer(rb"[\w.+]+", data[:200_000]))
        if not found:
            return data
        spot = rng.choice(found)
        word = rng.choice(found)[0] if rng.random() < 0.4 else rng.choice(_NASTY_WORDS).encode("utf-8", "surrogatepass")
        data = data[: spot.start()] + word + data[spot.end() :]
    return data


def _numbers(rng: random.Random, data: bytes) -> bytes:
    found = list(re.finditer(rb"\d+", data[:200_000]))
    if not found:
        return data
    spot = rng.choice(found)
    number = rng.choice([b"0", b"-1", b"1", b"3", b"7", b"1.5", b"9" * 30, b"9" * 400, b"0" + spot[0], b"1e400", b"nan", spot[0] + b"0" * 9, b"0x1F", b"08"])
    return data[: spot.start()] + number + data[spot.end() :]


def _encode(rng: random.Random, data: bytes) -> bytes:
    action = rng.randrange(6)
    if action == 0:
        return data.replace(b"\n", b"\r\n")
    if action == 1:
        return b"\xef\xbb\xbf" + data
    if action == 2:
        return data.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-16-le", "utf-32")))
    if action == 3:
        return data.replace(b"\n", b"\r")
    if action == 4:
        return data.replace(b" ", rng.choice((b"\t", b"", b"\xc2\xa0", b"\xe2\x80\x83")))
    return data.replace(b":", rng.choice((b"=", b"::", b":\n", b"\xef\xbc\x9a")), rng.choice((1, -1)))


_DAMAGES = (_flip, _truncate, _splice, _insert, _insert, _lines, _lines, _words, _words, _words, _numbers, _numbers, _encode)
