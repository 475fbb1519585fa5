"""MosaicML's LLM Foundry and AI2's OLMo: YAML for FSDP training, a global batch and a micro batch per GPU."""

from __future__ import annotations

from typing import Any

from autotune.reader import known_models
from autotune.reader.flags import Flags, integer
from autotune.reader.interpolate import resolve
from autotune.reader.nemo import apply_overrides
from autotune.reader.recovered import Recovered
from autotune.yaml_lines import plain_scalar

_SHARDING = {"FULL_SHARD": 3, "HYBRID_SHARD": 3, "SHARD_GRAD_OP": 2, "_HYBRID_SHARD_ZERO2": 2, "NO_SHARD": 0}
_PRECISION = {"amp_bf16": "bf16", "amp_fp16": "fp16", "amp_fp8": "bf16+fp8", "fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}


def is_foundry(data: Any) -> bool:
    """Whether a mapping is an LLM Foundry training file."""
    return isinstance(data, dict) and isinstance(data.get("model"), dict) and "global_train_batch_size" in data and "mlp_hidden_size" not in data["model"]


def is_olmo(data: Any) -> bool:
    """Whether a mapping is an OLMo training file."""
    return isinstance(data, dict) and isinstance(data.get("model"), dict) and "device_train_microbatch_size" in data and "weight_tying" in data["model"]


def foundry(found: Recovered, data: dict[str, Any], settings: dict[str, str]) -> Recovered:
    """Read an LLM Foundry file."""
    found.target = "torchtitan"
    data = resolve(data, settings)
    model = data["model"]
    ffn: dict[str, Any] = model["ffn_config"] if isinstance(model.get("ffn_config"), dict) else {}
    attention: dict[str, Any] = model["attn_config"] if isinstance(model.get("attn_config"), dict) else {}
    name = model.get("pretrained_model_name_or_path")
    if isinstance(name, str) and not model.get("d_model"):
        shape = known_models.by_name(name)
        if shape:
            found.model.update(shape)
            found.derived.update(dict.fromkeys(shape))
    for key, source in (("num_layers", "n_layers"), ("hidden_size", "d_model"), ("num_attention_heads", "n_heads"), ("vocab_size", "vocab_size")):
        value = integer(model.get(source))
        if value:
            found.model[key] = value
    seq = integer(model.get("max_seq_len")) or integer(data.get("max_seq_len"))
    if seq:
        found.model["seq_length"] = seq
    ratio = ffn.get("expansion_ratio", model.get("expansion_ratio", 4))
    width = integer(model.get("d_model"))
    if width and isinstance(ratio, int | float) and 0 < ratio < 1000:
        found.derive("model", "ffn_hidden_size", integer(ffn.get("ffn_hidden_size")) or int(ratio * width))
    if integer(attention.get("kv_n_heads")):
        found.model["num_query_groups"] = integer(attention["kv_n_heads"])
    found.model.setdefault("add_bias_linear", model.get("no_bias") is not True)
    if attention.get("alibi") is True:
        found.model["position_embedding_type"] = "alibi"
    _training(found, data, "fsdp_config")
    fsdp = data.get("fsdp_config")
    fsdp = fsdp if isinstance(fsdp, dict) else {}
    found.derive("plan", "recompute", "full" if fsdp.get("activation_checkpointing") is True else "none")
    if fsdp.get("activation_cpu_offload") is True:
        found.plan["offload"] = "activations cpu"
    return found


def olmo(found: Recovered, data: dict[str, Any], flags: Flags, settings: dict[str, str]) -> Recovered:
    """Read an OLMo file with `--a.b=c` overrides."""
    found.target = "torchtitan"
    changes = [("", name, plain_scalar(values[0])) for name, values in flags.table.items() if values]
    data = resolve(apply_overrides(data, changes), settings)
    model = data["model"]
    for key, source in (("num_layers", "n_layers"), ("hidden_size", "d_model"), ("num_attention_heads", "n_heads"), ("num_query_groups", "n_kv_heads"),
                        ("vocab_size", "vocab_size"), ("padded_vocab_size", "embedding_size"), ("seq_length", "max_sequence_length")):
        value = integer(model.get(source))
        if value:
            found.model[key] = value
    gated = str(model.get("activation_type", "swiglu")) in ("swiglu", "geglu")
    width = integer(model.get("mlp_hidden_size")) or (integer(model.get("mlp_ratio")) or 4) * (found.model.get("hidden_size") or 0)
    if width:
        found.derive("model", "ffn_hidden_size", width // 2 if gated else width)  # the stated width holds both halves of a gated block
    found.model.update(
        swiglu=gated, normalization="RMSNorm" if "rms" in str(model.get("layer_norm_type")) else "LayerNorm", add_bias_linear=model.get("include_bias") is True,
        untie_embeddings_and_output_weights=model.get("weight_tying") is False, position_embedding_type="rope" if model.get("rope") is True else "none",
    )
    _training(found, data, "fsdp")
    kind = str(data.get("activation_checkpointing") or "none")
    found.plan["recompute"] = {"none": "none", "whole_layer": "full", "fine_grained": "selective"}.get(kind, "full")
    if kind.startswith("one_in_"):
        words = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9}
        every = words.get(kind.removeprefix("one_in_"))
        if every and found.model.get("num_layers"):
            found.plan.update(recompute_every=every, recompute_method="block", recompute_num_layers=-(-found.model["num_layers"] // every))
    return found


def _training(found: Recovered, data: dict[str, Any], fsdp_key: str) -> None:
    plan = found.plan
    for key, name in (("global_batch_size", "global_train_batch_size"), ("micro_batch_size", "device_train_microbatch_size")):
        value = integer(data.get(name))
        if value:
            plan[key] = value
    if data.get("device_train_microbatch_size") == "auto":
        found.need("MICRO_BATCH_SIZE", "device_train_microbatch_size is auto: the trainer finds it by trying")
    plan["precision"] = _PRECISION.get(str(data.get("precision")), str(data.get("precision") or "bf16"))
    fsdp = data.get(fsdp_key)
    if isinstance(fsdp, dict):
        found.derive("plan", "zero_stage", _SHARDING.get(str(fsdp.get("sharding_strategy", "FULL_SHARD")), 3))
        replicas = integer(fsdp.get("hybrid_sharding_num_model_replicas"))
        if replicas:
            found.derive("plan", "hybrid_shard_replicas", replicas)
            found.note(f"states are sharded inside each of {replicas} replicas; they are priced as sharded over all GPUs")
    else:
        found.derive("plan", "zero_stage", 0)
    plan["distributed_optimizer"] = plan["zero_stage"] > 0
    plan["sequence_parallel"] = False
