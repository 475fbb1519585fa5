"""The GPT line: LayerNorm with bias, feed-forward blocks without a gate, and key names of their own."""

from __future__ import annotations

from typing import Any

from autotune.hf.family import Family
from autotune.hf.reader import Reader


def _falcon(reader: Reader, spec: dict[str, Any]) -> None:
    """Falcon: KV heads and norms depend on which of two decoder layouts is used."""
    new = reader.flag("new_decoder_architecture", False) or reader.has("n_head_kv")
    parallel = reader.flag("parallel_attn", True)
    heads = spec["num_attention_heads"]
    if new:
        groups = reader.integer("num_kv_heads", "n_head_kv", default=heads)
        spec["norms_per_layer"] = reader.integer("num_ln_in_parallel_attn", default=2 if parallel else 2)
    else:
        groups = 1 if reader.flag("multi_query", True) else heads
        spec["norms_per_layer"] = 1 if parallel else 2
    spec["num_query_groups"] = groups
    if reader.flag("alibi", False):
        spec["position_embedding_type"] = "alibi"


def _bigcode(reader: Reader, spec: dict[str, Any]) -> None:
    if reader.flag("multi_query", True):
        spec["num_query_groups"] = 1


def _opt(reader: Reader, spec: dict[str, Any]) -> None:
    """OPT: two rows more in the position table; the small variant projects its embeddings."""
    spec["position_table_rows"] = (spec["max_position_embeddings"] or 0) + 2
    if reader.integer("word_embed_proj_dim", default=spec["hidden_size"]) != spec["hidden_size"]:
        raise reader.refuse("the word embedding is narrower than the layers", "word_embed_proj_dim")
    if not reader.flag("do_layer_norm_before", True):
        raise reader.refuse("norms behind the blocks and none at the end", "do_layer_norm_before")
    if reader.raw("enable_bias") is False or reader.raw("layer_norm_elementwise_affine") is False:
        raise reader.refuse("an OPT variant without biases or norm weights", "enable_bias")


def _mpt(reader: Reader, spec: dict[str, Any]) -> None:
    """MPT: attention settings are nested; `no_bias` also takes the bias of the norms."""
    attention = reader.inner("attn_config")
    kind = attention.text("attn_type") or "multihead_attention"
    heads = spec["num_attention_heads"]
    if kind == "multiquery_attention":
        spec["num_query_groups"] = 1
    elif kind == "grouped_query_attention":
        spec["num_query_groups"] = attention.integer("kv_n_heads", default=heads)
    if not attention.flag("alibi", True):
        learned = reader.flag("learned_pos_emb", True) and not attention.flag("rope", False)
        spec["position_embedding_type"] = "learned_absolute" if learned else "rope"
    if attention.flag("qk_ln", False) or attention.flag("qk_gn", False):
        raise reader.refuse("MPT with norms on queries and keys", "attn_config")
    ffn = reader.inner("ffn_config").text("ffn_type") or "mptmlp"
    if ffn != "mptmlp":
        raise reader.refuse(f"MPT with the feed-forward type {ffn[:40]!r}", "ffn_config")
    spec["ffn_hidden_size"] = reader.integer("expansion_ratio", default=4) * spec["hidden_size"]
    if not reader.flag("no_bias", True):
        raise reader.refuse("MPT with biases (its released models have none)", "no_bias")


def _neox(reader: Reader, spec: dict[str, Any]) -> None:
    if spec.get("ffn_hidden_size") is None:
        spec["ffn_hidden_size"] = 4 * spec["hidden_size"]


_GPT2 = Family(
    norm="LayerNorm", gated=False, tied=True, positions="learned_absolute", qkv_bias=True, out_bias=True, mlp_bias=True, ffn_factor=4
)
_GPTJ = Family(norm="LayerNorm", norms=1, gated=False, mlp_bias=True, head_bias=True, ffn_factor=4)
_FALCON = Family(
    norm="LayerNorm", gated=False, tied=True, qkv_bias=("bias", False), out_bias=("bias", False), mlp_bias=("bias", False),
    ffn_factor=4, adjust=_falcon,
)

GPT: dict[str, Family] = {
    "gpt2": _GPT2,
    "gpt_bigcode": Family(
        norm="LayerNorm", gated=False, tied=True, positions="learned_absolute", qkv_bias=True, out_bias=True, mlp_bias=True,
        ffn_factor=4, adjust=_bigcode,
    ),
    "gpt_neo": Family(
        norm="LayerNorm", gated=False, tied=True, positions="learned_absolute", out_bias=True, mlp_bias=True, ffn_factor=4,
        window="some",
    ),
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "gpt_neox": Family(
        norm="LayerNorm", gated=False, qkv_bias=("attention_bias", True), out_bias=("attention_bias", True), mlp_bias=True,
        ffn_factor=4, adjust=_neox,
    ),
    "opt": Family(
        norm="LayerNorm", gated=False, tied=True, positions="learned_absolute", qkv_bias=True, out_bias=True, mlp_bias=True, adjust=_opt
    ),
    "bloom": Family(
        norm="LayerNorm", gated=False, tied=True, positions="alibi", qkv_bias=True, out_bias=True, mlp_bias=True, ffn_factor=4,
        adjust=lambda reader, spec: spec.update(embedding_norm=True),
    ),
    "falcon": _FALCON,
    "refinedweb": _FALCON,
    "refinedwebmodel": _FALCON,
    "mpt": Family(norm="LayerNorm", norm_bias=False, gated=False, tied=True, positions="alibi", ffn_factor=4, adjust=_mpt),
}
