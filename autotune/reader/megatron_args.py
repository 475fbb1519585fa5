"""Megatron-LM arguments of every year, and of the programs that keep their names, as model and plan facts."""

from __future__ import annotations

import ast
from typing import Any

from autotune.reader import bash_words as w
from autotune.reader import pipeline_layout
from autotune.reader.flags import Flags
from autotune.reader.recovered import Recovered

# Flags that say a command trains with Megatron's argument names, and how many of them make it one.
SIGNS = (
    "num_layers", "hidden_size", "num_attention_heads", "seq_length", "micro_batch_size", "global_batch_size", "tensor_model_parallel_size",
    "pipeline_model_parallel_size", "model_parallel_size", "batch_size", "expert_model_parallel_size", "context_parallel_size",
    "recompute_granularity", "ffn_hidden_size", "max_position_embeddings", "train_iters", "train_samples", "sequence_parallel",
)
_TOKENIZERS = {
    "gpt2bpetokenizer": 50257, "llama2tokenizer": 32000, "qwen3tokenizer": 151643, "qwen2tokenizer": 151643, "llama3tokenizer": 128256,
}
_OLD = {"model_parallel_size": "tensor_model_parallel_size", "batch_size": "micro_batch_size", "checkpoint_activations": "recompute_granularity"}


def score(flags: Flags) -> int:
    """How much a command looks like Megatron training."""
    return sum(1 for name in SIGNS if flags.has(name))


def interpret(found: Recovered, flags: Flags, strict: bool = True) -> Recovered:
    """Read the flags into `found`. `strict`: the program is Megatron itself, so its defaults hold where a flag is absent."""
    _shape(found, flags, strict)
    _positions_and_norms(found, flags, strict)
    _experts(found, flags, strict)
    _degrees(found, flags)
    _batch(found, flags)
    _recompute(found, flags, strict)
    _precision(found, flags, strict)
    _optimizer(found, flags)
    pipeline_layout.read(found, flags)
    old = [name for name in _OLD if flags.has(name)]
    if old and not flags.has("micro_batch_size"):
        listed = ", ".join("--" + n.replace("_", "-") for n in old)
        found.note(f"written for an older parser: {listed} would be refused by a current Megatron-LM")
    for word in flags.odd[:3]:
        found.note(f"'{w.readable(word)[:60]}' reaches the program as one word")
    return found


def _set(found: Recovered, section: str, key: str, value: Any) -> None:
    if value is not None:
        getattr(found, section)[key] = value


def _shape(found: Recovered, flags: Flags, strict: bool) -> None:
    m = found.model
    for key in ("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size", "kv_channels"):
        _set(found, "model", key, flags.number(found, key))
    _set(found, "model", "seq_length", flags.number(found, "seq_length", "encoder_seq_length", "seq_len", "max_length", "max_seq_length"))
    _set(found, "model", "max_position_embeddings", flags.number(found, "max_position_embeddings", wanted=False))
    _set(found, "model", "vocab_size", flags.number(found, "vocab_size", wanted=False))
    _set(found, "model", "make_vocab_size_divisible_by", flags.number(found, "make_vocab_size_divisible_by", wanted=False))
    _set(found, "model", "padded_vocab_size", flags.number(found, "pad_vocab_size_to", "padded_vocab_size", wanted=False))
    _query_groups(found, flags, strict)
    if flags.on("swiglu") or (flags.text("activation", "hidden_act") or "").lower().endswith("swiglu"):
        m["swiglu"] = True
    if m.get("hidden_size") and not m.get("ffn_hidden_size") and (strict or m.get("num_layers")):
        h = m["hidden_size"]
        found.derive("model", "ffn_hidden_size", int(4 * h * 2 / 3 / 64) * 64 if m.get("swiglu") else 4 * h)
    _tokenizer(found, flags)


