"""Model files: model.yaml, presets, Hugging Face configurations, and every fault with its line and key."""

import json

import pytest

from autotune import catalogue
from autotune.catalogue.summary import model_parameters
from autotune.constants import model_constants
from autotune.errors import InputError
from autotune.load import load_model

GOOD = """name: gpt-175b
num_layers: 96
hidden_size: 12288
num_attention_heads: 96
ffn_hidden_size: 49152
vocab_size: 51200
seq_length: 2048
training: {global_batch_size: 1536, precision: bf16, tokens: 300e9}
"""

# Published sizes, in parameters: model cards and papers named in each file's `source`.
SIZES = {
    "gpt-175b": (174.6e9, 174.6e9),
    "megatron-1t": (1008.0e9, 1008.0e9),
    "megatron-530b": (529.6e9, 529.6e9),
    "megatron-145b": (145.6e9, 145.6e9),
    "gpt2": (124_439_808, 124_439_808),
    "gpt2-xl": (1_557_611_200, 1_557_611_200),
    "bloom-176b": (176_247_271_424, 176_247_271_424),
    "gpt-neox-20b": (20_554_567_680, 20_554_567_680),
    "llama-2-7b": (6_738_415_616, 6_738_415_616),
    "llama-2-13b": (13_015_864_320, 13_015_864_320),
    "llama-2-70b": (68_976_648_192, 68_976_648_192),
    "llama-3-8b": (8_030_261_248, 8_030_261_248),
    "llama-3-70b": (70_553_706_496, 70_553_706_496),
    "llama-3.1-405b": (405_853_388_800, 405_853_388_800),
    "mistral-7b": (7_241_732_096, 7_241_732_096),
    "mixtral-8x7b": (46_702_792_704, 12_879_925_248),
    "mixtral-8x22b": (140.6e9, 39.2e9),
    "dbrx": (131_596_523_520, 36_469_708_800),
    "deepseek-v2": (235_741_434_880, 21_375_800_320),
    "deepseek-v3": (671_026_419_200, 37_552_297_472),
    "kimi-k2": (1026.4e9, 32.9e9),
    "qwen2.5-72b": (72_706_203_648, 72_706_203_648),
    "qwen3-30b-a3b": (30_532_122_624, 3_353_032_704),
    "qwen3-235b-a22b": (235.1e9, 22.2e9),
    "nemotron-4-340b": (341_029_195_776, 341_029_195_776),
    "olmo-2-13b": (13_716_198_400, 13_716_198_400),
}


