"""From a configuration and its family to `ModelSpec`."""

from __future__ import annotations

from typing import Any

from autotune.hf.family import Experts, Family, resolve
from autotune.hf.layout import expert_layers, regular
from autotune.hf.reader import Reader
from autotune.schema_errors import validated
from autotune.specs import ModelSpec
from autotune.yaml_lines import Document

# A configuration's largest length is often far above what anyone trains at; 8192 is the usual pre-training length.
LONGEST_DEFAULT_SEQUENCE = 8192
NO_LENGTH_GIVEN = 2048

_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx", "model_max_length")


def to_spec(reader: Reader, family: Family, name: str) -> ModelSpec:
    """The model file of one configuration. Raises InputError with every problem found."""
    spec = _shape(reader, family)
    _attention(reader, family, spec)
    _norms_and_biases(reader, family, spec)
    if family.experts:
        _experts(reader, family, family.experts, spec)
    elif (reader.optional("num_local_experts", "num_experts", "n_routed_experts") or 0) > 1:
        raise reader.refuse("experts in an architecture that is known without them", "num_experts")
    _lengths(reader, spec)
    if family.adjust:
        family.adjust(reader, spec)
    if family.experts:
        _place_experts(reader, spec)
    spec["name"] = name
    spec["description"] = "; ".join(reader.notes)
    reader.fail_if_problems()
    return build(spec, reader.file)


def build(spec: dict[str, Any], file: str) -> ModelSpec:
    """A validated ModelSpec; what the schema rejects becomes an InputError."""
    return validated(ModelSpec, Document({k: v for k, v in spec.items() if v is not None}, file))


