"""Shapes of models that scripts name instead of describing: hub identifiers, flavours of torchtitan.

The catalogue comes first; this table adds models that appear in training scripts. Sources: the `config.json` of each
model on the Hugging Face hub, and torchtitan's `models/*/__init__.py`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

_LLAMA: dict[str, Any] = dict(
    swiglu=True, normalization="RMSNorm", add_bias_linear=False, untie_embeddings_and_output_weights=True, position_embedding_type="rope"
)
_MLA: dict[str, Any] = dict(multi_latent_attention=True, kv_lora_rank=512, qk_head_dim=128, qk_pos_emb_head_dim=64, v_head_dim=128)


def _m(layers: int, hidden: int, heads: int, ffn: int, vocab: int, seq: int, **more: Any) -> dict[str, Any]:
    base = dict(num_layers=layers, hidden_size=hidden, num_attention_heads=heads, ffn_hidden_size=ffn, vocab_size=vocab, seq_length=seq)
    return {**_LLAMA, **base, **more}


_TABLE: dict[str, dict[str, Any]] = {
    "moonlight-16b-a3b": _m(27, 2048, 16, 11264, 163840, 8192, num_experts=64, moe_router_topk=6, moe_ffn_hidden_size=1408,
                            moe_shared_expert_intermediate_size=2816, first_k_dense=1, moe_router_bias="expert", **_MLA),
    "deepseek-v2-lite": _m(27, 2048, 16, 10944, 102400, 4096, num_experts=64, moe_router_topk=6, moe_ffn_hidden_size=1408,
                           moe_shared_expert_intermediate_size=2816, first_k_dense=1, **_MLA),
    "qwen-7b": _m(32, 4096, 32, 11008, 151936, 8192, add_qkv_bias=True),
    "qwen2.5-0.5b": _m(24, 896, 14, 4864, 151936, 32768, num_query_groups=2, add_qkv_bias=True, untie_embeddings_and_output_weights=False),
    "qwen2.5-14b": _m(48, 5120, 40, 13824, 152064, 32768, num_query_groups=8, add_qkv_bias=True),
    "qwen2.5-32b": _m(64, 5120, 40, 27648, 152064, 32768, num_query_groups=8, add_qkv_bias=True),
    "qwen3-0.6b": _m(28, 1024, 16, 3072, 151936, 40960, num_query_groups=8, kv_channels=128, qk_layernorm=True, untie_embeddings_and_output_weights=False),
    "qwen3-4b": _m(36, 2560, 32, 9728, 151936, 40960, num_query_groups=8, kv_channels=128, qk_layernorm=True, untie_embeddings_and_output_weights=False),
    "qwen3-14b": _m(40, 5120, 40, 17408, 151936, 40960, num_query_groups=8, kv_channels=128, qk_layernorm=True),
    "qwen3-32b": _m(64, 5120, 64, 25600, 151936, 40960, num_query_groups=8, kv_channels=128, qk_layernorm=True),
    "llama-3.2-3b": _m(28, 3072, 24, 8192, 128256, 131072, num_query_groups=8, kv_channels=128, untie_embeddings_and_output_weights=False),
    "gpt-oss-20b": _m(24, 2880, 64, 2880, 201088, 4096, num_query_groups=8, kv_channels=64, num_experts=32, moe_router_topk=4, moe_ffn_hidden_size=2880,
                      moe_expert_bias=True, add_qkv_bias=True, add_attention_output_bias=True, attention_sinks=True, window_size=128),
    "opt-1.3b": _m(24, 2048, 32, 8192, 50272, 2048), "opt-6.7b": _m(32, 4096, 32, 16384, 50272, 2048),
    "opt-13b": _m(40, 5120, 40, 20480, 50272, 2048), "opt-30b": _m(48, 7168, 56, 28672, 50272, 2048), "opt-66b": _m(64, 9216, 72, 36864, 50272, 2048),
    "titan-llama3-debugmodel": _m(6, 256, 16, 768, 2048, 2048),
    "titan-deepseek_v3-16b": _m(27, 2048, 16, 10944, 102400, 4096, num_experts=64, moe_router_topk=6, moe_ffn_hidden_size=1408,
                                moe_shared_expert_intermediate_size=2816, first_k_dense=1, **_MLA),
}
_GELU = {"opt-1.3b", "opt-6.7b", "opt-13b", "opt-30b", "opt-66b"}
for _name in _GELU:
    _TABLE[_name] |= dict(
        swiglu=False, normalization="LayerNorm", add_bias_linear=True, untie_embeddings_and_output_weights=False, position_embedding_type="learned_absolute"
    )
_TITAN = {
    ("llama3", "8b"): "llama-3-8b", ("llama3", "70b"): "llama-3-70b", ("llama3", "405b"): "llama-3.1-405b", ("llama2", "7b"): "llama-2-7b",
    ("llama2", "13b"): "llama-2-13b", ("llama2", "70b"): "llama-2-70b", ("deepseek_v3", "671b"): "deepseek-v3",
}
_SUFFIXES = ("-instruct", "-base", "-chat", "-hf", "-it", "-thinking", "-v0.1", "-v0.3", "-pretrain", "-2507")


def by_name(name: str) -> dict[str, Any] | None:
    """ModelSpec fields of a hub identifier or file name, None if it is not known.

    >>> by_name("moonshotai/Moonlight-16B-A3B-Instruct")["num_layers"], by_name("facebook/opt-13b")["hidden_size"]
    (27, 5120)
    >>> by_name("./checkpoints/latest") is None
    True
    """
    short = re.split(r"[/\\]", name.rstrip("/"))[-1].lower().removesuffix(".yaml").replace("_", "-").replace(":", "-")
    candidates = [short]
    for _ in range(3):
        for suffix in _SUFFIXES:
            if candidates[-1].endswith(suffix):
                candidates.append(candidates[-1].removesuffix(suffix))
    for candidate in candidates:
        if candidate in _TABLE:
            return dict(_TABLE[candidate])
        fields = _catalogue(candidate)
        if fields:
            return fields
    return None


def titan(module: str, flavor: str) -> dict[str, Any] | None:
    """ModelSpec fields of a torchtitan model and flavour.

    >>> titan("llama3", "debugmodel")["hidden_size"], titan("llama3", "70B")["num_layers"]
    (256, 80)
    """
    key = (module.lower().split(".")[-1], flavor.lower())
    table = _TABLE.get(f"titan-{key[0]}-{key[1]}")
    if table:
        return dict(table)
    return _catalogue(_TITAN[key]) if key in _TITAN else None


@cache
def _catalogue_fields(name: str) -> tuple[tuple[str, Any], ...]:
    from autotune import catalogue

    found = catalogue.find("models", name) if re.fullmatch(r"[\w.-]+", name) and len(name) > 3 else None
    if not found:
        return ()
    data = catalogue.document("models", found).data
    return tuple((k, v) for k, v in data.items() if k not in ("training", "search", "description", "source"))


def _catalogue(name: str) -> dict[str, Any] | None:
    return dict(_catalogue_fields(name)) or None