def _query_groups(found: Recovered, flags: Flags, strict: bool) -> None:
    m = found.model
    name = next((n for n in ("num_query_groups", "num_key_value_heads", "num_kv_heads") if flags.has(n)), None)
    if name is None:
        if flags.on("group_query_attention"):
            m["num_query_groups"] = 1
            found.note("--group-query-attention without --num-query-groups means one KV group")
        return
    values = flags.values(name)
    unset = [n for v in values for n in w.names_missing(v)]
    if not values or unset:
        what = f"{' and '.join(unset)} is not set" if unset else "it has no value"
        found.violate("flag_without_value", f"--{name.replace('_', '-')} gets no value: {what}; the parser stops")
        return
    number = flags.number(found, name)
    ignored = name == "num_query_groups" and strict and found.kind == "megatron" and not flags.on("group_query_attention")
    if ignored and number and number not in (1, m.get("num_attention_heads")):
        found.note(f"--num-query-groups {number} is ignored without --group-query-attention: all heads keep their own KV")
        return
    _set(found, "model", "num_query_groups", number)


def _tokenizer(found: Recovered, flags: Flags) -> None:
    kind = (flags.text("patch_tokenizer_type") or flags.text("tokenizer_type") or "").lower()
    base, extra = _TOKENIZERS.get(kind), flags.number(found, "extra_vocab_size", wanted=False)
    if base and extra:
        found.derive("model", "padded_vocab_size", base + extra)
    elif base:
        found.derive("model", "vocab_size", base)


def _positions_and_norms(found: Recovered, flags: Flags, strict: bool) -> None:
    m = found.model
    kind = flags.text("position_embedding_type")
    if flags.on("use_rotary_position_embeddings", "use_rotary_emb", "rotary_embeddings") or kind in ("rope", "rotary", "mrope", "yarn"):
        m["position_embedding_type"] = "rope"
    elif kind in ("alibi", "none", "learned_absolute"):
        m["position_embedding_type"] = kind
    elif strict:
        m["position_embedding_type"] = "learned_absolute"
    norm = (flags.text("normalization") or "").lower()
    if norm:
        m["normalization"] = "RMSNorm" if "rms" in norm else "LayerNorm"
    if flags.has("untie_embeddings_and_output_weights") or strict:
        m["untie_embeddings_and_output_weights"] = flags.on("untie_embeddings_and_output_weights")
    if flags.has("share_embeddings_and_output_weights"):
        m["untie_embeddings_and_output_weights"] = not flags.on("share_embeddings_and_output_weights")
    if flags.has("disable_bias_linear", "add_bias_linear", "bias") or strict:
        m["add_bias_linear"] = not flags.on("disable_bias_linear") and (flags.on("add_bias_linear", "bias") or not flags.has("add_bias_linear", "bias"))
    if flags.on("add_qkv_bias"):
        m["add_qkv_bias"] = True
    if flags.on("qk_layernorm"):
        m["qk_layernorm"] = True
    if flags.on("embed_layernorm"):
        m["embedding_norm"] = True
    if flags.on("multi_latent_attention"):
        m["multi_latent_attention"] = True
        defaults = {"kv_lora_rank": 32, "qk_head_dim": 128, "qk_pos_emb_head_dim": 64, "v_head_dim": 128}
        for key in ("q_lora_rank", *defaults):
            _set(found, "model", key, flags.number(found, key, wanted=False) or defaults.get(key))
        m.pop("num_query_groups", None)
    _set(found, "model", "mtp_num_layers", flags.number(found, "mtp_num_layers", "num_mtp_predictor", wanted=False))


