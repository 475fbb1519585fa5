"""Argument dumps of Megatron-LM, and configuration dumps of NeMo and Megatron Bridge, as `ModelSpec`.

Such a dump holds hundreds of training arguments. Those that describe the model are taken, training arguments with a
counterpart in `model.yaml` too, and the rest is ignored; a key nobody knows is not an error here.
"""

from __future__ import annotations

import ast
from typing import Any

from autotune.errors import InputError
from autotune.hf.layout import regular
from autotune.hf.mapping import build
from autotune.hf.reader import Reader
from autotune.specs import ModelSpec

# Where frameworks nest the model: NeMo 1 `model`, NeMo 2 `config` / `model.config`, Megatron Bridge `model`.
_NESTS = ("model", "config", "model_config", "args", "megatron_args", "transformer")
_OWN_KEYS = {"num_layers", "hidden_size", "num_attention_heads"}
_HYBRID_KEYS = (
    "hybrid_override_pattern", "hybrid_attention_ratio", "mamba_state_dim", "is_hybrid_model", "heterogeneous_layers_config_path",
    "encoder_num_layers",
)
_MODEL_DEFAULTS: dict[str, int | None] = {
    "ffn_hidden_size": None, "kv_channels": None, "num_query_groups": None, "max_position_embeddings": None,
    "moe_ffn_hidden_size": None, "moe_shared_expert_intermediate_size": None, "moe_router_num_groups": None,
    "moe_router_group_topk": None, "mtp_num_layers": None, "make_vocab_size_divisible_by": None,
}
_LATENT = {
    "kv_lora_rank": 512, "qk_head_dim": 128, "qk_pos_emb_head_dim": 64, "v_head_dim": 128,  # Megatron's MLA defaults
}


def looks_like_megatron(data: Any) -> bool:
    """Is this mapping a dump of Megatron, NeMo or Bridge (nested, or with far more keys than a model.yaml)?

    >>> looks_like_megatron({"model": {"num_layers": 2, "hidden_size": 8, "num_attention_heads": 2}})
    True
    >>> looks_like_megatron({"num_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 10, "seq_length": 4})
    False
    """
    if not isinstance(data, dict) or "model_type" in data or "architectures" in data:
        return False
    inner = _innermost(data)
    if inner is None:
        return False
    if inner is not data:
        return True
    other = {str(k).replace("-", "_") for k in data} - set(ModelSpec.model_fields)
    return bool(other & _TELLTALE)


# Arguments that occur in every Megatron dump and in no model.yaml.
_TELLTALE = {
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size", "global_batch_size", "padded_vocab_size",
    "group_query_attention", "lr", "train_iters", "encoder_seq_length", "activation_func", "gated_linear_unit", "bf16",
    "tokenizer_type", "encoder_num_layers", "layernorm_epsilon",
}


def model_from_megatron(data: dict[str, Any], file: str = "", name: str = "") -> ModelSpec:
    """The `ModelSpec` of a Megatron argument dump or a NeMo / Megatron Bridge configuration.

    Keys may be spelled with `-` or `_`. Defaults are Megatron's. Raises InputError.

    >>> spec = model_from_megatron({"num-layers": 2, "hidden-size": 64, "num-attention-heads": 4, "padded_vocab_size": 1024,
    ...                             "seq-length": 128, "swiglu": True, "lr": 3e-4, "normalization": "RMSNorm"})
    >>> spec.num_layers, spec.vocab_size, spec.swiglu
    (2, 1024, True)
    """
    inner = _innermost(data) if isinstance(data, dict) else None
    if inner is None:
        raise InputError.of("not a Megatron configuration: num_layers, hidden_size and num_attention_heads are needed", file=file)
    reader = Reader(_plain_keys(inner), file, around=_surroundings(data))
    open_keys = sorted(k for k, v in reader.data.items() if isinstance(v, str) and v.startswith("${"))
    for key in open_keys:
        del reader.data[key]  # an OmegaConf reference that the dump did not resolve
        if key in ModelSpec.model_fields:
            reader.notes.append(f"{key} is an unresolved reference; Megatron's default taken")
    for key in _HYBRID_KEYS:
        if reader.raw(key) not in (None, False, 0, 0.0, ""):
            if key == "encoder_num_layers" and reader.raw(key) == reader.raw("num_layers"):
                continue  # Megatron repeats num_layers under this name for decoder-only models
            raise reader.refuse(f"{key} is set: layers of several kinds, or an encoder", key)
    spec = _shape(reader)
    _attention(reader, spec)
    _experts(reader, spec)
    training = _training(reader)
    if training:
        spec["training"] = training
    spec["name"] = name or reader.text("name", "model_name") or "megatron-model"
    spec["description"] = "; ".join(["from a Megatron configuration", *reader.notes])
    reader.fail_if_problems()
    return build(spec, file)


