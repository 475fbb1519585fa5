"""Megatron argument dumps and NeMo / Megatron Bridge configurations."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.constants import model_constants
from autotune.errors import InputError
from autotune.hf_config import looks_like_megatron, model_from_megatron
from costmodels.parameters import total_parameters

# A GPT-3 175B run as Megatron-LM prints its arguments, cut down to what matters and some that do not.
ARGS = {
    "num_layers": 96, "encoder_num_layers": 96, "hidden_size": 12288, "num_attention_heads": 96, "seq_length": 2048,
    "max_position_embeddings": 2048, "padded_vocab_size": 51200, "micro_batch_size": 1, "global_batch_size": 1536,
    "tensor_model_parallel_size": 8, "pipeline_model_parallel_size": 16, "lr": 6e-5, "fp16": True, "group_query_attention": False,
    "num_query_groups": 1, "position_embedding_type": "learned_absolute", "untie_embeddings_and_output_weights": False,
    "normalization": "LayerNorm", "swiglu": False, "add_bias_linear": True, "num_experts": None, "tokenizer_type": "GPT2BPETokenizer",
}


def test_gpt3() -> None:
    spec = model_from_megatron(ARGS, "args.yaml", "gpt3")
    assert (spec.name, spec.kv_heads, spec.training.global_batch_size, spec.training.precision) == ("gpt3", 96, 1536, "fp16")
    # 12 L h^2 (1 + 13/12h) plus embeddings: 51200 x 12288 words, 2048 positions and the last norm
    h, layers = 12288, 96
    expected = layers * (12 * h * h + 13 * h) + 51200 * h + 2048 * h + 2 * h
    assert total_parameters(model_constants(spec)) == expected


def test_dashes_are_underscores() -> None:
    dashed = {k.replace("_", "-"): v for k, v in ARGS.items()}
    assert model_from_megatron(dashed).num_layers == 96
    assert looks_like_megatron(dashed) and looks_like_megatron(ARGS)


def test_a_model_yaml_is_not_a_dump() -> None:
    assert not looks_like_megatron({"name": "x", "num_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 9, "seq_length": 4})
    assert not looks_like_megatron({"model_type": "llama", "architectures": ["LlamaForCausalLM"]})
    assert not looks_like_megatron([1]) and not looks_like_megatron({})


def test_nemo_nests_the_model() -> None:
    """Llama-3-8B as a NeMo 1 configuration writes it."""
    config = {
        "trainer": {"num_nodes": 1, "devices": 8, "precision": "bf16"},
        "model": {
            "mcore_gpt": True, "micro_batch_size": 1, "global_batch_size": 128, "encoder_seq_length": 8192, "num_layers": 32,
            "hidden_size": 4096, "ffn_hidden_size": 14336, "num_attention_heads": 32, "num_query_groups": 8,
            "max_position_embeddings": 8192, "normalization": "rmsnorm", "activation": "fast-swiglu", "bias": False,
            "position_embedding_type": "rope", "share_embeddings_and_output_weights": False, "vocab_size": 128256,
        },
    }
    assert looks_like_megatron(config)
    spec = model_from_megatron(config)
    assert spec.seq_length == 8192 and spec.training.global_batch_size == 128
    assert total_parameters(model_constants(spec)) == 8_030_261_248


def test_bridge_keeps_data_and_training_outside() -> None:
    config = {
        "model": {
            "_target_": "megatron.bridge.models.DeepSeekV3ModelProvider", "num_layers": 61, "hidden_size": 7168, "ffn_hidden_size": 18432,
            "num_attention_heads": 128, "kv_channels": 128, "multi_latent_attention": True, "q_lora_rank": 1536, "kv_lora_rank": 512,
            "qk_head_dim": 128, "qk_pos_emb_head_dim": 64, "v_head_dim": 128, "normalization": "RMSNorm", "gated_linear_unit": True,
            "add_bias_linear": False, "share_embeddings_and_output_weights": False, "position_embedding_type": "rope", "qk_layernorm": True,
            "num_moe_experts": 256, "moe_ffn_hidden_size": 2048, "moe_shared_expert_intermediate_size": 2048, "moe_router_topk": 8,
            "moe_router_enable_expert_bias": True, "moe_layer_freq": [0] * 3 + [1] * 58, "vocab_size": 129280, "mtp_num_layers": 1,
            "moe_router_num_groups": 8, "moe_router_group_topk": 4, "seq_length": 4096,
        },
        "train": {"global_batch_size": 2048, "micro_batch_size": 1},
        "dataset": {"sequence_length": 4096},
    }
    spec = model_from_megatron(config)
    assert (spec.first_k_dense, spec.moe_layer_freq, spec.training.global_batch_size) == (3, 1, 2048)
    assert total_parameters(model_constants(spec)) == 671_026_419_200


def test_unresolved_references_are_defaults_and_said() -> None:
    spec = model_from_megatron({**ARGS, "ffn_hidden_size": "${multiply:4, ${.hidden_size}}"})
    assert spec.ffn == 4 * 12288 and "ffn_hidden_size is an unresolved reference" in spec.description
    with pytest.raises(InputError, match="hidden_size"):
        model_from_megatron({**ARGS, "hidden_size": "${h}"})


@pytest.mark.parametrize(("value", "places"), [
    ("([0]*3+[1]*5)", (3, 1)), ("[0,1]*4", (1, 2)), (2, (0, 2)), ("2", (0, 2)), ([1] * 8, (0, 1)), (None, (0, 1)),
])
def test_moe_layer_freq(value: object, places: tuple[int, int]) -> None:
    spec = model_from_megatron({**ARGS, "num_layers": 8, "encoder_num_layers": 8, "num_experts": 4, "moe_layer_freq": value, "add_bias_linear": False})
    assert (spec.first_k_dense, spec.moe_layer_freq) == places


@pytest.mark.parametrize("value", ["__import__('os').system('true')", "[1]*10**9", "[1]*3", "x", [1, 1, 0, 0, 1, 0, 0, 1], True, "(" * 500])
def test_bad_moe_layer_freq(value: object) -> None:
    with pytest.raises(InputError, match="moe_layer_freq"):
        model_from_megatron({**ARGS, "num_layers": 8, "encoder_num_layers": 8, "num_experts": 4, "moe_layer_freq": value}, "args.yaml")


@pytest.mark.parametrize(("change", "words"), [
    ({"hybrid_override_pattern": "M-M*"}, "hybrid_override_pattern"),
    ({"encoder_num_layers": 12}, "encoder"),
    ({"position_embedding_type": "sinus"}, "position_embedding_type"),
    ({"hidden_size": "big"}, "hidden_size"),
    ({"seq_length": None}, "seq_length"),
])
def test_refused(change: dict, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        model_from_megatron({**ARGS, **change}, "args.yaml")
    assert caught.value.problems[0].file == "args.yaml"


@pytest.mark.parametrize("bad", [None, [], 3, {}, {"model": {"model": {"model": {}}}}])
def test_not_a_dump(bad: object) -> None:
    with pytest.raises(InputError):
        model_from_megatron(bad)  # type: ignore[arg-type]


_VALUES = st.one_of(st.none(), st.booleans(), st.integers(-2, 10**6), st.floats(), st.text(max_size=5), st.lists(st.integers(-1, 2), max_size=3))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from([*ARGS, "moe_layer_freq", "window_size", "moe_router_topk", "fp8", "rotary_base", "multi_latent_attention"]),
                       _VALUES, min_size=1, max_size=4))
def test_mutations_load_or_are_refused(changes: dict) -> None:
    try:
        assert model_from_megatron({**ARGS, **changes}, "a").num_layers >= 1
    except InputError as error:
        assert error.problems