def _experts(found: Recovered, flags: Flags, strict: bool) -> None:
    m = found.model
    experts = flags.number(found, "num_experts", "num_moe_experts", wanted=True)
    if not experts or experts <= 1:
        return
    m["num_experts"] = experts
    topk = flags.number(found, "moe_router_topk", "topk", wanted=False)
    if topk or strict:
        m["moe_router_topk"] = topk or 2
    _set(found, "model", "moe_ffn_hidden_size", flags.number(found, "moe_ffn_hidden_size"))
    _set(found, "model", "moe_shared_expert_intermediate_size", flags.number(found, "moe_shared_expert_intermediate_size", wanted=False))
    if flags.on("moe_router_enable_expert_bias"):
        m["moe_router_bias"] = "expert"
    for key in ("moe_router_num_groups", "moe_router_group_topk"):
        value = flags.number(found, key, wanted=False)
        if value and value > 1 or (value and m.get("moe_router_num_groups")):
            m[key] = value
    dense = dense_layers(" ".join(flags.values("moe_layer_freq")) or flags.text("moe_layer_freq") or "")
    if dense is not None:
        found.launch["moe_layer_freq"] = " ".join(flags.values("moe_layer_freq"))
        m.update(dense)
    first = flags.number(found, "first_k_dense_replace", "moe_first_k_dense_replace", wanted=False)
    if first:
        m["first_k_dense"] = first


def dense_layers(text: str) -> dict[str, int] | None:
    """A layer pattern, `N` or a Python list expression, as leading dense layers and a period.

    >>> dense_layers("[0]+[1]*26"), dense_layers("([1]*48)"), dense_layers("2"), dense_layers("")
    ({'first_k_dense': 1}, {}, {'moe_layer_freq': 2}, None)
    """
    text = text.strip().strip("'\"")
    if not text:
        return None
    if text.isdigit():
        return {"moe_layer_freq": int(text)} if int(text) > 1 else {}
    try:
        pattern = _list_value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    leading = next((i for i, x in enumerate(pattern) if x), len(pattern))
    return {"first_k_dense": leading} if leading and all(pattern[leading:]) else {}


