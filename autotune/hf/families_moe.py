"""Architectures with experts."""

from __future__ import annotations

from typing import Any

from autotune.hf.family import Experts, Family, Flag
from autotune.hf.reader import Reader

_ATTENTION_BIAS: Flag = ("attention_bias", False)


def _dbrx(reader: Reader, spec: dict[str, Any]) -> None:
    """DBRX: attention and experts are described in nested mappings."""
    attention, ffn = reader.inner("attn_config"), reader.inner("ffn_config")
    spec["num_query_groups"] = attention.integer("kv_n_heads", default=1)
    spec["num_experts"] = ffn.integer("moe_num_experts", default=4)
    spec["moe_router_topk"] = ffn.integer("moe_top_k", default=1)
    spec["moe_ffn_hidden_size"] = spec["ffn_hidden_size"] = ffn.integer("ffn_hidden_size", default=3584)


def _llama4(reader: Reader, spec: dict[str, Any]) -> None:
    """Llama 4: one shared expert as wide as a routed one; dense layers have a width of their own."""
    width = reader.integer("intermediate_size", default=8192)
    spec["moe_shared_expert_intermediate_size"] = width
    spec["ffn_hidden_size"] = reader.integer("intermediate_size_mlp", default=width)


def _gpt_oss(reader: Reader, spec: dict[str, Any]) -> None:
    spec["attention_sinks"] = True


def _ernie(reader: Reader, spec: dict[str, Any]) -> None:
    if not reader.flag("moe_use_aux_free", True) and reader.has("moe_use_aux_free"):
        spec["moe_router_bias"] = "none"


_DEEPSEEK = Family(
    latent=True,
    qkv_bias=_ATTENTION_BIAS,
    out_bias=_ATTENTION_BIAS,
    experts=Experts(shared_count=("n_shared_experts",), router_bias="expert"),
)
_QWEN3_MOE = Family(
    qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, qk_norm=True, kv_heads=4, window="switch", experts=Experts()
)
_LLAMA4 = Family(
    qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, head_dim=128, kv_heads=8, experts=Experts(width=("intermediate_size",)),
    adjust=_llama4,
)
_GLM4_MOE = Family(
    qkv_bias=_ATTENTION_BIAS, kv_heads=8, qk_norm=("use_qk_norm", False),
    experts=Experts(shared_count=("n_shared_experts",), router_bias="expert"),
)

MOE: dict[str, Family] = {
    "mixtral": Family(kv_heads=8, window="all", experts=Experts(width=("intermediate_size",), default_count=8)),
    "dbrx": Family(norm="LayerNorm", norm_bias=False, experts=Experts(width=()), adjust=_dbrx),
    "grok-1": Family(norms=4, tied=True, experts=Experts(width=("intermediate_size",))),
    "deepseek": Family(
        qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, experts=Experts(shared_count=("n_shared_experts",))
    ),
    "deepseek_v2": Family(
        latent=True, qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, experts=Experts(shared_count=("n_shared_experts",))
    ),
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "glm4_moe": _GLM4_MOE,
    "glm4v_moe_text": _GLM4_MOE,
    "glm4_moe_lite": _DEEPSEEK,
    "dots1": Family(
        qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, qk_norm=True,
        experts=Experts(shared_count=("n_shared_experts",), router_bias="expert"),
    ),
    "gpt_oss": Family(
        qkv_bias=("attention_bias", True), out_bias=("attention_bias", True), head_dim=64, kv_heads=8, window="some",
        experts=Experts(width=("intermediate_size",), router_bias="linear", biases=True, default_topk=4), adjust=_gpt_oss,
    ),
    "llama4": _LLAMA4,
    "llama4_text": _LLAMA4,
    "olmoe": Family(
        qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, qk_norm=True, qk_norm_per_head=False,
        experts=Experts(width=("intermediate_size",), default_count=64, default_topk=8),
    ),
    "qwen2_moe": Family(
        qkv_bias=("qkv_bias", True), window="switch",
        experts=Experts(shared_width=("shared_expert_intermediate_size",), shared_gate=True, default_topk=4),
    ),
    "qwen3_moe": _QWEN3_MOE,
    "qwen3_vl_moe_text": _QWEN3_MOE,
    "granitemoe": Family(
        qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, experts=Experts(width=("intermediate_size",), default_count=8)
    ),
    "granitemoeshared": Family(
        qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS,
        experts=Experts(width=("intermediate_size",), shared_width=("shared_intermediate_size",), default_count=8),
    ),
    "phimoe": Family(
        norm="LayerNorm", qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, head_bias=("lm_head_bias", False), kv_heads=8,
        experts=Experts(width=("intermediate_size",), default_count=16),
    ),
    "ernie4_5_moe": Family(
        tied=True, kv_heads=4, qkv_bias=("use_bias", False), out_bias=("use_bias", False), mlp_bias=("use_bias", False),
        experts=Experts(shared_count=("moe_num_shared_experts",), router_bias="expert"), head_bias=("use_bias", False),
        adjust=_ernie,
    ),
    "minimax_m2": Family(
        qk_norm=True, qk_norm_per_head=False, kv_heads=8,
        experts=Experts(width=("intermediate_size",), router_bias="expert", default_topk=8),
    ),
    "hunyuan_v1_moe": Family(
        qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, qk_norm=True,
        experts=Experts(width=("intermediate_size",), shared_width=("intermediate_size",)),
    ),
}
