"""Output folders: all files or none, and nothing of the user's overwritten.

Files go to a hidden sibling folder first; leaving the `with` block without an error moves it into place in one rename.
A crash leaves the old folder or the new one, never half of each. With `force`, files that were there and are not written
again are kept.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from autotune.errors import InputError


class OutputFolder:
    """A folder written atomically.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "out"
    >>> with OutputFolder(target) as out:
    ...     _ = out.write("a/b.txt", "hello")
    >>> (target / "a/b.txt").read_text()
    'hello'
    >>> OutputFolder(target).__enter__()
    Traceback (most recent call last):
    autotune.errors.InputError: ... already exists and is not empty; choose another folder or pass --force
    """

    def __init__(self, path: str | Path, force: bool = False) -> None:
        self.path = Path(path)
        self.force = force

    def __enter__(self) -> OutputFolder:
        if self.path.exists() and not self.path.is_dir():
            raise InputError.of(f"{self.path} exists and is not a folder")
        if self.path.is_dir() and any(self.path.iterdir()) and not self.force:
            raise InputError.of(f"{self.path} already exists and is not empty; choose another folder or pass --force")
        here, home = Path.cwd().resolve(), Path.home().resolve()
        if self.force and (self.path.resolve() in (here, *here.parents, home, *home.parents)):
            raise InputError.of(f"{self.path} holds the working or home folder; choose a folder of its own")
        parent = self.path.absolute().parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self._stage = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", dir=parent))
            if self.path.is_dir():
                shutil.copytree(self.path, self._stage, symlinks=True, dirs_exist_ok=True)
        except OSError as e:
            raise InputError.of(f"cannot write to {parent}: {e.strerror}") from None
        return self

    def file(self, name: str) -> Path:
        """The path of a file to be written in the staged folder, its parents made."""
        path = self._stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, text: str, executable: bool = False) -> Path:
        """Write one text file."""
        path = self.file(name)
        path.write_text(text, encoding="utf-8")
        if executable:
            path.chmod(0o755)
        return path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            shutil.rmtree(self._stage, ignore_errors=True)
            return
        os.chmod(self._stage, 0o755)
        old = None
        if self.path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.old.", dir=self._stage.parent)) / "old"
            os.rename(self.path, old)
        os.rename(self._stage, self.path)
        if old is not None:
            shutil.rmtree(old.parent, ignore_errors=True)