def _innermost(data: dict[str, Any], depth: int = 0) -> dict[str, Any] | None:
    if {str(k).replace("-", "_") for k in data} >= _OWN_KEYS:
        return data
    if depth < 4:
        for key in _NESTS:
            value = data.get(key)
            if isinstance(value, dict):
                found = _innermost(value, depth + 1)
                if found is not None:
                    return found
    return None


def _plain_keys(data: dict[str, Any]) -> dict[str, Any]:
    return {str(k).lstrip("-").replace("-", "_"): v for k, v in data.items()}


def _surroundings(data: dict[str, Any]) -> dict[str, Any]:
    """Training keys that frameworks keep beside the model, not in it."""
    around: dict[str, Any] = {}
    for part in (data, *(v for k, v in data.items() if k in ("model", "data", "train", "dataset", "training", "tokenizer"))):
        if isinstance(part, dict):
            wanted = ("global_batch_size", "micro_batch_size", "seq_length", "sequence_length", "vocab_size", "name", "precision")
            around |= {k: v for k, v in part.items() if k in wanted and not isinstance(v, dict)}
    return around


def _shape(reader: Reader) -> dict[str, Any]:
    gated = reader.flag("swiglu", False) or reader.flag("gated_linear_unit", False)
    activation = reader.text("activation", "activation_func").lower()
    gated = gated or any(word in activation for word in ("swiglu", "geglu", "reglu"))
    positions = reader.text("position_embedding_type") or ("rope" if reader.flag("use_rotary_position_embeddings", False) else "learned_absolute")
    if positions not in ("learned_absolute", "rope", "alibi", "none"):
        if positions not in ("yarn", "mrope", "rotary"):
            reader.problem(f"'{positions[:40]}' is not one of learned_absolute, rope, alibi, none", "position_embedding_type")
        positions = "rope"
    norm = reader.text("normalization") or "LayerNorm"
    shared = reader.raw("share_embeddings_and_output_weights")
    untied = reader.flag("untie_embeddings_and_output_weights", False) if shared is None else not shared
    bias = reader.raw("add_bias_linear")
    if bias is None:
        bias = not reader.flag("disable_bias_linear", False) and reader.flag("bias", True)
    spec: dict[str, Any] = {
        "num_layers": reader.integer("num_layers"),
        "hidden_size": reader.integer("hidden_size"),
        "num_attention_heads": reader.integer("num_attention_heads"),
        "swiglu": gated,
        "vocab_size": reader.integer("vocab_size", "padded_vocab_size", "override_vocab_size"),
        "seq_length": reader.integer("seq_length", "encoder_seq_length", "sequence_length"),
        "position_embedding_type": positions,
        "untie_embeddings_and_output_weights": untied,
        "normalization": "RMSNorm" if "rms" in norm.lower() else "LayerNorm",
        "add_bias_linear": bool(bias),
        "add_qkv_bias": reader.flag("add_qkv_bias", False) or reader.flag("qkv_bias", False),
    }
    for key in _MODEL_DEFAULTS:
        value = reader.optional(key)
        if value is not None:
            spec[key] = value
    if reader.has("rotary_base"):
        spec["rotary_base"] = reader.integer("rotary_base")
    if positions == "learned_absolute" and "max_position_embeddings" not in spec:
        spec["max_position_embeddings"] = spec["seq_length"]
    return spec


