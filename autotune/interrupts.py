"""Ctrl-C at a moment that does no harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the block is done, then raise KeyboardInterrupt. For short work that must not stop half-way.

    Only the main thread can do so; in others, which Ctrl-C does not reach, the block simply runs.

    >>> import os
    >>> done = []
    >>> try:
    ...     with uninterrupted():
    ...         os.kill(os.getpid(), signal.SIGINT)
    ...         done.append("all of it")
    ... except KeyboardInterrupt:
    ...     done.append("then stop")
    >>> done
    ['all of it', 'then stop']
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt
