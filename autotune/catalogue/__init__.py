"""What ships with the project: accelerators, models, clusters, framework stacks, and the names users may write.

Data are YAML files beside this module. Names match without regard to case, dashes and spaces, and GPUs also by
the name `nvidia-smi` prints.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from autotune.errors import InputError, did_you_mean
from autotune.yaml_lines import Document, parse

if TYPE_CHECKING:
    from autotune.specs import GpuSpec

KINDS = ("gpus", "models", "fabrics", "stacks", "instances", "clusters")
_OTHER_NAMES = {
    "gpt3": "gpt-175b",
    "gpt3175b": "gpt-175b",
    "llama3405b": "llama-3.1-405b",
    "llama318b": "llama-3-8b",
    "llama3170b": "llama-3-70b",
    "megatron175b": "gpt-175b",
}
_FILES_OF = {"models": "models", "stacks": "stacks", "clusters": "clusters"}


def names(kind: str) -> list[str]:
    """Sorted names of one kind of entry, one of `KINDS`.

    >>> "H100-80GB-SXM" in names("gpus")
    True
    """
    if kind == "gpus":
        return [g.name for g in gpus()]
    if kind == "fabrics":
        from costmodels import fabrics

        return list(fabrics.names())
    if kind == "instances":
        return sorted(instances())
    if kind not in _FILES_OF:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    folder = files(__package__) / _FILES_OF[kind]
    if not folder.is_dir():
        return []
    return sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml"))


@cache
def gpus() -> tuple[GpuSpec, ...]:
    """Every accelerator of the catalogue."""
    from autotune.specs import GpuSpec

    return tuple(GpuSpec.model_validate(entry) for entry in _read("gpus.yaml").data)


def find_gpu(name: str) -> GpuSpec:
    """The accelerator of this name or alias. InputError with a suggestion when there is none.

    >>> find_gpu("NVIDIA H100 80GB HBM3").name, find_gpu("a100-80gb-sxm").memory_GiB
    ('H100-80GB-SXM', 80.0)
    """
    index = _gpu_index()
    found = index.get(_plain(name))
    if found is None:
        from autotune.schema_errors import show

        known = [g.name for g in gpus()]
        shorter = [n for n in known if _plain(name) and _plain(n).startswith(_plain(name))]
        hint = did_you_mean(name, [*known, *(a for g in gpus() for a in g.aliases)])
        if shorter and not hint:
            hint = f" (did you mean '{shorter[0]}'?)"
        raise InputError.of(
            f"unknown GPU {show(name)}{hint}; 'autotune list gpus' shows all, or give a mapping of its figures"
        )
    return found


@cache
def _gpu_index() -> dict[str, GpuSpec]:
    index: dict[str, GpuSpec] = {}
    for gpu in gpus():
        for alias in (gpu.name, *gpu.aliases):
            index.setdefault(_plain(alias), gpu)
    return index


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", re.sub(r"^(nvidia|amd|tesla|instinct)[ -]+", "", str(name).lower().strip()))


def find(kind: str, name: str) -> str | None:
    """The catalogue's spelling of `name`, or None.

    >>> find("models", "LLAMA_3-8B")
    'llama-3-8b'
    """
    wanted = re.sub(r"[^a-z0-9]", "", name.lower())
    if kind == "models" and wanted in _OTHER_NAMES:
        return _OTHER_NAMES[wanted]
    return next((n for n in names(kind) if re.sub(r"[^a-z0-9]", "", n.lower()) == wanted), None)


def document(kind: str, name: str) -> Document:
    """The parsed file of a model, cluster or stack by its exact name."""
    return _read(f"{_FILES_OF[kind]}/{name}.yaml", f"preset {name}" if kind != "stacks" else f"stack {name}")


@cache
def instances() -> dict[str, dict[str, Any]]:
    """Cloud instance types by name, as the catalogue files describe them."""
    found: dict[str, dict[str, Any]] = {}
    root = files(__package__)
    single, folder = root / "instances.yaml", root / "instances"
    sources = [single] if single.is_file() else []
    sources += [f for f in folder.iterdir() if f.name.endswith(".yaml")] if folder.is_dir() else []
    for source in sources:
        data = parse(source.read_text(encoding="utf-8"), source.name).data
        if isinstance(data, dict) and isinstance(data.get("instances"), (list, dict)):
            data = data["instances"]
        if isinstance(data, dict):
            data = [{"name": key, **value} for key, value in data.items() if isinstance(value, dict)]
        found.update({str(entry["name"]): entry for entry in data if isinstance(entry, dict) and "name" in entry})
    return found


def _read(path: str, label: str = "") -> Document:
    text = (files(__package__) / path).read_text(encoding="utf-8")
    return parse(text, label or f"catalogue {path}")