def _list_value(node: ast.expr) -> list[int]:
    """A list built from literals with `+` and `*`, nothing else."""
    if isinstance(node, ast.List):
        return [e.value for e in node.elts if isinstance(e, ast.Constant) and isinstance(e.value, int)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (_list_value(node.left) + _list_value(node.right))[:100_000]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        many, times = (node.left, node.right) if isinstance(node.left, ast.List | ast.BinOp) else (node.right, node.left)
        if isinstance(times, ast.Constant) and isinstance(times.value, int) and 0 <= times.value <= 10_000:
            return (_list_value(many) * times.value)[:100_000]
    raise ValueError("not a list expression")


def _degrees(found: Recovered, flags: Flags) -> None:
    p = found.plan
    tensor = flags.number(found, "tensor_model_parallel_size", "model_parallel_size", "intra_layer_model_parallel_size")
    _set(found, "plan", "tensor_parallel", tensor)
    _set(found, "plan", "pipeline_parallel", flags.number(found, "pipeline_model_parallel_size"))
    _set(found, "plan", "context_parallel", flags.number(found, "context_parallel_size"))
    expert = flags.number(found, "expert_model_parallel_size", "moe_expert_parallel_size")
    if expert is None and flags.on("expert_parallel"):
        found.note("--expert-parallel spreads experts over data parallel ranks")
    _set(found, "plan", "expert_parallel", expert)
    _set(found, "plan", "expert_tensor_parallel", flags.number(found, "expert_tensor_parallel_size"))
    if found.model.get("num_experts") and p.get("expert_tensor_parallel") is None and tensor:
        found.derive("plan", "expert_tensor_parallel", tensor)
    _set(found, "plan", "ulysses_parallel", flags.number(found, "ds_sequence_parallel_size", wanted=False))
    p["sequence_parallel"] = flags.on("sequence_parallel")
    if flags.on("use_tp_pp_dp_mapping"):
        p["rank_order"] = "tp-cp-ep-pp-dp"


def _batch(found: Recovered, flags: Flags) -> None:
    micro = flags.number(found, "micro_batch_size", "batch_size")
    _set(found, "plan", "micro_batch_size", micro)
    _set(found, "plan", "global_batch_size", flags.number(found, "global_batch_size"))
    if flags.values("rampup_batch_size"):
        numbers = [int(v.replace("_", "")) for v in flags.values("rampup_batch_size")[:3] if v.replace("_", "").isdigit()]
        if len(numbers) == 3:
            found.plan["rampup_batch_size"] = numbers
    tokens = flags.number(found, "max_tokens_per_gpu", wanted=False)
    if flags.on("use_dynamic_batch_size") and tokens:
        found.plan["tokens_per_gpu"] = tokens
        found.note("dynamic batching: there is no micro batch; it is priced as the sequences that fill the token limit")


def _recompute(found: Recovered, flags: Flags, strict: bool) -> None:
    p = found.plan
    kind = (flags.text("recompute_granularity") or "").lower()
    method = flags.text("recompute_method", "activations_checkpoint_method")
    layers = flags.number(found, "recompute_num_layers", "activations_checkpoint_num_layers", wanted=False)
    if not kind and flags.on("checkpoint_activations", "deepspeed_activation_checkpointing"):
        kind = "full"
    if not kind and method:
        kind = "full"
    if flags.on("recompute_activations") and not kind:
        kind = "selective"
    if kind == "full" and method == "block" and layers == 0:
        found.note("full recomputation of 0 layers by the block method recomputes nothing")
        p["recompute"] = "none"
        found.derived.setdefault("recompute")
        return
    if not kind:
        found.derive("plan", "recompute", "none")
        return
    p["recompute"] = "full" if kind == "full" else "selective"
    _set(found, "plan", "recompute_method", method)
    _set(found, "plan", "recompute_num_layers", layers)
    modules = [m for v in flags.values("recompute_modules") for m in v.split() if w.is_known(v)]
    if modules:
        p["recompute_modules"] = modules


def _precision(found: Recovered, flags: Flags, strict: bool) -> None:
    precision = (flags.text("precision") or "").lower()
    base = "fp16" if flags.on("fp16") or precision.startswith(("fp16", "16")) else ""
    if flags.on("bf16") or precision.startswith("bf16"):
        base = "bf16"
    if precision == "bf16-mixed":
        base = "bf16-mixed"
    fp8 = flags.text("fp8_format", "fp8") if flags.on("fp8_format", "fp8") else None
    if flags.on("fp8_hybrid") and flags.on("fp8"):
        fp8 = "hybrid"
    fp4 = flags.text("fp4_recipe", "fp4_format", "fp4") if flags.on("fp4", "fp4_format") else None
    if fp4:
        found.plan["precision"] = f"fp4-{fp4}"
    elif fp8:
        found.plan["precision"] = f"{base or 'bf16'}+fp8-{'hybrid' if fp8.lower() == 'true' else fp8}"
    elif base:
        found.plan["precision"] = base
    elif strict:
        found.derive("plan", "precision", "fp32")


def _optimizer(found: Recovered, flags: Flags) -> None:
    p = found.plan
    strategy = flags.text("data_parallel_sharding_strategy")
    name = flags.text("optimizer") or ""
    if flags.on("use_megatron_fsdp", "use_custom_fsdp"):
        p["zero_stage"] = {"no_shard": 0, "optim": 1, "optim_grads": 2}.get(strategy or "", 3)
    elif flags.on("use_torch_fsdp2"):
        p["zero_stage"] = 3
    elif flags.has("zero_stage"):
        found.plan["zero_stage"] = flags.number(found, "zero_stage") or 0
    p["distributed_optimizer"] = flags.on("use_distributed_optimizer")
    if p["distributed_optimizer"]:
        found.derive("plan", "zero_stage", 1)
    if flags.on("optimizer_cpu_offload", "cpu_optimizer"):
        p["offload"] = "optimizer cpu"
        found.note("optimizer state is offloaded to the CPU; that is not priced")
    if flags.on("grad_reduce_in_bf16"):
        found.note("--grad-reduce-in-bf16 keeps gradients in 2 bytes; memory is priced with 4, so it needs less than shown")
    if flags.text("main_params_dtype") in ("fp16", "bf16") or flags.text("exp_avg_dtype") in ("fp8", "fp16", "bf16"):
        found.note("optimizer state in fewer bytes than fp32; memory is priced with fp32, so it needs less than shown")
    if name.lower() == "sgd":
        found.note("the optimizer is SGD; memory is priced for Adam and is too high")
