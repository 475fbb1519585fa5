"""GPT-NeoX configuration: JSON-like YAML, keys with dashes or underscores, several files that add up."""

from __future__ import annotations

import re
from typing import Any

from autotune.reader import deepspeed_json
from autotune.reader.flags import integer
from autotune.reader.recovered import Recovered

_GATED = ("swiglu", "geglu", "reglu", "bilinear", "glu")
_MULTIPLE = 256


def is_neox(data: Any) -> bool:
    """Whether a mapping is a GPT-NeoX configuration."""
    if not isinstance(data, dict):
        return False
    keys = {str(k).replace("-", "_") for k in data}
    return bool(keys & {"pipe_parallel_size", "model_parallel_size"}) or {"num_layers", "train_micro_batch_size_per_gpu"} <= keys


def repair(text: str) -> str:
    """The text with commas where lines of a JSON-like file lack them; the program's own reader forgives that.

    >>> repair('{"a": 1\\n "b": True, # x\\n}')
    '{"a": 1,\\n "b": True, # x\\n}'
    """
    return re.sub(r'([\w"\]}])([ \t]*(?:#[^\n]*)?\n(?:\s*(?:#[^\n]*)?\n)*\s*")', r"\1,\2", text) if text.lstrip().startswith(("{", "#")) else text


def interpret(found: Recovered, data: dict[str, Any]) -> Recovered:
    """Read a configuration (several files merged beforehand)."""
    config = {str(k).replace("-", "_"): v for k, v in data.items()}
    m, p = found.model, found.plan
    for key in ("num_layers", "hidden_size", "num_attention_heads", "seq_length", "max_position_embeddings", "make_vocab_size_divisible_by"):
        value = integer(config.get(key))
        if value:
            m[key] = value
    heads = integer(config.get("num_kv_heads"))
    if heads:
        m["num_query_groups"] = heads
    _ffn(found, config)
    m["position_embedding_type"] = {"rotary": "rope", "alibi": "alibi", "none": "none"}.get(str(config.get("pos_emb", "learned")), "learned_absolute")
    m["normalization"] = "RMSNorm" if "rms" in str(config.get("norm", "layernorm")) else "LayerNorm"
    m["untie_embeddings_and_output_weights"] = config.get("no_weight_tying") is True
    m["add_bias_linear"] = config.get("use_bias_in_attn_linear", True) is not False
    for key, name in (("tensor_parallel", "model_parallel_size"), ("pipeline_parallel", "pipe_parallel_size"), ("context_parallel", "context_parallel_size"), ("expert_parallel", "moe_expert_parallel_size")):
        value = integer(config.get(name))
        if value is not None:
            p[key] = max(1, value)
    experts = integer(config.get("moe_num_experts") or config.get("num_experts"))
    if experts and experts > 1:
        m["num_experts"] = experts
        m["moe_router_topk"] = integer(config.get("moe_top_k")) or 1
    deepspeed_json.apply(found, config)
    precision = str(config.get("precision") or "")
    if precision:
        p["precision"] = {"bfloat16": "bf16", "fp16": "fp16", "fp32": "fp32"}.get(precision, precision)
    p["distributed_optimizer"] = p.get("zero_stage", 0) > 0
    if config.get("checkpoint_activations") is True:
        p["recompute"] = "full"
    elif "train_micro_batch_size_per_gpu" in config:
        found.derive("plan", "recompute", "none")
    p["sequence_parallel"] = config.get("sequence_parallel") is True
    found.plan.setdefault("gradient_accumulation", None)
    if p["gradient_accumulation"] is None:
        del p["gradient_accumulation"]
        if p.get("micro_batch_size") and not p.get("global_batch_size"):
            p["gradient_accumulation"] = 1
            found.derived.setdefault("gradient_accumulation")
    if not p.get("micro_batch_size") and not p.get("global_batch_size"):
        found.need("train_micro_batch_size_per_gpu", "the batch stands in another configuration file; give both")
    return found


def _ffn(found: Recovered, config: dict[str, Any]) -> None:
    """Width of the feed-forward block. A gated block of this program takes 2/3 of the stated width and halves that."""
    m, hidden = found.model, integer(config.get("hidden_size"))
    if not hidden:
        return
    stated = integer(config.get("intermediate_size"))
    factor = config.get("expansion_factor")
    gated = config.get("mlp_type") == "llama" or str(config.get("activation", "")) in _GATED
    width = stated or integer(config.get("mlp_multiple_of")) or int(hidden * (factor if isinstance(factor, int | float) and 0 < factor < 1000 else 4))
    if gated:
        m["swiglu"] = True
        up = -(-int(width * 2 / 3) // _MULTIPLE) * _MULTIPLE
        if stated:
            found.note(f"intermediate_size {stated} becomes a gated block of {up // 2}: the program takes 2/3 of it and halves that")
        width = up // 2
    found.derive("model", "ffn_hidden_size", width)