def _attention(reader: Reader, spec: dict[str, Any]) -> None:
    if reader.raw("group_query_attention") is False:
        spec.pop("num_query_groups", None)
    spec["qk_layernorm"] = reader.flag("qk_layernorm", False)
    window = reader.raw("window_size")
    if isinstance(window, (list, tuple)) and window and isinstance(window[0], int) and window[0] > 0:
        if reader.has("window_attn_skip_freq"):
            reader.notes.append(f"some layers attend to {window[0]} tokens only; all are priced with full attention")
        else:
            spec["window_size"] = window[0] + 1
    if reader.flag("multi_latent_attention", False):
        spec["multi_latent_attention"] = True
        spec["q_lora_rank"] = reader.optional("q_lora_rank")
        for key, default in _LATENT.items():
            spec[key] = reader.integer(key, default=default)
        spec["qk_layernorm"] = False  # counted with the latent projections
        spec.pop("num_query_groups", None)


def _experts(reader: Reader, spec: dict[str, Any]) -> None:
    experts = reader.optional("num_experts", "num_moe_experts")
    if experts is None:
        return
    spec["num_experts"] = experts
    spec["moe_router_topk"] = reader.integer("moe_router_topk", default=2)
    spec["moe_shared_expert_gate"] = reader.flag("moe_shared_expert_gate", False)
    if reader.flag("moe_router_enable_expert_bias", False):
        spec["moe_router_bias"] = "expert"
    factor = reader.raw("moe_expert_capacity_factor")
    if isinstance(factor, (int, float)) and not isinstance(factor, bool) and factor > 0:
        spec["moe_capacity_factor"] = float(factor)
    if reader.flag("moe_router_force_load_balancing", False):
        spec["moe_load_variation"] = 0.0
    frequency = _pattern(reader.raw("moe_layer_freq"))
    if frequency is None:
        frequency = [True] * spec["num_layers"] if reader.raw("moe_layer_freq") is None else None
    if isinstance(frequency, int):
        spec["moe_layer_freq"] = max(1, frequency)
        return
    places = regular(frequency) if frequency and len(frequency) == spec["num_layers"] else None
    if places is None:
        reader.problem("must be a number or a list with 0 or 1 per layer, in a regular pattern", "moe_layer_freq")
    else:
        spec["first_k_dense"], spec["moe_layer_freq"] = places


def _pattern(value: Any) -> int | list[bool] | None:
    """`moe_layer_freq`: a number, a list, or the text of a list expression such as `([0]*3+[1]*58)`."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and len(value) < 2000:
        try:
            value = _list_expression(ast.parse(value.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        if isinstance(value, int):
            return value
    return [bool(v) for v in value] if isinstance(value, list) else None


def _list_expression(node: ast.expr) -> Any:
    """Numbers, lists, and `+` and `*` of them; anything else is a ValueError."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.List):
        return [_list_expression(e) for e in node.elts]
    if isinstance(node, ast.BinOp):
        left, right = _list_expression(node.left), _list_expression(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int) and len(left) * right <= 100_000:
            return left * right
    raise ValueError("not a list expression")


def _training(reader: Reader) -> dict[str, Any]:
    training: dict[str, Any] = {}
    batch = reader.optional("global_batch_size")
    if batch:
        training["global_batch_size"] = batch
    precision = reader.text("precision").lower()
    if reader.raw("fp8") not in (None, False, "", "none"):
        training["precision"] = "fp8"
    elif reader.raw("fp16") is True or precision in ("16", "fp16", "16-mixed"):
        training["precision"] = "fp16"
    return training
