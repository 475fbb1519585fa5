"""Dense architectures of the Llama line: rotary positions, separate key names for everything.

Traits are the class definitions of Hugging Face transformers (github.com/huggingface/transformers, models/*) or, for
models that ship their own code, that code.
"""

from __future__ import annotations

from typing import Any

from autotune.hf.family import Family, Flag
from autotune.hf.reader import Reader

_ATTENTION_BIAS: Flag = ("attention_bias", False)
_MLP_BIAS: Flag = ("mlp_bias", False)


def _chatglm(reader: Reader, spec: dict[str, Any]) -> None:
    """ChatGLM: `multi_query_attention` switches the KV groups on; `add_bias_linear` covers the rest."""
    if reader.flag("multi_query_attention", False):
        spec["num_query_groups"] = reader.integer("multi_query_group_num", default=1)
    if not reader.flag("rmsnorm", True):
        spec["normalization"] = "LayerNorm"


def _qwen_v1(reader: Reader, spec: dict[str, Any]) -> None:
    """Qwen 1: `intermediate_size` is the width of both input projections together."""
    spec["ffn_hidden_size"] = max(1, spec["ffn_hidden_size"] // 2)


def _stablelm(reader: Reader, spec: dict[str, Any]) -> None:
    """StableLM: one norm per layer where attention and feed-forward run side by side."""
    if reader.flag("use_parallel_residual", False):
        spec["norms_per_layer"] = 1
    if reader.flag("qk_layernorm", False):
        raise reader.refuse("qk_layernorm of StableLM keeps one norm per head", "qk_layernorm")


def _minicpm(reader: Reader, spec: dict[str, Any]) -> None:
    if reader.has("num_experts") or reader.has("kv_lora_rank"):
        raise reader.refuse("a MiniCPM variant with experts or latent attention", "model_type")


LLAMA = Family(qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, mlp_bias=_MLP_BIAS)
_QWEN2 = Family(qkv_bias=True, window="switch")
_QWEN3 = Family(qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, qk_norm=True, head_dim=128, window="switch")
_MISTRAL = Family(kv_heads=8, window="all")
_GEMMA = Family(tied=True, qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, head_dim=256)
_GEMMA3 = Family(
    tied=True, norms=4, qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, head_dim=256, kv_heads=4, qk_norm=True, window="some"
)
_OLMO2 = Family(qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, qk_norm=True, qk_norm_per_head=False)
_PHI3 = Family(window="all")
_CHATGLM = Family(
    qkv_bias=("add_qkv_bias", False),
    out_bias=("add_bias_linear", False),
    mlp_bias=("add_bias_linear", False),
    adjust=_chatglm,
)

DENSE: dict[str, Family] = {
    "llama": LLAMA,
    "yi": LLAMA,
    "aquila": LLAMA,
    "smollm3": Family(tied=True, qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, mlp_bias=_MLP_BIAS, kv_heads=4),
    "granite": LLAMA,
    "helium": Family(qkv_bias=_ATTENTION_BIAS, head_dim=128),
    "ernie4_5": Family(tied=True, qkv_bias=("use_bias", False), out_bias=("use_bias", False), mlp_bias=("use_bias", False), head_dim=128),
    "arcee": Family(gated=False, qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, mlp_bias=_MLP_BIAS),
    "seed_oss": Family(qkv_bias=("attention_bias", True), out_bias=("attention_out_bias", False), mlp_bias=_MLP_BIAS, head_dim=128),
    "hunyuan_v1_dense": Family(qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, qk_norm=True),
    "exaone4": Family(qk_norm=True, window="some"),
    "mistral": _MISTRAL,
    "ministral": _MISTRAL,
    "ministral3": Family(kv_heads=8),
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "phi3": _PHI3,
    "gemma": _GEMMA,
    "gemma2": Family(tied=True, norms=4, qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, head_dim=256, kv_heads=4, window="some"),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "olmo2": _OLMO2,
    "olmo3": Family(
        qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, qk_norm=True, qk_norm_per_head=False, window="some"
    ),
    "glm": Family(qkv_bias=_ATTENTION_BIAS, head_dim=128),
    "glm4": Family(norms=4, qkv_bias=_ATTENTION_BIAS, head_dim=128),
    "cohere": Family(
        norm="LayerNorm", norm_bias=False, norms=1, tied=True, qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS,
        qk_norm=("use_qk_norm", False), qk_norm_per_head=False,
    ),
    "cohere2": Family(
        norm="LayerNorm", norm_bias=False, norms=1, tied=True, qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, window="some"
    ),
    "nemotron": Family(
        norm="LayerNorm", gated=False, qkv_bias=_ATTENTION_BIAS, out_bias=_ATTENTION_BIAS, mlp_bias=_MLP_BIAS
    ),
    "stablelm": Family(norm="LayerNorm", qkv_bias=("use_qkv_bias", False), adjust=_stablelm),
    "starcoder2": Family(
        norm="LayerNorm", gated=False, tied=True, qkv_bias=("use_bias", True), out_bias=("use_bias", True),
        mlp_bias=("use_bias", True), kv_heads=2, window="all",
    ),
    "phi": Family(
        norm="LayerNorm", norms=1, gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, head_bias=True,
        qk_norm=("qk_layernorm", False),
    ),
    "persimmon": Family(
        norm="LayerNorm", gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, qk_norm=("qk_layernorm", True)
    ),
    "internlm": Family(qkv_bias=("bias", True), out_bias=("bias", True)),
    "internlm2": Family(qkv_bias=("bias", False), out_bias=("bias", False)),
    "internlm3": Family(qkv_bias=("qkv_bias", False), out_bias=("bias", False), mlp_bias=("bias", False)),
    "baichuan": Family(),
    "xverse": Family(),
    "orion": Family(norm="LayerNorm"),
    "minicpm": Family(tied=True, adjust=_minicpm),
    "exaone": Family(tied=False),
    "chatglm": _CHATGLM,
    "qwen": Family(qkv_bias=True, adjust=_qwen_v1),
}
