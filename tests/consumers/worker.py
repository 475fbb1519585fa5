"""Talks to a worker process in the consumers environment: JSON lines out, JSON lines back."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHON = Path(os.environ.get("AUTOTUNE_CONSUMERS", ROOT / ".venv-consumers")) / "bin" / "python"


def available() -> bool:
    """Whether the environment has been made (scripts/setup_consumers.sh)."""
    return PYTHON.exists()


class Worker:
    """One warm worker process."""

    def __init__(self, script: str) -> None:
        env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR", "AUTOTUNE_MEGATRON_DIR")}
        env |= {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1", "PYTHONNOUSERSITE": "1"}
        self._log = open(os.devnull, "w")  # noqa: SIM115
        self._process = subprocess.Popen(
            [str(PYTHON), "-P", str(HERE / script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=env
        )
        self.versions: dict[str, Any] = self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while True:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"the worker ended with {self._process.wait()}")
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request, one answer. Raises when the worker itself failed."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._receive()
        if answer.get("verdict") == "broken":
            raise RuntimeError(answer["message"])
        return answer

    def close(self) -> None:
        """End the worker."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._log.close()
