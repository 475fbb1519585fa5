"""Progress of long work on stderr: a live line on a terminal, a plain line every few seconds elsewhere, nothing under -q."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from autotune.output import verbosity


class Progress:
    """`with Progress("search", total) as p: p.update(done, "best 1.2 s")`."""

    def __init__(self, name: str, total: float, unit: str = "", interval_s: float = 2.0) -> None:
        self.name, self.total, self.unit, self.interval_s = name, total, unit, interval_s
        self.live = sys.stderr.isatty()
        self.start = self.last = time.monotonic()
        self.shown = False

    def __enter__(self) -> Progress:
        return self

    def update(self, done: float, text: str = "") -> None:
        """Report `done` of `total`; drawn at most a few times a second."""
        now = time.monotonic()
        if verbosity() < 0 or now - self.last < (0.2 if self.live else self.interval_s):
            return
        self.last = now
        elapsed = now - self.start
        share = done / self.total if self.total else 1.0
        left = elapsed * (1 - share) / share if share > 0 else 0.0
        rate = f", {done / elapsed:,.0f} {self.unit}/s" if self.unit and elapsed > 0 else ""
        line = f"{self.name}: {share:4.0%}{rate}, {left:.0f} s left{', ' + text if text else ''}"
        if self.live:
            sys.stderr.write("\r\x1b[K" + line)
            sys.stderr.flush()
        else:
            print(line, file=sys.stderr)
        self.shown = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.live and self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
