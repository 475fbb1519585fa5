"""Traps of single formats, beyond the scripts of expected.yaml."""

from __future__ import annotations

import json

import pytest

from autotune.errors import InputError
from autotune.legality import violations
from autotune.reader import model_spec, plan_of, read
from autotune.reader.directives import from_text
from autotune.reader.pipeline_layout import expand_layout

BASE = (
    "torchrun --nproc_per_node 8 --nnodes ${NNODES:-1} pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
    "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 --swiglu --disable-bias-linear "
)


def script(tmp_path, flags, before="", settings=None, base=BASE):
    path = tmp_path / "job.sh"
    path.write_text(before + "\n" + base + flags + "\n")
    return read(path, settings or {})


def broken(found):
    model = model_spec(found)
    plan = plan_of(found, "megatron-core", 8, 400, "rail-only")
    return {v["rule"] for v in found.violations + violations(model, plan, found.target, found.launch["world_size"])}


def test_groups_need_their_switch(tmp_path):
    assert script(tmp_path, "--num-query-groups 8").model.get("num_query_groups") is None
    assert script(tmp_path, "--num-query-groups 8 --group-query-attention").model["num_query_groups"] == 8
    assert script(tmp_path, "--group-query-attention").model["num_query_groups"] == 1


def test_feed_forward_width_defaults(tmp_path):
    assert script(tmp_path, "").model["ffn_hidden_size"] == int(4096 * 8 / 3 / 64) * 64
    assert script(tmp_path, "", base=BASE.replace("--swiglu", "")).model["ffn_hidden_size"] == 4 * 4096
    assert script(tmp_path, "--ffn-hidden-size 11008").model["ffn_hidden_size"] == 11008


@pytest.mark.parametrize(
    ("flags", "stages", "rule"),
    [
        ("--pipeline-model-parallel-size 4", [8, 8, 8, 8], None),
        ("--pipeline-model-parallel-size 3", None, "layers_per_stage"),
        ("--pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 10", [10, 11, 11], None),
        ("--pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 10 --decoder-last-pipeline-num-layers 12", [10, 10, 12], None),
        ("--pipeline-model-parallel-size 2 --num-layers 31 --account-for-embedding-in-pipeline-split", [15, 16], None),
        ("--pipeline-model-parallel-size 2 --num-layers 30 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", [15, 15], None),
        ("--pipeline-model-parallel-size 2 --num-layers 31 --pipeline-model-parallel-layout 'Et*15|t*16L'", [15, 16], None),
        ("--pipeline-model-parallel-size 2 --num-layers 31 --pipeline-model-parallel-layout 'Et*15|t*15L'", None, "layout_layers"),
        ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*8|(t*8|)*2t*8L'", [16, 16], None),
    ],
)
def test_uneven_stages(tmp_path, flags, stages, rule):
    found = script(tmp_path, flags, settings={"NNODES": "3"} if "size 3" in flags else {}, base=BASE.replace("--global-batch-size 64", "--global-batch-size 96"))
    assert rule is None or rule in {v["rule"] for v in found.violations}
    assert stages is None or found.plan["stage_layers"] == stages
    if rule is None:
        assert not broken(found)


