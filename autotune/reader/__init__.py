"""Reads launch scripts and configurations that people already have, without running anything.

`read` takes a bash, Slurm, YAML, JSON, TOML, Python or Kubernetes file and gives the model, the plan and the size of
the job it would start, what was assumed, and the names of what cannot be known from it.
"""

from __future__ import annotations

from pathlib import Path

from autotune.errors import InputError
from autotune.reader.recovered import Recovered, model_spec, plan_of

__all__ = ["Recovered", "model_spec", "plan_of", "read"]

MAX_SCRIPT = 100_000  # characters; four times the longest script seen
_CONFIGURATIONS = (".yaml", ".yml", ".json", ".toml")


def read(
    path: str | Path,
    settings: dict[str, str] | None = None,
    arguments: list[str] | None = None,
    which: int | None = None,
    per_node: int | None = None,
    also: list[str | Path] | None = None,
) -> Recovered:
    """The facts of a launch script or configuration.

    `settings` are variables to supply (`NNODES=8`), `arguments` the script's positional arguments, `which` the training
    command to take where there are several, `per_node` the GPUs of a node where the file does not say, `also` further
    files of the same job. Raises InputError when no training can be found in it.
    """
    from autotune.reader import configurations, scripts
    from autotune.reader.companions import Companions
    from autotune.reader.configurations import Setting
    from autotune.textfile import read_text

    file = Path(path)
    text = read_text(file)
    settings = dict(settings or {})
    if _is_manifest(text):
        return _manifest(file, text, settings, per_node)
    looks_like_python = file.suffix == ".py"
    if file.suffix.lower() in _CONFIGURATIONS or looks_like_python:
        more = {str(extra): read_text(Path(extra)) for extra in also or []}
        return configurations.read(file, text, more, Setting(settings, Companions(file), None, per_node))
    if len(text) > MAX_SCRIPT:
        raise InputError.of(f"is a script of {len(text):,} characters; at most {MAX_SCRIPT:,} are followed", str(file))
    return scripts.read(file, text, settings, list(arguments or []), which, per_node)


def _is_manifest(text: str) -> bool:
    from autotune.reader import kubernetes

    return kubernetes.looks_like(text)


def _manifest(file: Path, text: str, settings: dict[str, str], per_node: int | None) -> Recovered:
    from autotune.reader import kubernetes, scripts
    from autotune.reader.companions import Companions
    from autotune.reader.launchers import peel

    files = Companions(file)
    found = [(scripts.Command(peel(launch), files), counts) for launch, counts in kubernetes.launches(text, settings, str(file))]
    found = [pair for pair in found if pair[0].score >= 2]
    if not found:
        raise InputError.of("no container of this manifest launches training", str(file))
    command, counts = max(found, key=lambda pair: pair[0].score)
    return scripts.interpret(command, settings, per_node, counts)