@pytest.fixture
def model(tmp_path):
    def load(text, name="m.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return load_model(path)

    return load


@pytest.fixture
def faults(model):
    def found(text, name="m.yaml"):
        with pytest.raises(InputError) as caught:
            model(text, name)
        assert caught.value.exit_code == 2
        return caught.value.problems

    return found


def test_good_model(model):
    spec = model(GOOD)
    assert (spec.num_layers, spec.kv_heads, spec.head_dim, spec.ffn) == (96, 96, 128, 49152)
    assert spec.training.tokens == 3e11


def test_json_model(model):
    assert (
        model(
            json.dumps(
                {
                    "name": "x",
                    "num_layers": 2,
                    "hidden_size": 8,
                    "num_attention_heads": 2,
                    "vocab_size": 9,
                    "seq_length": 4,
                }
            )
        ).num_layers
        == 2
    )


@pytest.mark.parametrize(("name", "sizes"), SIZES.items())
def test_preset_sizes_are_the_published_ones(name, sizes):
    counts = model_parameters(load_model(name))
    tolerance = 0 if isinstance(sizes[0], int) else 0.002
    assert counts["total"] == pytest.approx(sizes[0], rel=tolerance, abs=0)
    assert counts["active"] == pytest.approx(sizes[1], rel=tolerance, abs=0)


@pytest.mark.parametrize("name", catalogue.names("models"))
def test_presets_load_and_name_their_source(name):
    spec = load_model(name)
    assert spec.name == name and spec.source and spec.description
    assert spec.training.global_batch_size
    assert model_constants(spec).layers == spec.num_layers


def test_there_are_many_presets():
    assert len(catalogue.names("models")) >= 40
    assert load_model("LLaMA_3-8B").name == "llama-3-8b" and load_model("gpt3-175b").name == "gpt-175b"


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "words"),
    [
        ("num_layers: 96", "num_layers: 0", 2, "num_layers", "at least 1, got 0"),
        ("num_layers: 96", "num_layers: 96.5", 2, "num_layers", "whole number, got 96.5"),
        ("num_layers: 96", "num_layers: '96.5'", 2, "num_layers", "whole number"),
        ("num_layers: 96", "num_layers: yes", 2, "num_layers", "whole number"),
        ("num_layers: 96", "num_layers: true", 2, "num_layers", "must be a number, got true"),
        ("num_layers: 96", "num_layres: 96", 2, "num_layres", "did you mean 'num_layers'?"),
        ("num_layers: 96", "num_hidden_layers: 96", 2, "num_hidden_layers", "did you mean 'num_layers'?"),
        ("hidden_size: 12288", "hidden_size: 12289", 3, "hidden_size", "not a multiple of num_attention_heads 96"),
        ("num_attention_heads: 96", "num_attention_heads: 96\nnum_query_groups: 7", 5, "num_query_groups", "not a multiple"),
        ("size: 1536", "size: 0", 8, "training.global_batch_size", "at least 1"),
        ("size: 1536", "size: 1536.5", 8, "training.global_batch_size", "whole number"),
        ("bf16", "bf61", 8, "training.precision", "one of bf16, fp16, fp8, got 'bf61' (did you mean 'bf16'?)"),
        ("300e9", ".inf", 8, "training.tokens", "finite"),
        ("300e9", "lots", 8, "training.tokens", "must be a number"),
        ("vocab_size: 51200", "vocab_size: 51200\nglobal_batch_size: 4", 7, "global_batch_size", "belongs at 'training.global_batch_size'"),
        ("vocab_size: 51200", "vocab_size: 51200\ntensor_model_parallel_size: 4", 7, "tensor_model_parallel_size", "search.tensor_parallel"),
        ("vocab_size: 51200", "vocab_size: 51200\nswiglu: 3", 7, "swiglu", "true or false"),
        ("vocab_size: 51200", "vocab_size: 51200\nmoe_router_topk: 4", 7, "moe_router_topk", "no effect without num_experts"),
        ("vocab_size: 51200", "vocab_size: 51200\nkv_lora_rank: 4", 7, "kv_lora_rank", "no effect without multi_latent_attention"),
        ("vocab_size: 51200", "vocab_size: 51200\nnum_experts: 4\nmoe_router_topk: 9", 8, "moe_router_topk", "exceeds num_experts"),
        ("vocab_size: 51200", "vocab_size: 51200\nsearch: {recompute: [none, some]}", 7, "search.recompute[1]", "one of none, selective, full"),
        ("vocab_size: 51200", "vocab_size: 51200\nsearch: {rank_order: dp-tp}", 7, "search.rank_order", "one of tp-cp-ep-dp-pp"),
        ("vocab_size: 51200", "vocab_size: 51200\nsearch: {zero_stage: 4}", 7, "search.zero_stage", "at most 3"),
        ("vocab_size: 51200", "vocab_size: 51200\nposition_embedding_type: ropes", 7, "position_embedding_type", "did you mean 'rope'?"),
    ],
)  # fmt: skip
def test_each_fault_is_named(faults, old, new, line, key, words):
    assert old in GOOD
    (problem,) = faults(GOOD.replace(old, new))
    assert (problem.line, problem.key) == (line, key)
    assert words in str(problem)


def test_a_missing_latent_attention_size_is_named(faults):
    found = faults(GOOD + "multi_latent_attention: true\nkv_lora_rank: 4\n")
    assert {p.key for p in found} == {"qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"}


@pytest.mark.parametrize("text", ["", "- a\n", "num_layers: 0", "[]", "3", "{", "null"])
def test_hopeless_files_are_refused(faults, text):
    assert faults(text)


LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 8192,
}  # fmt: skip


def test_hugging_face_file_and_folder(tmp_path):
    folder = tmp_path / "my-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    for path in (folder, folder / "config.json"):
        spec = load_model(path)
        assert spec.name == "my-llama" and model_parameters(spec)["total"] == 8_030_261_248


def test_hugging_face_refusals_name_the_file(faults):
    (problem,) = faults(json.dumps({**LLAMA, "model_type": "mamba"}), "config.json")
    assert "mamba" in problem.message and problem.file.endswith("config.json")
    assert faults(json.dumps({**LLAMA, "hidden_size": "big"}), "config.json")
    assert faults('{"model_type": "llama"}', "config.json")


def test_a_folder_without_configuration(tmp_path):
    with pytest.raises(InputError, match=r"without a config\.json"):
        load_model(tmp_path)


def test_megatron_dump(model):
    spec = model(
        "num-layers: 2\nhidden-size: 64\nnum-attention-heads: 4\npadded_vocab_size: 1024\nseq-length: 128\nlr: 3e-4\nmicro_batch_size: 1\n"
    )
    assert spec.num_layers == 2 and spec.vocab_size == 1024