def test_virtual_stages_both_spellings(tmp_path):
    per_chunk = script(tmp_path, "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2")
    by_number = script(tmp_path, "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 4")
    assert per_chunk.plan["virtual_stages"] == by_number.plan["virtual_stages"] == 4
    both = script(tmp_path, "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 --num-virtual-stages-per-pipeline-rank 4")
    assert "virtual_stages_given_twice" in {v["rule"] for v in both.violations}
    assert expand_layout("Et*2|t") == "Ett|t"


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        ("--fp16", "precision"), ("--overlap-param-gather", "overlap_param_gather"), ("--tp-comm-overlap", "tp_comm_overlap"),
        ("--recompute-granularity full", "recompute_method"), ("--recompute-granularity selective --recompute-method uniform", "recompute_method"),
        ("--moe-ffn-hidden-size 1024", "expert_width_without_experts"), ("--num-experts 8 --moe-router-topk 1", "router_topk"),
        ("--num-experts 8 --moe-enable-deepep", "dispatcher"), ("--overlap-moe-expert-parallel-comm", "expert_overlap"),
        ("--use-torch-fsdp2 --pipeline-model-parallel-size 2", "torch_fsdp"), ("--optimizer-cpu-offload", "optimizer_offload"),
        ("--multi-latent-attention --group-query-attention", "attention"), ("--distribute-saved-activations", "saved_activations"),
        ("--cp-comm-type a2a --context-parallel-size 4 --tensor-model-parallel-size 2 --group-query-attention --num-query-groups 4", "context_all_to_all"),
        ("--recompute-granularity selective --recompute-num-layers 1", "recompute_layers"), ("--recompute-granularity selective --recompute-modules nope", "recompute_modules"),
        ("--num-distributed-optimizer-instances 3", "optimizer_instances"), ("--use-megatron-fsdp", "megatron_fsdp"), ("--use-precision-aware-optimizer", "precision_aware_optimizer"),
        ("--tensor-model-parallel 2", "abbreviated_flag"),
        ("--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 --microbatch-group-size-per-virtual-pipeline-stage 3", "chunk_group"),
        ("--cpu-offloading --recompute-activations", "activation_offload"), ("--tensor-model-parallel-size 3", "world_size"),
        ("--global-batch-size 63", "global_batch"), ("--seq-length 4095 --tensor-model-parallel-size 2 --sequence-parallel", "sequence_per_tensor_rank"),
        ("--seq-length 8192", "position_embeddings"), ("--expert-model-parallel-size 2", "experts_per_expert_rank"),
    ],
)  # fmt: skip
def test_flag_rules(tmp_path, flags, rule):
    assert rule in broken(script(tmp_path, flags))


def test_micro_batch_is_required(tmp_path):
    found = script(tmp_path, "", base=BASE.replace("--micro-batch-size 1", ""))
    assert {v["rule"] for v in found.violations} == {"micro_batch_missing"}


def test_a_clean_script_breaks_nothing(tmp_path):
    clean = "--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"
    assert broken(script(tmp_path, clean, before="export CUDA_DEVICE_MAX_CONNECTIONS=1")) == set()


@pytest.mark.parametrize(
    ("command", "nodes", "per_node"),
    [
        ("torchrun --nnodes=2 --nproc-per-node=4 t.py", 2, 4), ("python3 -m torch.distributed.run --nnodes 1:3 --nproc_per_node 8 t.py", 3, 8),
        ("mpirun -np 16 --map-by ppr:8:node python t.py", 2, 8), ("mpiexec -n 8 -ppn 4 python t.py", 2, 4),
        ("srun -N 2 --ntasks-per-node=8 python -u t.py", 2, 8), ("srun --nodes 4 --gpus-per-node 8 torchrun --nnodes 4 --nproc_per_node 8 t.py", 4, 8),
        ("deepspeed --num_nodes 2 --num_gpus 8 t.py", 2, 8), ("deepspeed --include localhost:0,1,2,3 t.py", 1, 4),
        ("numactl --membind 0 torchrun --nproc_per_node 8 t.py", 1, 8), ("nsys profile -o x torchrun --nproc_per_node 8 t.py", 1, 8),
        ("accelerate launch --num_processes 16 --num_machines 2 t.py", 2, 8), ("env A=1 torchrun --standalone --nproc_per_node 8 t.py", 1, 8),
        ("docker run --rm image bash -c 'torchrun --nproc_per_node 8 t.py ARGS'", 1, 8), ("sudo -E torchrun --nproc_per_node=8 -m pkg.t", 1, 8),
    ],
)  # fmt: skip
def test_launchers(tmp_path, command, nodes, per_node):
    flags = BASE.split("pretrain_gpt.py")[1]
    line = command.replace("ARGS", flags) if "ARGS" in command else command + flags
    path = tmp_path / "job.sh"
    path.write_text(line + "\n")
    found = read(path)
    assert (found.launch["nodes"], found.launch["gpus_per_node"], found.launch["world_size"]) == (nodes, per_node, nodes * per_node)


