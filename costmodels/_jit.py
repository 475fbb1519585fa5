"""The one place that owns compiler flags and the on-disk cache.

Every formula is a plain scalar function under `jit`; `.py_func` is the same function uncompiled and must agree bit
for bit (fastmath off, `error_model="numpy"`). Numba's cache looks only at the file of the decorated function, so the
cache folder is named by a hash of every costmodels and searchspaces source, the versions and the CPU: an edit
anywhere gives a new folder. Under pytest nothing is cached.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

# Level 1 compiles the kernel in two thirds of the time of level 3 and runs it no slower: the code is scalar and branchy.
os.environ.setdefault("NUMBA_OPT", "1")

import llvmlite  # noqa: E402
import numba  # noqa: E402
import numpy  # noqa: E402

F = TypeVar("F", bound=Callable[..., Any])

_FLAGS: dict[str, Any] = {"fastmath": False, "error_model": "numpy", "nogil": True}


def model_hash() -> str:
    """Hash of all compiled sources: what a stored prediction depends on besides its inputs.

    >>> len(model_hash())
    64
    """
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for package in ("costmodels", "searchspaces"):
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def source_hash() -> str:
    """Hash of all compiled sources, library versions and the CPU model.

    >>> len(source_hash())
    16
    """
    versions = (numba.__version__, llvmlite.__version__, numpy.__version__, platform.python_version())
    machine = (platform.machine(), getattr(numba.config, "CPU_NAME", None), _cpu_name())
    return hashlib.sha256(repr((model_hash(), versions, machine)).encode()).hexdigest()[:16]


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as f:
            return next((line for line in f if line.startswith("model name")), "")
    except OSError:
        return platform.processor()


def _cache_enabled() -> bool:
    return "pytest" not in sys.modules and os.environ.get("AUTOTUNE_NO_CACHE", "") == ""


def _set_cache_folder() -> bool:
    if not _cache_enabled():
        return False
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "autotune" / "numba" / source_hash()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    setattr(numba.config, "CACHE_DIR", str(folder))  # noqa: B010 (numba fills this module at run time)
    _drop_old(folder)
    return True


def _drop_old(folder: Path, keep: int = 4) -> None:
    # Each edit or upgrade leaves a folder behind; the newest few are kept for checkouts side by side.
    try:
        others = sorted((f for f in folder.parent.iterdir() if f != folder), key=lambda f: f.stat().st_mtime, reverse=True)
        for old in others[keep - 1 :]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        pass


_CACHE = _set_cache_folder()


def jit(function: F) -> F:
    """Compile a scalar formula.

    >>> @jit
    ... def double(x):
    ...     return 2 * x
    >>> double(3), double.py_func(3)
    (6, 6)
    """
    # Numba refuses to cache functions without a source file (doctests, the REPL).
    cache = _CACHE and Path(function.__code__.co_filename).is_file()
    return numba.njit(cache=cache, **_FLAGS)(function)  # type: ignore[no-any-return]
