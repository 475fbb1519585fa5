"""Architectures the cost model does not describe, each with the reason the user is told.

The model prices decoder-only transformers whose layers are of at most two kinds (with and without experts). Anything
else is refused by name instead of being priced as something it is not.
"""

from __future__ import annotations

from autotune.hf.reader import Reader, uniform

_ENCODER = "an encoder-only model; only decoder-only transformers are covered"
_ENCODER_DECODER = "an encoder-decoder model; only decoder-only transformers are covered"
_STATE_SPACE = "a state-space or recurrent model without attention layers"
_HYBRID = "a hybrid of attention with state-space, recurrent, convolution or linear-attention layers"
_VARYING = "its layers differ from one another in shape"
_CROSS = "cross-attention layers to another modality"

_GROUPS: dict[str, tuple[str, ...]] = {
    _ENCODER: (
        "bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "deberta", "deberta-v2", "electra", "distilbert", "camembert",
        "modernbert", "mpnet", "longformer", "big_bird", "esm", "ernie", "nomic_bert", "eurobert", "megatron-bert", "vit",
        "clip", "siglip", "wav2vec2", "hubert", "squeezebert", "mobilebert", "funnel", "nystromformer", "convbert", "roformer",
    ),
    _ENCODER_DECODER: (
        "t5", "mt5", "umt5", "longt5", "switch_transformers", "t5gemma", "bart", "mbart", "pegasus", "pegasus_x", "marian",
        "m2m_100", "nllb-moe", "led", "whisper", "blenderbot", "blenderbot-small", "prophetnet", "bigbird_pegasus",
        "encoder-decoder", "speech_to_text", "mvp", "plbart", "fsmt", "moonshine",
    ),
    _STATE_SPACE: ("mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "rwkv6", "rwkv7", "xlstm", "retnet", "hyena"),
    _HYBRID: (
        "nemotron_h", "nemotronh", "jamba", "zamba", "zamba2", "bamba", "falcon_h1", "granitemoehybrid", "recurrent_gemma",
        "qwen3_next", "qwen3_5", "qwen3_5_moe", "minimax", "minimax_text_01", "lfm2", "lfm2_moe", "plamo2", "kimi_linear",
        "hymba", "phi4flash", "olmo_hybrid", "stripedhyena", "griffin", "samba",
    ),
    _VARYING: ("nemotron-nas", "deci", "deci_lm", "openelm", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "laguna"),
    _CROSS: ("mllama", "mllama_text_model", "idefics", "flamingo"),
    "its layers share their weights": ("albert",),
    "a learned index that chooses which tokens are attended to (sparse attention)": ("deepseek_v32", "glm_moe_dsa", "deepseek_v4"),
    "norms without weights": ("olmo", "hf_olmo"),
}
REFUSED: dict[str, str] = {name: reason for reason, names in _GROUPS.items() for name in names}

_TELLTALE: dict[str, str] = {
    "block_configs": "block_configs: " + _VARYING,
    "hybrid_override_pattern": _HYBRID,
    "layers_block_type": _HYBRID,
    "attn_layer_period": _HYBRID,
    "mamba_d_state": _HYBRID,
    "linear_num_key_heads": _HYBRID,
    "linear_attn_config": _HYBRID,
    "ssm_cfg": _STATE_SPACE,
    "ssm_state_size": _STATE_SPACE,
    "time_step_rank": _STATE_SPACE,
    "cross_attention_layers": _CROSS,
    "encoder_layers": _ENCODER_DECODER,
    "num_decoder_layers": _ENCODER_DECODER,
    "index_topk": "a learned index that chooses which tokens are attended to (sparse attention)",
}
_PER_LAYER = (
    "num_attention_heads", "num_key_value_heads", "intermediate_size", "ffn_multipliers", "num_query_heads", "num_kv_heads",
    "hidden_size", "head_dim",
)
_ATTENTION_KINDS = ("full_attention", "sliding_attention", "chunked_attention", "attention", "global", "local", "full", "dense")


def check_supported(reader: Reader) -> None:
    """Raise an InputError that names the feature when the configuration is of a kind that cannot be priced.

    >>> check_supported(Reader({"model_type": "mamba"}))
    Traceback (most recent call last):
    autotune.errors.InputError: this model cannot be priced: 'mamba' is a state-space or recurrent model ... model_type
    """
    kind = reader.text("model_type").lower()
    if kind in REFUSED:
        reason = REFUSED[kind]
        joint = "is" if reason.startswith("a") and not reason.startswith("a learned") else "has"
        raise reader.refuse(f"'{kind}' {reason if reason.startswith('its') else f'{joint} {reason}'}", "model_type")
    if reader.raw("is_encoder_decoder") is True:
        raise reader.refuse(_ENCODER_DECODER, "is_encoder_decoder")
    for key, reason in _TELLTALE.items():
        if reader.has(key):
            raise reader.refuse(reason, key)
    kinds = reader.raw("layer_types")
    if isinstance(kinds, list):
        other = sorted({str(k)[:40] for k in kinds if k not in _ATTENTION_KINDS})
        if other:
            raise reader.refuse(f"{_HYBRID} ({', '.join(other[:4])})", "layer_types")
    for key in _PER_LAYER:
        if isinstance(uniform(reader.raw(key)), list):
            raise reader.refuse(f"{_VARYING} (one value per layer)", key)