def test_directives():
    assert from_text("#SBATCH -N4 -n 32\n#SBATCH --gres=gpu:h100:8,nvme:1\n") == {"nodes": 4, "ntasks": 32, "gpus_per_node": 8}


def test_what_is_missing_is_asked_for_by_name(tmp_path):
    found = script(tmp_path, "--tensor-model-parallel-size $TP", before="", base=BASE.replace("${NNODES:-1}", "$SLURM_NNODES"))
    assert set(found.missing) == {"TP", "SLURM_NNODES"}
    found = script(tmp_path, "--tensor-model-parallel-size $TP", base=BASE.replace("${NNODES:-1}", "$SLURM_NNODES"), settings={"TP": "2", "SLURM_NNODES": "2"})
    assert not found.missing and found.launch["world_size"] == 16


def deepspeed(tmp_path, config, name="ds.json"):
    path = tmp_path / name
    path.write_text(json.dumps(config) if isinstance(config, dict) else config)
    return read(path, {"WORLD_SIZE": "8"})


def test_deepspeed_configuration(tmp_path):
    found = deepspeed(tmp_path, {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, "bf16": {"enabled": True}})
    assert (found.plan["zero_stage"], found.plan["gradient_accumulation"], found.plan["precision"]) == (2, 2, "bf16")
    found = deepspeed(tmp_path, {"train_micro_batch_size_per_gpu": 4, "train_batch_size": 60, "gradient_accumulation_steps": 2})
    assert [v["rule"] for v in found.violations] == ["global_batch"]
    found = deepspeed(tmp_path, {"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": True}, "bf16": {"enabled": True}, "zero_optimization": {"stage": 5, "stge": 1, "reduce_bucket_size": 5.5}})
    assert {v["rule"] for v in found.violations} == {"precision", "zero_stage", "bucket_size", "unknown_key"}
    assert any("stge" in n and "stage" in n for n in found.notes)


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({"bf16": {"enabled": True, "loss_scale": 1}}, "unknown_key"), ({"tensor_parallel": {"autotp": 2}}, "unknown_key"),
        ({"communication_data_type": "fp8"}, "communication_data_type"), ({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "gpu"}}}, "offload_device"),
        ({"zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}, "offload_ratio"),
        ({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}, None), ({"expert_parallel": {}}, None),
    ],
)  # fmt: skip
def test_deepspeed_refusals(tmp_path, config, rule):
    found = deepspeed(tmp_path, {"train_micro_batch_size_per_gpu": 1, **config})
    assert [v["rule"] for v in found.violations] == ([rule] if rule else [])


def test_deepspeed_keys_that_are_ignored_are_named(tmp_path):
    found = deepspeed(tmp_path, {"train_micro_batch_size_per_gpu": 1, "gradient_cliping": 1.0, "pipeline": {"stagez": 2}, "train_batch_size": "auto"})
    assert not found.violations
    assert [k for k in ("gradient_clipping", "stages", "auto") if any(k in n for n in found.notes)] == ["gradient_clipping", "stages", "auto"]


@pytest.mark.parametrize("text", ['{"train_batch_size": 8, "train_batch_size": 16}', '{"train_batch_size": ', "[]", '"x"', ""])
def test_broken_json_is_an_input_error(tmp_path, text):
    with pytest.raises(InputError):
        deepspeed(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.sh", "echo hello\n"), ("b.yaml", "a: 1\n"), ("c.toml", "x = 1\n"), ("d.toml", "x = = 1\n"), ("e.py", "import os\n"), ("f.py", "def (:\n"), ("g.sh", ""), ("h.json", "{}"),
     ("i.yaml", "apiVersion: v1\nkind: Service\n")],
)  # fmt: skip
def test_what_trains_nothing_is_refused(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError):
        read(path)


def test_no_such_file():
    with pytest.raises(InputError):
        read("no/such/launch.sh")
