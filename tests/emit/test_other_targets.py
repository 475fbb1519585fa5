"""DeepSpeed, Megatron-DeepSpeed, torchtitan, Megatron-Bridge and Megatron-LM of 2023."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotune.emit import CAPABILITIES, TARGETS, Options, emit, find_target
from autotune.emit.base import TARGET_CAPABILITIES
from autotune.errors import InputError

from .conftest import make_cluster, make_model, make_plan
from .shellrun import environment_of, run, value


def test_capabilities_cover_every_target() -> None:
    assert set(CAPABILITIES) == set(TARGETS)
    assert all(set(c) == set(TARGET_CAPABILITIES["megatron"]._fields) for c in CAPABILITIES.values())
    assert all(find_target(t).name == t for t in TARGETS)


@pytest.mark.parametrize("fields", [{}, {"micro_batch_size": 2, "global_batch_size": 96}, {"data_parallel": 2, "global_batch_size": 10}])
def test_deepspeed_batch_identity(fields: dict[str, Any]) -> None:
    plan = make_plan(**fields)
    config = json.loads(emit("deepspeed", make_cluster(plan.gpus), make_model(), plan)["ds_config.json"])
    product = config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * plan.data_parallel
    assert config["train_batch_size"] == plan.global_batch_size == product


def test_deepspeed_splits_over_tensor_ranks_itself_where_it_can() -> None:
    plan = make_plan(pipeline_parallel=1, data_parallel=16, stage_layers=(32,), sequence_parallel=False, zero_stage=2)
    files = emit("deepspeed", make_cluster(), make_model(), plan)
    assert json.loads(files["ds_config.json"])["tensor_parallel"] == {"autotp_size": 4}
    assert "model_parallel.py" not in files
    files = emit("deepspeed", make_cluster(), make_model(), make_plan())
    assert "tensor_parallel" not in json.loads(files["ds_config.json"])
    space: dict[str, Any] = {}
    exec(files["model_parallel.py"], space)
    assert (space["TENSOR_PARALLEL"], space["PIPELINE_PARALLEL"], space["SEQUENCE_PARALLEL"]) == (4, 4, True)


def test_deepspeed_launcher_carries_the_environment_to_other_hosts(tmp_path: Path) -> None:
    files = emit("deepspeed", make_cluster(), make_model(), make_plan())
    argv = run(files, "launch.sh", tmp_path, TRAIN_SCRIPT="my train.py")["deepspeed"]
    assert value(argv, "--num_nodes") == "8" and value(argv, "--num_gpus") == "8" and "my train.py" in argv
    assert value(argv, "--master_addr") == "node0000"
    assert value(argv, "--deepspeed_config") == str(tmp_path / "work dir" / "ds_config.json")
    sent = Path(environment_of("deepspeed", tmp_path)["DS_ENV_FILE"]).read_text()
    assert "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in sent


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"virtual_stages": 2}, "interleaved"),
        ({"context_parallel": 2, "data_parallel": 2}, "context parallelism"),
        ({"zero_stage": 2}, "ZeRO stage 1"),
        ({"stage_layers": (7, 9, 9, 7)}, "equal size"),
        ({"recompute": "full", "recompute_num_layers": 2}, "all layers or none"),
    ],
)
@pytest.mark.parametrize("target", ["deepspeed", "megatron-deepspeed"])
def test_deepspeed_refuses_what_it_cannot_run(target: str, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        emit(target, make_cluster(), make_model(), make_plan(**fields))


def test_megatron_deepspeed_spellings(tmp_path: Path) -> None:
    plan = make_plan(recompute="full")
    files = emit("megatron-deepspeed", make_cluster(), make_model(rotary_base=500000), plan)
    argv = run(files, "launch.sh", tmp_path, DATA_PATH="/d", TOKENIZER_MODEL="/t")["deepspeed"]
    assert value(argv, "--num-key-value-heads") == "8"
    assert value(argv, "--normalization") == "rmsnorm"
    assert value(argv, "--rotary-position-embeddings-theta") == "500000"
    assert value(argv, "--zero-stage") == "1" == str(json.loads(files["ds_config.json"])["zero_optimization"]["stage"])
    assert {"--checkpoint-activations", "--deepspeed-activation-checkpointing", "--sequence-parallel"} <= set(argv)
    assert "--no-pipeline-parallel" not in argv
    assert json.loads(files["ds_config.json"])["data_types"] == {"grad_accum_dtype": "fp32"}


def test_data_are_required_where_there_are_no_synthetic_ones(tmp_path: Path) -> None:
    files = emit("megatron-deepspeed", make_cluster(), make_model(), make_plan())
    with pytest.raises(RuntimeError, match="set DATA_PATH"):
        run(files, "launch.sh", tmp_path)


# Options of megatron/arguments.py in deepspeedai/Megatron-DeepSpeed at 207b2d5 that this target may use.
MEGATRON_DEEPSPEED_OPTIONS = ["--num-layers", "--hidden-size", "--ffn-hidden-size", "--num-attention-heads", "--num-key-value-heads", "--kv-channels", "--max-position-embeddings", "--use-rotary-position-embeddings", "--rotary-position-embeddings-theta", "--rotary-percent", "--no-position-embedding", "--make-vocab-size-divisible-by", "--normalization", "--layernorm-epsilon", "--swiglu", "--untie-embeddings-and-output-weights", "--attention-dropout", "--hidden-dropout", "--weight-decay", "--clip-grad", "--adam-beta1", "--adam-beta2", "--micro-batch-size", "--global-batch-size", "--recompute-granularity", "--recompute-method", "--recompute-num-layers", "--checkpoint-activations", "--checkpoint-num-layers", "--train-iters", "--log-interval", "--use-flash-attn-v2", "--disable-bias-linear", "--no-pipeline-parallel", "--sequence-parallel", "--ds-sequence-parallel-size", "--init-method-std", "--lr", "--lr-decay-style", "--min-lr", "--save", "--save-interval", "--load", "--fp16", "--bf16", "--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--distributed-timeout-minutes", "--eval-iters", "--eval-interval", "--data-path", "--split", "--seq-length", "--data-impl", "--tokenizer-type", "--tokenizer-model", "--zero-stage", "--deepspeed-activation-checkpointing", "--deepspeed", "--deepspeed_config"]


@pytest.mark.parametrize(
    "fields",
    [{}, {"recompute": "full"}, {"recompute": "selective", "stack": "megatron-2022"}, {"pipeline_parallel": 1, "data_parallel": 16, "stage_layers": (32,), "zero_stage": 3}],
)
def test_megatron_deepspeed_uses_only_its_options(tmp_path: Path, fields: dict[str, Any]) -> None:
    files = emit("megatron-deepspeed", make_cluster(), make_model(), make_plan(**fields), Options("torchrun"))
    argv = run(files, "launch.sh", tmp_path, DATA_PATH="/d", TOKENIZER_MODEL="/t", CHECKPOINT_PATH="/c")["torchrun"]
    program = argv[argv.index("./pretrain_gpt.py") + 1 :]
    assert {a for a in program if a.startswith("--")} <= set(MEGATRON_DEEPSPEED_OPTIONS)


@pytest.mark.parametrize("target", ["megatron-lm-2023", "megatron-deepspeed"])
def test_older_programs_re_run_core_attention_only(target: str) -> None:
    emit(target, make_cluster(), make_model(), make_plan(recompute="selective", stack="megatron-2022"))
    with pytest.raises(InputError, match="core attention only"):
        emit(target, make_cluster(), make_model(), make_plan(recompute="selective", stack="megatron-core"))


def test_2023_spelling_of_interleaving(tmp_path: Path) -> None:
    files = emit("megatron-lm-2023", make_cluster(), make_model(), make_plan(virtual_stages=2))
    argv = run(files, "launch.sh", tmp_path, DATA_PATH="/d", TOKENIZER_MODEL="/t")["torchrun"]
    assert value(argv, "--num-layers-per-virtual-pipeline-stage") == "4"
    assert {"--use-flash-attn", "--use-mcore-models", "--use-rotary-position-embeddings"} <= set(argv)
    assert not {"--context-parallel-size", "--rotary-base", "--ckpt-format", "--num-virtual-stages-per-pipeline-rank"} & set(argv)
    with pytest.raises(InputError, match="rotary base"):
        emit("megatron-lm-2023", make_cluster(), make_model(rotary_base=500000), make_plan())


def titan_model(**fields: Any) -> Any:
    return make_model(ffn_hidden_size=14336, vocab_size=128256, **fields)


def test_torchtitan_recomputation_stands_behind_the_users_arguments(tmp_path: Path) -> None:
    plan = make_plan(zero_stage=2, recompute="full", virtual_stages=2)
    argv = run(emit("torchtitan", make_cluster(), titan_model(), plan), "launch.sh", tmp_path, "--metrics.log_freq", "1")["torchrun"]
    assert argv[-3:] == ["--metrics.log_freq", "1", "activation-checkpoint:full"]
    assert value(argv, "--config") == "llama3_8b"
    assert value(argv, "--parallelism.pipeline_parallel_schedule") == "Interleaved1F1B"
    assert value(argv, "--training.local_batch_size") == "16"  # the 16 micro-batches of one pipeline step


@pytest.mark.parametrize(
    ("model", "plan", "reason"),
    [
        ({"num_layers": 31}, {"pipeline_parallel": 1, "data_parallel": 16, "stage_layers": (31,), "zero_stage": 2}, "no configuration"),
        ({}, {"zero_stage": 1}, "use zero_stage 2 or 3"),
        ({}, {"zero_stage": 2, "recompute": "selective"}, "no selective"),
    ],
)
def test_torchtitan_refuses_what_it_cannot_express(model: dict[str, Any], plan: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        emit("torchtitan", make_cluster(), titan_model(**model), make_plan(**plan))


def test_bridge_overrides_are_the_plan() -> None:
    plan = make_plan(virtual_stages=1, stage_layers=(7, 9, 9, 7), recompute="full", recompute_num_layers=2)
    files = emit("megatron-bridge", make_cluster(), make_model(), plan)
    overrides = yaml.safe_load(files["overrides.yaml"])
    model = overrides["model"]
    assert (model["num_layers_in_first_pipeline_stage"], model["num_layers_in_last_pipeline_stage"]) == (7, 7)
    assert (model["recompute_method"], model["recompute_num_layers"]) == ("block", 2)
    assert overrides["train"] == {"micro_batch_size": 1, "global_batch_size": 64}
    compile(files["pretrain.py"], "pretrain.py", "exec")


def test_a_target_without_that_launcher_says_which_it_has() -> None:
    from autotune.emit.base import Target

    with pytest.raises(InputError, match="no launcher 'nope'"):
        emit("megatron", make_cluster(), make_model(), make_plan(), Options("nope"))
    assert isinstance(find_target("nemo"), Target) and find_target("nemo").name == "megatron-bridge"
