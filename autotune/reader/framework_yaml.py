"""Configurations that use Megatron's names in YAML: Primus and FlagScale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.reader import known_models, megatron_args
from autotune.reader.flags import Flags, integer
from autotune.reader.interpolate import resolve
from autotune.reader.recovered import Recovered

# What Primus's trainer defaults set (primus/configs/modules/megatron/trainer_base.yaml).
_PRIMUS_DEFAULTS = {"bf16": True, "use_distributed_optimizer": True}
_MODEL_FOLDERS = ("primus/configs/models/megatron/", "configs/models/megatron/", "models/", "")
Read = Callable[[str], dict[str, Any] | None]


def is_primus(data: Any) -> bool:
    """Whether a YAML mapping is a Primus experiment."""
    return isinstance(data, dict) and isinstance(data.get("modules"), dict) and any("trainer" in k for k in data["modules"])


def is_flagscale(data: Any) -> bool:
    """Whether a YAML mapping is a FlagScale training file."""
    return isinstance(data, dict) and isinstance(data.get("system"), dict) and isinstance(data.get("model"), dict)


def primus(found: Recovered, data: dict[str, Any], settings: dict[str, str], read: Read, flags: Flags | None = None) -> Recovered:
    """Read a Primus experiment: model file with its `extends`, then overrides, then command-line flags."""
    module = next(v for k, v in data["modules"].items() if "trainer" in k)
    module = module if isinstance(module, dict) else {}
    table = dict(_PRIMUS_DEFAULTS)
    name = module.get("model")
    if isinstance(name, str):
        model = _extended(resolve({"m": name}, settings, True)["m"], read, 0)
        if model is None:
            known = known_models.by_name(name)
            if known:
                _adopt(found, known)
            else:
                found.need(name, "the model file of the experiment; or give --model")
        else:
            table |= {k: v for k, v in model.items() if not isinstance(v, dict)}
    stated = module.get("overrides")
    if isinstance(stated, dict):
        table |= resolve(stated, settings, environment=True)
    return megatron_names(found, table, flags)


def megatron_names(found: Recovered, table: dict[str, Any], flags: Flags | None = None) -> Recovered:
    """Read a flat table of Megatron's names, with the flags of a command over it."""
    merged = Flags.of({k: v for k, v in table.items() if v is not None})
    if merged.has("num_query_groups"):
        merged.table.setdefault("group_query_attention", ["true"])
    for name, values in (flags.table if flags else {}).items():
        merged.table[name] = values
    before = dict(found.model)
    megatron_args.interpret(found, merged, strict=False)
    for key, value in before.items():
        found.model.setdefault(key, value)
    return found


def flagscale(found: Recovered, data: dict[str, Any], settings: dict[str, str], surrounding: dict[str, Any] | None) -> Recovered:
    """Read FlagScale's `system`, `model` and `data` sections; `surrounding` is the experiment file around them."""
    flat: dict[str, Any] = {}
    for section in ("system", "model", "data"):
        _flatten(resolve(data, settings).get(section) or {}, flat)
    megatron_names(found, flat)
    experiment = (surrounding or data).get("experiment")
    runner = experiment.get("runner") if isinstance(experiment, dict) else None
    for key, name in (("nodes", "nnodes"), ("gpus_per_node", "nproc_per_node")):
        value = integer(runner.get(name)) if isinstance(runner, dict) else None
        if value:
            found.launch[key] = value
    return found


def _adopt(found: Recovered, shape: dict[str, Any]) -> None:
    for key, value in shape.items():
        found.derive("model", key, value)


def _extended(name: str, read: Read, depth: int) -> dict[str, Any] | None:
    data = next((d for folder in _MODEL_FOLDERS if (d := read(folder + name)) is not None), None)
    if data is None or depth > 6:
        return None
    result: dict[str, Any] = {}
    parents = data.get("extends") or data.get("bases") or data.get("includes") or []
    for parent in parents if isinstance(parents, list) else [parents]:
        result |= _extended(str(parent), read, depth + 1) or {}
    return result | {k: v for k, v in data.items() if k not in ("extends", "bases", "includes")}


def _flatten(data: dict[str, Any], out: dict[str, Any]) -> None:
    for key, value in data.items():
        if isinstance(value, dict):
            _flatten(value, out)
        else:
            out[str(key)] = value
