"""What the importer reads into the model file, what it says it assumed, and what it refuses."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.hf.refusals import REFUSED
from autotune.hf_config import FAMILIES, looks_like_hf, model_from_hf, supported

FOLDER = Path(__file__).parent / "hf"
CONFIGS = {p.stem: json.loads(p.read_text()) for p in sorted(FOLDER.glob("*.json"))}
LLAMA = CONFIGS["llama-3-8b"]


def refusal(config: dict) -> str:
    with pytest.raises(InputError) as caught:
        model_from_hf(config, "config.json")
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(("name", "words"), [
    ("bert-large-uncased", "encoder-only"),
    ("mamba-2.8b", "state-space"),
    ("nemotron-h-56b", "hybrid"),
])
def test_refused_by_name_with_the_reason(name: str, words: str) -> None:
    text = refusal(CONFIGS[name])
    assert words in text and f"'{CONFIGS[name]['model_type']}'" in text and "config.json" in text


@pytest.mark.parametrize(("change", "words"), [
    ({"model_type": "t5"}, "encoder-decoder"),
    ({"model_type": "nemotron-nas", "block_configs": [{"attention": {}}]}, "differ"),
    ({"block_configs": [{"ffn": {"ffn_mult": 1.3}}]}, "block_configs"),
    ({"is_encoder_decoder": True}, "encoder-decoder"),
    ({"layer_types": ["linear_attention", "full_attention"]}, "linear_attention"),
    ({"num_key_value_heads": [8, 4, 8]}, "one value per layer"),
    ({"model_type": "qwen3_next"}, "hybrid"),
    ({"model_type": "deepseek_v32"}, "sparse attention"),
    ({"num_local_experts": 8}, "experts"),
    ({"model_type": "lama"}, "did you mean"),
])
def test_what_cannot_be_priced_is_refused(change: dict, words: str) -> None:
    assert words in refusal({**LLAMA, **change})


def test_a_wrapped_encoder_is_refused_too() -> None:
    assert "state-space" in refusal({"text_config": {**CONFIGS["mamba-2.8b"]}})


def test_no_name_is_both_known_and_refused() -> None:
    assert not set(FAMILIES) & set(REFUSED)
    assert len(supported()) >= 60


def test_odd_opt_is_refused() -> None:
    assert "word_embed_proj_dim" in refusal({**CONFIGS["opt-13b"], "word_embed_proj_dim": 512})
    assert "do_layer_norm_before" in refusal({**CONFIGS["opt-13b"], "do_layer_norm_before": False})


def test_irregular_expert_layers_are_refused() -> None:
    assert "irregular" in refusal({**CONFIGS["qwen3-30b-a3b"], "mlp_only_layers": [3]})


@pytest.mark.parametrize(("name", "key", "expected"), [
    ("llama-3-8b", "num_query_groups", 8),
    ("llama-30b", "num_query_groups", 52),  # num_key_value_heads absent: all heads
    ("falcon-7b", "num_query_groups", 1),
    ("falcon-7b", "norms_per_layer", 1),
    ("falcon-40b", "norms_per_layer", 2),
    ("starcoder-15b", "num_query_groups", 1),
    ("dbrx", "num_query_groups", 8),
    ("gpt2", "untie_embeddings_and_output_weights", False),
    ("gemma-7b", "untie_embeddings_and_output_weights", False),  # class default, the key is absent
    ("gemma-7b", "kv_channels", 256),
    ("qwen3-0.6b", "kv_channels", 128),
    ("opt-13b", "position_table_rows", 2050),
    ("bloom-176b", "embedding_norm", True),
    ("bloom-176b", "position_embedding_type", "alibi"),
    ("mpt-7b", "norm_bias", False),
    ("phi-2", "output_bias", True),
    ("gpt-j-6b", "output_bias", True),
    ("deepseek-v3", "first_k_dense", 3),
    ("deepseek-v3", "mtp_num_layers", 1),
    ("deepseek-v3", "moe_router_num_groups", 8),
    ("deepseek-v3", "moe_router_bias", "expert"),
    ("moonlight-16b-a3b", "q_lora_rank", None),
    ("moonlight-16b-a3b", "moe_router_num_groups", None),
    ("qwen1.5-moe-a2.7b", "moe_shared_expert_gate", True),
    ("qwen1.5-moe-a2.7b", "moe_shared_expert_intermediate_size", 5632),
    ("deepseek-v2", "moe_shared_expert_intermediate_size", 3072),
    ("llama-4-scout-17b-16e", "moe_shared_expert_intermediate_size", 8192),
    ("llama-4-scout-17b-16e", "ffn_hidden_size", 16384),
    ("class-llama4-step2", "moe_layer_freq", 2),
    ("gpt-oss-20b", "attention_sinks", True),
    ("gpt-oss-20b", "moe_expert_bias", True),
    ("olmo-2-13b", "qk_norm_per_head", False),
    ("mistral-7b-v0.1", "window_size", 4096),
    ("nemotron-4-340b", "swiglu", False),
    ("llama-3-8b", "rotary_base", 500000),
])
def test_keys(name: str, key: str, expected: object) -> None:
    assert getattr(model_from_hf(CONFIGS[name]), key) == expected


def test_sequence_length_is_capped_and_said() -> None:
    spec = model_from_hf(CONFIGS["qwen2.5-7b"])
    assert (spec.seq_length, spec.max_position_embeddings) == (8192, 131072)
    assert "8192 assumed" in spec.description and "131072" in spec.description
    assert model_from_hf(CONFIGS["llama-2-7b"]).seq_length == 4096
    assert "gives none" in model_from_hf(CONFIGS["falcon-7b"]).description


def test_alternating_windows_are_priced_as_full_attention_and_said() -> None:
    spec = model_from_hf(CONFIGS["gpt-oss-20b"])
    assert spec.window_size is None and "full attention" in spec.description


def test_the_text_part_of_a_multi_modal_model() -> None:
    spec = model_from_hf(CONFIGS["llama-4-scout-17b-16e"], "scout/config.json")
    assert spec.num_layers == 48 and "text part only" in spec.description and spec.name == "scout"


def test_the_name_comes_from_the_option_the_config_or_the_file() -> None:
    assert model_from_hf(LLAMA, "x.json", "mine").name == "mine"
    assert model_from_hf({**LLAMA, "_name_or_path": "org/that"}).name == "that"
    assert model_from_hf(LLAMA, "dir/llama-3-8b.json").name == "llama-3-8b"


def test_every_missing_key_is_reported_at_once() -> None:
    text = refusal({"model_type": "llama"})
    for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"):
        assert key in text


@pytest.mark.parametrize("bad", [None, [], "x", 3, {}, {"model_type": 7}, {"architectures": []}, {"architectures": ["FooForCausalLM"]}])
def test_not_a_configuration(bad: object) -> None:
    with pytest.raises(InputError):
        model_from_hf(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["four", -1, 0, 1.5, True, float("nan"), float("inf"), 10**400, [], {}, [1, 2]])
def test_bad_values_name_their_key(value: object) -> None:
    assert "hidden_size" in refusal({**LLAMA, "hidden_size": value})


def test_recognised() -> None:
    assert all(looks_like_hf(c) for c in CONFIGS.values())
    assert not looks_like_hf({"num_layers": 1}) and not looks_like_hf([1])


_KEYS = sorted({k for c in CONFIGS.values() for k in c})
_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**7), st.sampled_from([10**30, 2.5, float("nan"), float("-inf"), 1e300]),
    st.text(max_size=6), st.lists(st.integers(0, 3), max_size=4), st.dictionaries(st.sampled_from(_KEYS), st.integers(0, 9), max_size=3),
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(sorted(CONFIGS)), changes=st.dictionaries(st.sampled_from(_KEYS), _VALUES, min_size=1, max_size=4),
       gone=st.lists(st.sampled_from(_KEYS), max_size=2))
def test_mutated_configurations_load_or_are_refused(name: str, changes: dict, gone: list[str]) -> None:
    config = {k: v for k, v in copy.deepcopy(CONFIGS[name]).items() if k not in gone} | changes
    start = time.perf_counter()
    try:
        spec = model_from_hf(config, "config.json")
        assert spec.num_layers >= 1
    except InputError as error:
        assert error.problems and all(p.message for p in error.problems)
    assert time.perf_counter() - start < 2
