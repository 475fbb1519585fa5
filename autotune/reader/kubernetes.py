"""Kubernetes manifests of training jobs, also as templates with `${NAME}` holes."""

from __future__ import annotations

import re
from typing import Any

from autotune.errors import InputError
from autotune.reader import bash_words as w
from autotune.reader.bash_eval import Launch
from autotune.reader.flags import integer
from autotune.reader.recovered import Recovered
from autotune.yaml_lines import parse

_KINDS = ("PyTorchJob", "MPIJob", "Job", "JobSet", "TrainJob", "RayJob", "Pod", "StatefulSet", "Deployment")


def looks_like(text: str) -> bool:
    """Whether a text is a Kubernetes manifest."""
    return bool(re.search(r"^apiVersion:", text, re.MULTILINE) and re.search(r"^kind:", text, re.MULTILINE))


def launches(text: str, settings: dict[str, str], file: str) -> list[tuple[Launch, dict[str, str]]]:
    """The container commands of a manifest, each with the counts it states (nodes, GPUs of a node).

    `${NAME}` takes its value from `settings`; a hole without one keeps a marker, so that it can be asked for.
    """
    filled = re.sub(r"\$\{(\w+)\}", lambda m: settings.get(m[1]) or w.unset(m[1]), text)
    result = []
    for document in re.split(r"^---\s*$", filled, flags=re.MULTILINE):
        try:
            data = parse(document, file).data
        except InputError:
            continue
        if isinstance(data, dict) and data.get("kind") in _KINDS:
            result += [found for found in _containers(data, settings)]
    return result


def _containers(data: Any, settings: dict[str, str], replicas: str = "", depth: int = 0) -> list[tuple[Launch, dict[str, str]]]:
    if depth > 30:
        return []
    if isinstance(data, list):
        return [x for item in data for x in _containers(item, settings, replicas, depth + 1)]
    if not isinstance(data, dict):
        return []
    own = data.get("replicas", data.get("completions"))
    replicas = str(own) if own is not None else replicas
    result = []
    for container in data.get("containers") or []:
        if isinstance(container, dict):
            words = [str(x) for key in ("command", "args") for x in (container.get(key) or []) if not isinstance(x, dict)]
            if words:
                counts = {"nodes": replicas, "gpus_per_node": _gpus(container)}
                env = {str(e.get("name")): str(e.get("value", "")) for e in container.get("env") or [] if isinstance(e, dict)}
                result.append((Launch(words, [], {**settings, **env}, {}, 0), counts))
    for key, value in data.items():
        if key != "containers":
            result += _containers(value, settings, replicas, depth + 1)
    return result


def _gpus(container: dict[str, Any]) -> str:
    resources = container.get("resources")
    for part in ("limits", "requests"):
        block = resources.get(part) if isinstance(resources, dict) else None
        for key, value in block.items() if isinstance(block, dict) else []:
            if str(key).endswith("/gpu"):
                return str(value)
    return ""


def size(found: Recovered, counts: dict[str, str]) -> None:
    """Nodes and GPUs of a manifest, where the launcher does not say."""
    for key, text in counts.items():
        number = integer(text) if w.is_known(text) else None
        if number and not found.launch.get(key):
            found.launch[key] = number
