"""What the Megatron target writes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autotune.emit import Options, emit
from autotune.errors import InputError

from .conftest import make_cluster, make_model, make_plan
from .shellrun import bash_accepts, environment_of, run, value


def argv_of(tmp_path: Path, model: Any = None, plan: Any = None, cluster: Any = None, **environment: str) -> list[str]:
    files = emit("megatron", cluster or make_cluster(), model or make_model(), plan or make_plan())
    return run(files, "launch.sh", tmp_path, **environment)["torchrun"]


def test_the_launch_line_starts_every_rank(tmp_path: Path) -> None:
    argv = argv_of(tmp_path)
    assert (value(argv, "--nnodes"), value(argv, "--nproc-per-node"), value(argv, "--node-rank")) == ("8", "8", "0")
    assert value(argv, "--tensor-model-parallel-size") == "4"
    assert value(argv, "--global-batch-size") == "64"
    assert "--mock-data" in argv


def test_arguments_of_the_script_come_last_and_stay_whole(tmp_path: Path) -> None:
    files = emit("megatron", make_cluster(), make_model(), make_plan())
    argv = run(files, "launch.sh", tmp_path, "--lr", "1 2; $(x)")["torchrun"]
    assert argv[-2:] == ["--lr", "1 2; $(x)"]


def test_paths_with_blanks_stay_one_word(tmp_path: Path) -> None:
    argv = argv_of(tmp_path, DATA_PATH="/data/my corpus", TOKENIZER_MODEL="/t o", CHECKPOINT_PATH="/c k", MEGATRON_PATH="/opt/mega tron")
    assert "/opt/mega tron/pretrain_gpt.py" in argv
    assert value(argv, "--data-path") == "/data/my corpus"
    assert value(argv, "--save") == "/c k"


def test_other_nodes_must_be_told_the_master(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="MASTER_ADDR"):
        argv_of(tmp_path, NODE_RANK="1")
    assert value(argv_of(tmp_path, NODE_RANK="3", MASTER_ADDR="host0"), "--node-rank") == "3"


def test_grouped_queries_come_with_their_switch(tmp_path: Path) -> None:
    argv = argv_of(tmp_path)
    assert "--group-query-attention" in argv and value(argv, "--num-query-groups") == "8"
    argv = argv_of(tmp_path, make_model(num_query_groups=None))
    assert "--num-query-groups" not in argv


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"recompute": "none"}, []),
        ({"recompute": "selective"}, ["--recompute-granularity", "selective", "--recompute-modules", "layernorm"]),
        (
            {"recompute": "selective", "stack": "megatron-2022"},
            ["--recompute-granularity", "selective", "--recompute-modules", "core_attn"],
        ),
        ({"recompute": "full"}, ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"]),
        (
            {"recompute": "full", "recompute_num_layers": 3},
            ["--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", "3"],
        ),
        ({"recompute": "full", "recompute_num_layers": 0}, []),
    ],
)
def test_recomputation(tmp_path: Path, fields: dict[str, Any], expected: list[str]) -> None:
    argv = argv_of(tmp_path, plan=make_plan(**fields))
    at = argv.index("--recompute-granularity") if "--recompute-granularity" in argv else len(argv)
    assert argv[at : at + len(expected)] == expected
    assert ("--recompute-granularity" in argv) == bool(expected)


@pytest.mark.parametrize(
    ("layers", "chunks", "expected"),
    [
        ((8, 8, 8, 8), 1, {}),
        ((8, 8, 8, 8), 2, {"--num-virtual-stages-per-pipeline-rank": "2"}),
        ((7, 9, 9, 7), 1, {"--decoder-first-pipeline-num-layers": "7", "--decoder-last-pipeline-num-layers": "7"}),
        ((5, 9, 9, 9), 1, {"--decoder-first-pipeline-num-layers": "5"}),
        ((10, 10, 10, 2), 2, {"--decoder-last-pipeline-num-layers": "2", "--num-virtual-stages-per-pipeline-rank": "2"}),
        ((6, 10, 8, 8), 1, {"--pipeline-model-parallel-layout": "E" + "t" * 6 + "|" + "t" * 10 + "|" + "t" * 8 + "|" + "t" * 8 + "L"}),
    ],
)
def test_pipeline_splits(tmp_path: Path, layers: tuple[int, ...], chunks: int, expected: dict[str, str]) -> None:
    argv = argv_of(tmp_path, plan=make_plan(stage_layers=layers, virtual_stages=chunks))
    names = ("--num-virtual-stages-per-pipeline-rank", "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers",
             "--pipeline-model-parallel-layout")  # fmt: skip
    assert {n: value(argv, n) for n in names if n in argv} == expected


@pytest.mark.parametrize(
    ("zero", "pipeline", "expected"),
    [
        (0, 4, set()),
        (1, 4, {"--use-distributed-optimizer", "--overlap-param-gather"}),
        (3, 1, {"--use-megatron-fsdp", "--use-distributed-optimizer", "--overlap-param-gather"}),
    ],
)
def test_sharding(tmp_path: Path, zero: int, pipeline: int, expected: set[str]) -> None:
    plan = make_plan(zero_stage=zero, pipeline_parallel=pipeline, data_parallel=16 // pipeline, stage_layers=(32 // pipeline,) * pipeline)
    argv = argv_of(tmp_path, plan=plan)
    found = {a for a in argv if a in ("--use-distributed-optimizer", "--overlap-param-gather", "--use-megatron-fsdp")}
    assert found == expected
    connections = environment_of("torchrun", tmp_path)["CUDA_DEVICE_MAX_CONNECTIONS"]
    assert (connections == "1") == (zero < 2)


def test_experts_get_both_degrees(tmp_path: Path) -> None:
    model = make_model(num_experts=8, moe_ffn_hidden_size=2048, first_k_dense=2, moe_shared_expert_intermediate_size=2048)
    argv = argv_of(tmp_path, model, make_plan(expert_parallel=8, expert_tensor_parallel=1))
    assert value(argv, "--expert-model-parallel-size") == "8"
    assert value(argv, "--expert-tensor-parallel-size") == "1"
    assert value(argv, "--moe-layer-freq") == "([0]*2+[1]*30)"


@pytest.mark.parametrize(
    ("model", "plan", "reason"),
    [
        ({"position_embedding_type": "alibi"}, {}, "ALiBi"),
        ({"embedding_norm": True}, {}, "norm behind the embedding"),
        ({"norms_per_layer": 4}, {}, "2 norms per layer"),
        ({"add_mlp_bias": True}, {}, "biases"),
        ({"qk_layernorm": True, "qk_norm_per_head": False}, {}, "per head"),
        ({"num_experts": 8, "add_bias_linear": True}, {"expert_parallel": 2}, "moe_expert_bias"),
        ({"num_experts": 8}, {"sequence_parallel": False}, "sequence_parallel"),
        ({}, {"tensor_parallel": 3}, "not divisible"),
        ({}, {"stage_layers": (8, 8, 8, 9)}, "sums to 33"),
        ({}, {"zero_stage": 3}, "ZeRO stage 1"),
        ({}, {"virtual_stages": 3}, "equal chunks"),
    ],
)
def test_what_cannot_be_expressed_is_refused_with_the_reason(model: dict[str, Any], plan: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        emit("megatron", make_cluster(), make_model(**model), make_plan(**plan))


def test_slurm_tasks_get_their_rank(tmp_path: Path) -> None:
    cluster = make_cluster(launch={"partition": "gpu", "time_limit": "24:00:00", "container_image": "nvcr.io/a b:1"})
    files = emit("megatron", cluster, make_model(), make_plan(), Options("slurm"))
    text = files["launch.sbatch"]
    assert "#SBATCH --partition=gpu" in text and "#SBATCH --time=24:00:00" in text and bash_accepts(text)
    calls = run(files, "launch.sbatch", tmp_path, SLURM_NNODES="8", SLURM_NTASKS="64", SLURM_JOB_NODELIST="n[0-7]", SLURM_JOB_ID="11")
    assert value(calls["srun"], "--ntasks") == "64"
    assert value(calls["srun"], "--container-image") == "nvcr.io/a b:1"
    env = environment_of("python", tmp_path)
    assert (env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == ("9", "1", "64", "node0")


def test_slurm_refuses_a_wrong_allocation_and_hostile_options(tmp_path: Path) -> None:
    files = emit("megatron", make_cluster(), make_model(), make_plan(), Options("slurm"))
    with pytest.raises(RuntimeError, match="needs 8 nodes"):
        run(files, "launch.sbatch", tmp_path, SLURM_NNODES="4", SLURM_JOB_NODELIST="x")
    with pytest.raises(InputError, match="not a name Slurm takes"):
        emit("megatron", make_cluster(launch={"partition": "a\n#SBATCH --uid=0"}), make_model(), make_plan(), Options("slurm"))


def test_domains_of_several_hosts_stay_together() -> None:
    plan = make_plan(hb_domain_size=72, data_parallel=18, global_batch_size=72)
    text = emit("megatron", make_cluster(288), make_model(), plan, Options("slurm"))["launch.sbatch"]
    assert "#SBATCH --segment=18" in text and "#SBATCH --nodes=72" in text


def test_pdsh_numbers_nodes_in_hostfile_order(tmp_path: Path) -> None:
    cluster = make_cluster(launch={"nodes": [f"rack{i}" for i in range(8)]})
    files = emit("megatron", cluster, make_model(), make_plan(), Options("pdsh"))
    assert files["hostfile"].splitlines()[1:] == [f"rack{i} slots=8" for i in range(8)]
    argv = run(files, "launch_all.sh", tmp_path, "--lr", "50%")["pdsh"]
    assert value(argv, "-w") == ",".join(f"rack{i}" for i in range(8))
    assert "NODE_RANK=%n" in argv[-1] and "MASTER_ADDR=rack0" in argv[-1] and argv[-1].endswith("--lr 50%%")
    with pytest.raises(InputError, match="lists 2 nodes"):
        emit("megatron", make_cluster(launch={"nodes": ["a", "b"]}), make_model(), make_plan(), Options("pdsh"))


def test_half_filled_hosts_are_refused() -> None:
    plan = make_plan(pipeline_parallel=1, data_parallel=3, stage_layers=(32,), global_batch_size=6)
    with pytest.raises(InputError, match="do not fill hosts of 8"):
        emit("megatron", make_cluster(12, gpus_per_node=8), make_model(), plan)
    text = emit("megatron", make_cluster(12), make_model(), plan)["launch.sh"]
    assert "--nnodes 3" in text and "--nproc-per-node 4" in text
