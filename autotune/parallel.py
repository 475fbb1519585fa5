"""Where work runs: the only module that imports joblib.

The kernel releases the GIL, so threads share one compiled copy and one price table; they come from the standard
library, because joblib looks for finished threads every 10 ms and a batch of cells takes only some tens of them. Processes
and clusters (loky, dask) are joblib's. Results come back in order, whatever the backend.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def default_jobs() -> int:
    """CPUs this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:
        return os.cpu_count() or 1


def run_parallel(function: Callable[..., Any], argument_lists: Iterable[tuple[Any, ...]], jobs: int = 0, backend: str = "threading") -> list[Any]:
    """`function(*arguments)` for each tuple, in order. `jobs` 0 = all CPUs, 1 = in this thread without joblib.

    >>> run_parallel(pow, [(2, 3), (3, 2)], jobs=2)
    [8, 9]
    """
    items = list(argument_lists)
    jobs = jobs or default_jobs()
    if jobs == 1 or len(items) <= 1:
        return [function(*arguments) for arguments in items]
    workers = min(jobs, len(items))
    if backend == "threading":
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda arguments: function(*arguments), items))
    import joblib

    return list(joblib.Parallel(n_jobs=workers, backend=backend)(joblib.delayed(function)(*a) for a in items))
