"""Files that a script names: sourced files, configurations, job scripts. Read, never run, and only near the script."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from autotune.reader import bash_words as w

MAX_BYTES = 4_000_000
_LEVELS = 6


class Companions:
    """Finds and reads files below the folders that hold the script.

    A script is written for another machine, so a path in it rarely exists here. Its longest tail that exists under the
    script's folder or one of its parents (up to a repository's root) is taken. Texts a script writes itself, such as
    a here-document into a JSON file, come first.
    """

    def __init__(self, script: Path | None) -> None:
        self._written: dict[str, str] = {}
        self._roots = _roots(script) if script else []
        self.missing: dict[str, None] = {}
        self.found: dict[str, str] = {}

    def write(self, path: str, text: str, append: bool = False) -> None:
        """Keep what the script would write to a file."""
        key = _key(path)
        self._written[key] = (self._written.get(key, "") if append else "") + text

    def locate(self, path: str) -> Path | None:
        """Where the named file is, None if it is not within reach."""
        parts = [p for p in PurePosixPath(w.readable(path)).parts if p not in ("/", ".", "..")]
        for cut in range(len(parts)):
            tail = parts[cut:]
            if any(part.startswith("$") for part in tail):
                continue
            for root in self._roots:
                candidate = root.joinpath(*tail)
                if _readable(candidate, root):
                    return candidate
        return None

    def read(self, path: str, wanted: bool = True) -> str | None:
        """The text of a file, from the script's own writing or from disk; None (and remembered as missing) if neither."""
        key = _key(path)
        if key in self._written:
            return self._written[key]
        by_name = [t for k, t in self._written.items() if PurePosixPath(k).name == PurePosixPath(key).name]
        found = self.locate(path)
        if found is not None:
            text = found.read_text(encoding="utf-8", errors="replace")
            self.found[w.readable(path)] = str(found)
            return text
        if by_name:
            return by_name[-1]
        if wanted:
            self.missing.setdefault(w.readable(path))
        return None


def _key(path: str) -> str:
    return str(PurePosixPath(w.readable(path)))


def _roots(script: Path) -> list[Path]:
    folder = script.resolve().parent
    roots = []
    for level in [folder, *folder.parents][:_LEVELS]:
        if len(level.parts) <= 2 or level == Path.home():
            break
        roots.append(level)
        if (level / ".git").exists():
            break
    return roots


def _readable(path: Path, root: Path) -> bool:
    try:
        real = path.resolve()
        return real.is_file() and real.is_relative_to(root) and real.stat().st_size <= MAX_BYTES
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, a loop of links
        return False