def _shape(reader: Reader, family: Family) -> dict[str, Any]:
    hidden = reader.integer("hidden_size", "n_embd", "n_embed", "d_model")
    width = None
    if family.experts is None or family.experts.width:
        default = None if family.ffn_factor is None else int(family.ffn_factor * hidden)
        nested = reader.raw("ffn_config")
        if isinstance(nested, dict) or reader.has("expansion_ratio"):
            default = default or 4 * hidden
        width = reader.integer("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", default=default)
    return {
        "num_layers": reader.integer("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        "hidden_size": hidden,
        "num_attention_heads": reader.integer("num_attention_heads", "n_head", "n_heads", "num_heads"),
        "ffn_hidden_size": width,
        "swiglu": family.gated,
        "vocab_size": reader.integer("vocab_size", "padded_vocab_size"),
        "position_embedding_type": family.positions,
        "untie_embeddings_and_output_weights": not reader.flag("tie_word_embeddings", family.tied),
    }


def _attention(reader: Reader, family: Family, spec: dict[str, Any]) -> None:
    if family.latent and reader.has("kv_lora_rank"):
        spec["multi_latent_attention"] = True
        spec["q_lora_rank"] = reader.optional("q_lora_rank")
        spec["kv_lora_rank"] = reader.integer("kv_lora_rank")
        spec["qk_head_dim"] = reader.integer("qk_nope_head_dim")
        spec["qk_pos_emb_head_dim"] = reader.integer("qk_rope_head_dim")
        spec["v_head_dim"] = reader.integer("v_head_dim")
        return
    heads = spec["num_attention_heads"]
    groups = reader.optional("num_key_value_heads", "num_kv_heads", "n_head_kv")
    spec["num_query_groups"] = groups or family.kv_heads or heads
    if groups is None and family.kv_heads:
        reader.notes.append(f"{family.kv_heads} KV heads assumed, the default of this architecture")
    given = reader.optional("head_dim", "kv_channels", "attention_head_dim")
    if given or family.head_dim:
        spec["kv_channels"] = given or family.head_dim
    spec["qk_layernorm"] = resolve(family.qk_norm, reader)
    spec["qk_norm_per_head"] = family.qk_norm_per_head
    _window(reader, family, spec)


def _window(reader: Reader, family: Family, spec: dict[str, Any]) -> None:
    if family.window == "none" or (family.window == "switch" and not reader.flag("use_sliding_window", False)):
        return
    size = reader.optional("sliding_window", "window_size")
    if size is None:
        return
    kinds = reader.raw("layer_types")
    mixed = isinstance(kinds, list) and any(k != "sliding_attention" for k in kinds)
    if family.window == "all" and not mixed:
        spec["window_size"] = size
    else:
        reader.notes.append(f"some layers attend to {size} tokens only; all are priced with full attention")


def _norms_and_biases(reader: Reader, family: Family, spec: dict[str, Any]) -> None:
    spec["normalization"] = family.norm
    if family.norm == "LayerNorm":
        spec["norm_bias"] = resolve(family.norm_bias, reader)
    spec["norms_per_layer"] = family.norms
    qkv, out, mlp = (resolve(f, reader) for f in (family.qkv_bias, family.out_bias, family.mlp_bias))
    everywhere = qkv and out and mlp and family.experts is None
    spec["add_bias_linear"] = everywhere
    if not everywhere:
        spec["add_qkv_bias"], spec["add_attention_output_bias"], spec["add_mlp_bias"] = qkv, out, mlp
    spec["output_bias"] = resolve(family.head_bias, reader)


def _experts(reader: Reader, family: Family, experts: Experts, spec: dict[str, Any]) -> None:
    if not experts.width:
        return  # described in a nested mapping, read by the family's own function
    spec["num_experts"] = reader.integer(
        "num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts", default=experts.default_count
    )
    spec["moe_router_topk"] = reader.integer(
        "num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_topk", "moe_k", default=experts.default_topk
    )
    width = reader.integer(*experts.width)
    spec["moe_ffn_hidden_size"] = width
    if experts.shared_count:
        shared = reader.optional(*experts.shared_count)
        spec["moe_shared_expert_intermediate_size"] = shared * width if shared else None
    elif experts.shared_width:
        spec["moe_shared_expert_intermediate_size"] = reader.optional(*experts.shared_width)
    spec["moe_shared_expert_gate"] = experts.shared_gate and bool(spec.get("moe_shared_expert_intermediate_size"))
    spec["moe_router_bias"] = experts.router_bias
    spec["moe_expert_bias"] = experts.biases
    groups, reach = reader.optional("n_group"), reader.optional("topk_group")
    if groups and reach and groups > 1 and reader.text("topk_method") != "greedy":
        spec["moe_router_num_groups"], spec["moe_router_group_topk"] = groups, reach
    spec["mtp_num_layers"] = reader.integer("num_nextn_predict_layers", default=0, least=0)
    if spec["mtp_num_layers"]:
        reader.notes.append("the parameter total leaves the multi-token-prediction layers out, as published totals do")


def _place_experts(reader: Reader, spec: dict[str, Any]) -> None:
    """Say which layers have experts, or drop the experts when none has."""
    if reader.problems:
        return
    pattern = expert_layers(reader, spec["num_layers"])
    if not any(pattern):
        for key in [k for k in spec if k.startswith("moe_") or k == "num_experts"]:
            del spec[key]
        return
    places = regular(pattern)
    if places is None:
        raise reader.refuse("layers with and without experts alternate irregularly", "mlp_only_layers")
    spec["first_k_dense"], spec["moe_layer_freq"] = places


def _lengths(reader: Reader, spec: dict[str, Any]) -> None:
    longest = reader.optional(*_POSITIONS)
    sequence = min(longest or NO_LENGTH_GIVEN, LONGEST_DEFAULT_SEQUENCE)
    spec["seq_length"] = sequence
    spec["max_position_embeddings"] = longest
    theta = reader.raw("rope_theta", "rotary_emb_base") or reader.mapping("rope_parameters").get("rope_theta")
    if isinstance(theta, (int, float)) and not isinstance(theta, bool) and 1 <= theta <= 1e8:
        spec["rotary_base"] = int(theta)
    if longest is None:
        reader.notes.append(f"sequence length {sequence} assumed, the configuration gives none")
        if spec["position_embedding_type"] == "learned_absolute":
            reader.problem("missing: the size of the learned position table", _POSITIONS[0])
    elif longest > sequence:
        reader.notes.append(f"sequence length {sequence} assumed, the model allows {longest}")
    else:
        reader.notes.append(f"sequence length {sequence}, the longest of the configuration")
