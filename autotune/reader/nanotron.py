"""nanotron configuration (YAML)."""

from __future__ import annotations

from typing import Any

from autotune.reader.flags import integer
from autotune.reader.recovered import Recovered

_MODEL = {
    "num_hidden_layers": "num_layers", "hidden_size": "hidden_size", "num_attention_heads": "num_attention_heads", "intermediate_size": "ffn_hidden_size",
    "num_key_value_heads": "num_query_groups", "vocab_size": "vocab_size", "max_position_embeddings": "max_position_embeddings",
    "moe_num_experts": "num_experts", "num_experts": "num_experts", "num_experts_per_tok": "moe_router_topk",
}


def is_nanotron(data: Any) -> bool:
    """Whether a mapping is a nanotron configuration."""
    return isinstance(data, dict) and isinstance(data.get("parallelism"), dict) and isinstance(data.get("tokens"), dict)


def interpret(found: Recovered, data: dict[str, Any]) -> Recovered:
    """Read a configuration. Its degrees fix the world size."""
    found.target = "nanotron"
    model = _mapping(data, "model")
    shape = _mapping(model, "model_config")
    moe = _mapping(shape, "moe_config")
    for source in (shape, moe):
        for key, name in _MODEL.items():
            value = integer(source.get(key))
            if value:
                found.model[name] = value
    if moe.get("top_k"):
        found.model["moe_router_topk"] = integer(moe["top_k"]) or 1
    if found.model.get("num_experts"):
        found.model.setdefault("moe_ffn_hidden_size", integer(moe.get("moe_intermediate_size")) or found.model.get("ffn_hidden_size"))
    found.model.update(
        swiglu=True, normalization="RMSNorm", add_bias_linear=False, position_embedding_type="rope",
        untie_embeddings_and_output_weights=shape.get("tie_word_embeddings") is False,
        make_vocab_size_divisible_by=integer(model.get("make_vocab_size_divisible_by")) or 1,
    )
    tokens, parallel, p = data["tokens"], data["parallelism"], found.plan
    found.model["seq_length"] = integer(tokens.get("sequence_length"))
    p["micro_batch_size"] = integer(tokens.get("micro_batch_size"))
    p["gradient_accumulation"] = integer(tokens.get("batch_accumulation_per_replica")) or 1
    for key, name in (("tensor_parallel", "tp"), ("pipeline_parallel", "pp"), ("data_parallel", "dp"), ("expert_parallel", "expert_parallel_size"), ("context_parallel", "context_parallel_size")):
        value = integer(parallel.get(name))
        if value:
            p[key] = value
    p["sequence_parallel"] = str(parallel.get("tp_mode")).upper() == "REDUCE_SCATTER"
    found.derive("plan", "recompute", "full" if parallel.get("recompute_layer") is True else "none")
    optimizer = data.get("optimizer")
    stage = integer(optimizer.get("zero_stage")) if isinstance(optimizer, dict) else None
    p["zero_stage"] = stage or 0
    p["distributed_optimizer"] = bool(stage)
    p["precision"] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(str(model.get("dtype")), "bf16")
    return found


def _mapping(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}
