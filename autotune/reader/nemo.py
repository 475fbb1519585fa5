"""NeMo: its hydra YAML files, `key=value` overrides of its launcher, and those of Megatron-Bridge recipes."""

from __future__ import annotations

import re
from typing import Any

from autotune.reader import known_models, megatron_args
from autotune.reader.flags import Flags, integer
from autotune.reader.interpolate import resolve
from autotune.reader.recovered import Recovered
from autotune.yaml_lines import plain_scalar

_RENAMED = {
    "encoder_seq_length": "seq_length", "num_moe_experts": "num_experts", "activations_checkpoint_granularity": "recompute_granularity",
    "activations_checkpoint_method": "recompute_method", "activations_checkpoint_num_layers": "recompute_num_layers",
}
_OVERRIDE = re.compile(r"([+~]{0,2})([A-Za-z_][\w.]*)(?:=(.*))?", re.DOTALL)
_DISTRIBUTED = ("distributed_fused_adam", "mcore_distributed_optim", "megatron_distributed")


def is_nemo(data: Any) -> bool:
    """Whether a YAML mapping is a NeMo training configuration."""
    return isinstance(data, dict) and isinstance(data.get("model"), dict) and isinstance(data.get("trainer"), dict)


def interpret(found: Recovered, data: dict[str, Any], settings: dict[str, str]) -> Recovered:
    """Read a NeMo configuration (with overrides already applied)."""
    data = resolve(data, settings)
    model, trainer = data.get("model") or {}, data.get("trainer") or {}
    table = {_RENAMED.get(k, k): v for k, v in model.items() if not isinstance(v, dict)}
    inner = model.get("data")
    if isinstance(inner, dict) and table.get("seq_length") is None:
        table["seq_length"] = inner.get("seq_length")
    precision = str(trainer.get("precision") or model.get("precision") or "")
    table["precision"] = None
    flags = Flags.of(table)
    if precision:
        flags.table["precision"] = [precision]
    _switches(flags, model)
    megatron_args.interpret(found, flags, strict=False)
    optimizer = model.get("optim")
    name = str(optimizer.get("name")) if isinstance(optimizer, dict) else ""
    fsdp = model.get("fsdp") is True
    found.plan["distributed_optimizer"] = name in _DISTRIBUTED and not fsdp
    strategy = str(model.get("fsdp_sharding_strategy") or "full")
    found.plan["zero_stage"] = ({"full": 3, "hybrid": 3, "grad": 2}.get(strategy, 3)) if fsdp else int(name in _DISTRIBUTED)
    for key, name in (("nodes", "num_nodes"), ("gpus_per_node", "devices")):
        value = integer(trainer.get(name))
        if value:
            found.launch[key] = value
    if "position_embedding_type" not in found.model:
        found.model["position_embedding_type"] = "learned_absolute"
    return found


def _switches(flags: Flags, model: dict[str, Any]) -> None:
    activation = str(model.get("activation") or "")
    if "swiglu" in activation:
        flags.table["swiglu"] = []
    if model.get("num_query_groups") is not None:
        flags.table["group_query_attention"] = []
    if model.get("fp8") and model.get("fp8_hybrid"):
        flags.table["fp8_format"] = ["hybrid"]
    elif model.get("fp8") and model.get("fp8_e4m3"):
        flags.table["fp8_format"] = ["e4m3"]
    if "bias" not in model:
        flags.table["bias"] = ["true"]


def overrides(words: list[str]) -> list[tuple[str, str, Any]]:
    """Hydra overrides among arguments: operator (`+`, `~`, or none), dotted key, value.

    >>> overrides(["training.model.micro_batch_size=4", "+a.b=null", "~c.d", "--x", "stages=[training]"])
    [('', 'training.model.micro_batch_size', 4), ('+', 'a.b', None), ('~', 'c.d', None), ('', 'stages', '[training]')]
    """
    result = []
    for word in words:
        match = _OVERRIDE.fullmatch(word)
        if match and (match[3] is not None or match[1] == "~"):
            result.append((match[1], match[2], plain_scalar((match[3] or "").strip("'\"")) if match[3] else None))
    return result


def is_override_command(words: list[str]) -> bool:
    """Whether a command configures parallelism by overrides."""
    keys = [key for _, key, _ in overrides(words)]
    return any(k.endswith(("_model_parallel_size", "micro_batch_size", "global_batch_size", ".seq_length", "num_nodes")) and "." in k for k in keys)


def apply_overrides(data: dict[str, Any], changes: list[tuple[str, str, Any]], prefix: str = "") -> dict[str, Any]:
    """A configuration with dotted overrides applied; `~` deletes. Keys outside `prefix` are passed over.

    >>> apply_overrides({"a": {"b": 1}}, [("", "t.a.b", 2), ("+", "t.a.c", 3), ("~", "t.a.b", None)], "t.")
    {'a': {'c': 3}}
    """
    result = _copy(data)
    for operator, key, value in changes:
        if not key.startswith(prefix):
            continue
        parts = key[len(prefix) :].split(".")
        node = result
        for part in parts[:-1]:
            if not isinstance(node.get(part), dict):
                node[part] = {}
            node = node[part]
        if operator == "~":
            node.pop(parts[-1], None)
        else:
            node[parts[-1]] = value
    return result


def bridge(found: Recovered, words: list[str]) -> Recovered:
    """Megatron-Bridge: `model.*`, `train.*`, `dataset.*` overrides of a named recipe."""
    table: dict[str, Any] = {}
    for _, key, value in overrides(words):
        section, _, name = key.rpartition(".")
        if section in ("model", "train", "dataset", "config.model", "config.train") and value is not None:
            table[{"sequence_length": "seq_length"}.get(name, name)] = value
    flags = Flags.of(table)
    if flags.has("num_query_groups"):
        flags.table["group_query_attention"] = []
    named = Flags.parse(words)
    megatron_args.interpret(found, flags, strict=False)
    found.derive("plan", "precision", "bf16")
    recipe = named.text("recipe", "model")
    shape = known_models.by_name(re.sub(r"_(pretrain|finetune|sft|lora|peft)\w*$", "", recipe)) if recipe else None
    for key, value in (shape or {}).items():
        found.derive("model", key, value)
    if recipe and not found.model.get("num_layers"):
        found.need("MODEL", f"the recipe {recipe} holds the model's shape; give it with --model")
    return found


def _copy(data: Any) -> Any:
    return {k: _copy(v) for k, v in data.items()} if isinstance(data, dict) else data
