"""Parameter counts of configurations as published, to the last parameter."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from autotune.constants import model_constants
from autotune.hf_config import model_from_hf
from costmodels.parameters import active_parameters, total_parameters

FOLDER = Path(__file__).parent / "hf"
ROWS = list(csv.DictReader((FOLDER / "expected.csv").open()))


def read(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.json").read_text())


def counts(data: dict) -> tuple[int, int]:
    model = model_constants(model_from_hf(data, "config.json"))
    return int(total_parameters(model)), int(active_parameters(model))


@pytest.mark.parametrize("row", ROWS, ids=[r["name"] for r in ROWS])
def test_total_and_active_are_exact(row: dict[str, str]) -> None:
    assert counts(read(row["name"])) == (int(row["total_params"]), int(row["active_params"]))


def test_at_least_forty_published_models_are_covered() -> None:
    assert sum(not r["name"].startswith("class-") for r in ROWS) >= 40


# Models whose code is not part of transformers: published sizes (model cards on huggingface.co), to their rounding.
PUBLISHED = [
    ("Qwen/Qwen-7B", 7.72e9, {"model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
                              "num_attention_heads": 32, "kv_channels": 128, "seq_length": 8192, "vocab_size": 151936,
                              "tie_word_embeddings": False, "no_bias": True}),
    ("THUDM/chatglm3-6b", 6.24e9, {"model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 28,
                                   "num_attention_heads": 32, "kv_channels": 128, "multi_query_attention": True,
                                   "multi_query_group_num": 2, "add_qkv_bias": True, "add_bias_linear": False,
                                   "padded_vocab_size": 65024, "seq_length": 8192, "rmsnorm": True, "tie_word_embeddings": False}),
    ("internlm/internlm2-7b", 7.74e9, {"model_type": "internlm2", "hidden_size": 4096, "intermediate_size": 14336, "bias": False,
                                       "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                                       "vocab_size": 92544, "max_position_embeddings": 32768, "tie_word_embeddings": False}),
    ("baichuan-inc/Baichuan2-7B-Base", 7.51e9, {"model_type": "baichuan", "hidden_size": 4096, "intermediate_size": 11008,
                                                "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 125696,
                                                "model_max_length": 4096, "tie_word_embeddings": False}),
    ("deepseek-ai/deepseek-moe-16b-base", 16.4e9, {"model_type": "deepseek", "hidden_size": 2048, "intermediate_size": 10944,
                                                   "moe_intermediate_size": 1408, "num_hidden_layers": 28,
                                                   "num_attention_heads": 16, "num_key_value_heads": 16, "n_routed_experts": 64,
                                                   "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
                                                   "moe_layer_freq": 1, "vocab_size": 102400, "max_position_embeddings": 4096,
                                                   "tie_word_embeddings": False}),
]


@pytest.mark.parametrize(("name", "size", "config"), PUBLISHED, ids=[p[0] for p in PUBLISHED])
def test_remote_code_models_have_their_published_size(name: str, size: float, config: dict) -> None:
    assert counts(config)[0] == pytest.approx(size, rel=0.002)


def test_deepseek_v3_active_is_the_published_37_billion() -> None:
    assert counts(read("deepseek-v3"))[1] == pytest.approx(37e9, rel=0.02)
