"""Configuration files (YAML, JSON, TOML, Python) by their keys, each handed to its reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotune.errors import InputError
from autotune.reader import (
    deepspeed_json,
    deepspeed_rules,
    framework_yaml,
    hf_trainer,
    internevo,
    job_size,
    mosaicml,
    nanotron,
    nemo,
    neox,
    torchtitan,
)
from autotune.reader.companions import Companions
from autotune.reader.flags import Flags
from autotune.reader.recovered import Recovered, complete
from autotune.yaml_lines import parse

KNOWN = "NeMo, Primus, FlagScale, GPT-NeoX, nanotron, LLM Foundry, OLMo, LLaMA-Factory, torchtitan TOML, InternEvo, DeepSpeed JSON, Kubernetes"


class Setting:
    """What surrounds a configuration: variables, further files, flags of the command that names it, the size of a node."""

    def __init__(self, settings: dict[str, str], files: Companions, flags: Flags | None = None, per_node: int | None = None) -> None:
        self.settings, self.files, self.flags, self.per_node = settings, files, flags, per_node

    def read_yaml(self, name: str) -> dict[str, Any] | None:
        """A further YAML file, None if it is not within reach."""
        text = self.files.read(name, wanted=False)
        data = parse(text, name).data if text is not None else None
        return data if isinstance(data, dict) else None


def read(path: Path, text: str, more: dict[str, str], setting: Setting) -> Recovered:
    """The facts of a configuration file; `more` are names and texts of files to merge into it (GPT-NeoX)."""
    suffix = path.suffix.lower()
    if suffix == ".toml":
        data = torchtitan.parse_toml(text, str(path))
        if not torchtitan.is_toml(data):
            raise InputError.of("is not a torchtitan configuration", str(path))
        found = torchtitan.interpret(Recovered("torchtitan"), setting.flags or Flags(), data)
        return finish(found, setting)
    if suffix == ".py":
        names = internevo.assignments(text)
        if not internevo.is_internevo(names):
            raise InputError.of("is not an InternEvo configuration (model, data and parallel assignments)", str(path))
        return finish(internevo.interpret(Recovered("internevo"), names or {}), setting)
    data = parse_mapping(text, str(path))
    for name, extra in more.items():
        data = data | parse_mapping(extra, name)
    return from_mapping(data, str(path), setting)


def parse_mapping(text: str, file: str) -> dict[str, Any]:
    """A YAML or JSON mapping; JSON-like text with missing commas is repaired first."""
    try:
        data = parse(text, file).data
    except InputError:
        repaired = neox.repair(text)
        if repaired == text:
            raise
        data = parse(repaired, file).data
    if not isinstance(data, dict):
        raise InputError.of("holds no mapping of settings", file)
    return data


def from_mapping(data: dict[str, Any], file: str, setting: Setting) -> Recovered:
    """The facts of a mapping, by the reader its keys call for."""
    for test, kind, reader in _READERS:
        if test(data):
            found = Recovered(kind)
            reader(found, data, setting)
            return finish(found, setting)
    raise InputError.of(f"not a configuration that can be read; known are {KNOWN}", file)


def finish(found: Recovered, setting: Setting) -> Recovered:
    """Size from the settings, then everything that follows."""
    job_size.from_settings(found, setting.settings, setting.per_node)
    if found.kind == "torchtitan":
        torchtitan.finish(found)
    return complete(found)


def _primus(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    framework_yaml.primus(found, data, s.settings, s.read_yaml, s.flags)


def _flagscale(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    framework_yaml.flagscale(found, data, s.settings, s.read_yaml("train.yaml"))


def _hydra(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    """A FlagScale experiment file: its `defaults` name the training file."""
    defaults = data.get("defaults")
    name = next((d["train"] for d in (defaults if isinstance(defaults, list) else []) if isinstance(d, dict) and "train" in d), None)
    inner = s.read_yaml(f"train/{name}.yaml") if name else None
    if inner is None:
        found.need(f"train/{name}.yaml", "the training file that the experiment names")
        return
    framework_yaml.flagscale(found, {**data, **inner}, s.settings, data)


def _neox(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    neox.interpret(found, data)


def _nemo(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    nemo.interpret(found, data, s.settings)


def _nanotron(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    nanotron.interpret(found, data)


def _olmo(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    mosaicml.olmo(found, data, s.flags or Flags(), s.settings)


def _foundry(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    mosaicml.foundry(found, data, s.settings)


def _factory(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    hf_trainer.interpret(found, Flags.of(data), lambda name: s.files.read(name, wanted=False))


def _accelerate(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    hf_trainer.accelerate(found, data)


def _deepspeed(found: Recovered, data: dict[str, Any], s: Setting) -> None:
    found.target = "deepspeed"
    deepspeed_json.apply(found, data)
    deepspeed_rules.check(found, data)
    found.derive("plan", "recompute", "full" if isinstance(data.get("activation_checkpointing"), dict) else "none")


def is_deepspeed(data: dict[str, Any]) -> bool:
    """Whether a mapping has DeepSpeed's keys."""
    return any(k in data for k in ("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"))


Reader = Callable[[Recovered, dict[str, Any], Setting], None]
_READERS: tuple[tuple[Callable[[dict[str, Any]], bool], str, Reader], ...] = (
    (framework_yaml.is_primus, "primus", _primus), (framework_yaml.is_flagscale, "flagscale", _flagscale), (nemo.is_nemo, "nemo", _nemo),
    (nanotron.is_nanotron, "nanotron", _nanotron), (mosaicml.is_olmo, "olmo", _olmo), (mosaicml.is_foundry, "llm-foundry", _foundry),
    (hf_trainer.is_factory, "llama-factory", _factory), (hf_trainer.is_accelerate, "accelerate", _accelerate), (neox.is_neox, "gpt-neox", _neox),
    (is_deepspeed, "deepspeed", _deepspeed), (lambda d: "experiment" in d and "defaults" in d, "flagscale", _hydra),
)
