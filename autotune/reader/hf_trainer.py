"""Hugging Face trainers: Trainer flags, DeepSpeed-Chat, LLaMA-Factory, Accelerate files, and FSDP example programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.reader import deepspeed_json, known_models
from autotune.reader.flags import Flags, integer
from autotune.reader.recovered import Recovered

Read = Callable[[str], str | None]
SIGNS = ("per_device_train_batch_size", "model_name_or_path", "gradient_accumulation_steps", "deepspeed", "zero_stage", "gradient_checkpointing", "fsdp")
_FSDP_SIGNS = ("hidden_width", "num_heads", "max_context_width", "sharding_strategy", "train_batch_size")
_SHARDING = {"1": 3, "2": 2, "3": 0, "4": 3, "5": 2, "FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3, "HYBRID_SHARD_ZERO2": 2}


def score(flags: Flags) -> int:
    """How much a command looks like a Hugging Face trainer."""
    return sum(1 for s in SIGNS if flags.has(s)) if flags.has("model_name_or_path", "per_device_train_batch_size") else 0


def fsdp_score(flags: Flags) -> int:
    """How much a command looks like an FSDP example program that describes its model by flags."""
    count = sum(1 for s in _FSDP_SIGNS if flags.has(s))
    return count if count >= 3 else 0


def interpret(found: Recovered, flags: Flags, read: Read) -> Recovered:
    """Read Trainer flags, with the DeepSpeed file they name."""
    found.target = "deepspeed"
    p = found.plan
    name = flags.text("model_name_or_path")
    shape = known_models.by_name(name) if name else None
    if shape:
        shape = {k: v for k, v in shape.items() if k != "seq_length"}
        found.model.update(shape)
        found.derived.update(dict.fromkeys(shape))
    elif name:
        found.need("MODEL", f"the shape of {name}; give it with --model")
    seq = flags.number(found, "model_max_length", "max_seq_len", "cutoff_len", "max_seq_length", "max_length", "block_size", wanted=False)
    if seq:
        found.model["seq_length"] = seq
    elif flags.has("template"):
        found.model["seq_length"] = 2048  # LLaMA-Factory's default cutoff_len
        found.derived.setdefault("seq_length")
    p["micro_batch_size"] = flags.number(found, "per_device_train_batch_size") or 8  # the Trainer's default
    p["gradient_accumulation"] = flags.number(found, "gradient_accumulation_steps") or 1
    for kind in ("bf16", "fp16"):
        if flags.on(kind):
            p["precision"] = kind
    if flags.has("dtype"):
        p["precision"] = {"bf16": "bf16", "fp16": "fp16"}.get(flags.text("dtype") or "", "fp16")
    _recompute(found, flags)
    _sharding(found, flags, read)
    rank = flags.number(found, "lora_dim", "lora_rank", "lora_r", wanted=False)
    if rank and (flags.on("only_optimize_lora") or flags.has("lora_dim") or flags.text("finetuning_type") == "lora"):
        p["trainable"] = f"lora dim {rank}"
        found.note("only LoRA weights are trained; memory is priced for all weights and is too high")
    p["sequence_parallel"] = False
    p["distributed_optimizer"] = (p.get("zero_stage") or 0) > 0
    return found


def _recompute(found: Recovered, flags: Flags) -> None:
    if flags.has("disable_gradient_checkpointing"):
        found.plan["recompute"] = "none" if flags.on("disable_gradient_checkpointing") else "full"
    elif flags.has("gradient_checkpointing"):
        found.plan["recompute"] = "full" if flags.on("gradient_checkpointing") else "none"
    elif flags.has("template"):
        found.derive("plan", "recompute", "full")  # LLaMA-Factory recomputes unless told not to
    else:
        found.derive("plan", "recompute", "none")


def _sharding(found: Recovered, flags: Flags, read: Read) -> None:
    stage = flags.number(found, "zero_stage", wanted=False)
    if stage is not None:
        found.plan["zero_stage"] = stage
        found.plan.setdefault("offload", "optimizer+param cpu" if flags.on("offload") else "none")
    path = flags.text("deepspeed", "deepspeed_config")
    if path and path.endswith(".json"):
        text = read(path)
        if text is None:
            found.need(path, "the DeepSpeed configuration")
        else:
            deepspeed_json.apply(found, deepspeed_json.read_text(text, path))
    mode = " ".join(flags.values("fsdp"))
    if mode:
        found.target = "torchtitan"
        found.plan["zero_stage"] = 2 if "grad_op" in mode else 0 if "no_shard" in mode else 3
    found.derive("plan", "zero_stage", 0)


def fsdp_program(found: Recovered, flags: Flags) -> Recovered:
    """Read an FSDP example program whose flags describe the model (`--hidden_width`, `--num_heads`, ...)."""
    found.target = "torchtitan"
    for key, names in (
        ("num_layers", ("num_layers",)), ("hidden_size", ("hidden_width",)), ("num_attention_heads", ("num_heads",)), ("ffn_hidden_size", ("intermediate_size",)),
        ("num_query_groups", ("num_key_value_heads",)), ("seq_length", ("max_context_width",)), ("vocab_size", ("vocab_size",)),
    ):
        value = flags.number(found, *names)
        if value:
            found.model[key] = value
    kind = flags.text("model_type") or ""
    if kind in ("mixtral", "llama_v2", "llama_v3", "mistral", "qwen"):
        found.model.update(swiglu=True, normalization="RMSNorm", add_bias_linear=False, untie_embeddings_and_output_weights=True, position_embedding_type="rope")
    if kind == "mixtral":
        found.note("the number of experts is the program's default for mixtral; 8 experts, 2 per token were assumed")
        found.model.update(num_experts=8, moe_router_topk=2, moe_ffn_hidden_size=found.model.get("ffn_hidden_size"))
        found.derived.update(dict.fromkeys(("num_experts", "moe_router_topk")))
    p = found.plan
    p["micro_batch_size"] = flags.number(found, "train_batch_size", "batch_size") or 1
    p["gradient_accumulation"] = flags.number(found, "gradient_accumulation_steps", wanted=False) or 1
    strategy = (flags.text("sharding_strategy") or "full").lower()
    found.derive("plan", "zero_stage", {"full": 3, "hybrid": 3, "grad": 2, "none": 0}.get(strategy, 3))
    p["recompute"] = "full" if flags.on("activation_checkpointing") else "none"
    found.derived.setdefault("recompute")
    if flags.on("offload_activations"):
        p["offload"] = "activations cpu"
    p["precision"] = "bf16" if flags.on("bf16") else "fp16" if flags.on("fp16") else "fp32"
    p["sequence_parallel"] = False
    return found


def is_factory(data: Any) -> bool:
    """Whether a mapping is a LLaMA-Factory training file."""
    return isinstance(data, dict) and "model_name_or_path" in data and ("finetuning_type" in data or "per_device_train_batch_size" in data)


def is_accelerate(data: Any) -> bool:
    """Whether a mapping is an Accelerate configuration."""
    return isinstance(data, dict) and "distributed_type" in data


def accelerate(found: Recovered, data: dict[str, Any]) -> None:
    """Read an Accelerate file: sharding, precision, sizes that no flag states."""
    p = found.plan
    for key, name in (("nodes", "num_machines"), ("world_size", "num_processes")):
        value = integer(data.get(name))
        if value and found.launch.get(key) is None and not found.launch.get("gpus_per_node"):
            found.launch[key] = value
    precision = str(data.get("mixed_precision") or "")
    if precision in ("fp16", "bf16", "fp8"):
        p.setdefault("precision", precision)
    fsdp = data.get("fsdp_config")
    if isinstance(fsdp, dict):
        found.target = "torchtitan"
        shards = str(fsdp.get("fsdp_sharding_strategy") or ("FULL_SHARD" if fsdp.get("fsdp_reshard_after_forward", True) else "SHARD_GRAD_OP"))
        found.derive("plan", "zero_stage", _SHARDING.get(shards, 3))
        found.derive("plan", "recompute", "full" if fsdp.get("fsdp_activation_checkpointing") is True else "none")
    zero = data.get("deepspeed_config")
    if isinstance(zero, dict):
        found.target = "deepspeed"
        stage = integer(zero.get("zero_stage"))
        if stage is not None:
            p["zero_stage"] = stage
        steps = integer(zero.get("gradient_accumulation_steps"))
        if steps:
            p.setdefault("gradient_accumulation", steps)
    megatron = data.get("megatron_lm_config")
    if isinstance(megatron, dict):
        for key, name in (("tensor_parallel", "megatron_lm_tp_degree"), ("pipeline_parallel", "megatron_lm_pp_degree")):
            value = integer(megatron.get(name))
            if value:
                p[key] = value
