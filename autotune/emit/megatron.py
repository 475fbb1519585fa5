"""Target `megatron`: pretrain_gpt.py of Megatron-LM with megatron-core 0.17 to 0.19."""

from __future__ import annotations

from autotune.emit import launchers, megatron_flags, nccl
from autotune.emit.base import Files, Options, Target, refuse
from autotune.emit.job import Arguments, Job, header, layout, name_of
from autotune.emit.shell import Raw
from autotune.errors import Problem
from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec

VERSIONS = "megatron-core 0.17 to 0.19 (pretrain_gpt.py), checked against 0.19.2"

DATA = r"""# Data: synthetic unless DATA_PATH and TOKENIZER_MODEL are set; checkpoints only with CHECKPOINT_PATH.
if [ -n "${DATA_PATH:-}" ]; then
    DATA_ARGS=(
        --data-path "$DATA_PATH" --split 99,1,0
        --tokenizer-type HuggingFaceTokenizer --tokenizer-model "${TOKENIZER_MODEL:?set TOKENIZER_MODEL}"
    )
else
    DATA_ARGS=(--mock-data --tokenizer-type NullTokenizer)
fi
if [ -n "${CHECKPOINT_PATH:-}" ]; then
    DATA_ARGS+=(--save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" --save-interval "${SAVE_INTERVAL:-1000}")
fi"""


def problems(model: ModelSpec, plan: Plan) -> list[Problem]:
    """What Megatron would refuse beyond the rules that all its relatives share.

    >>> m = ModelSpec(name="m", num_layers=4, hidden_size=64, num_attention_heads=4, vocab_size=128, seq_length=64)
    >>> p = Plan(pipeline_parallel=2, data_parallel=2, context_parallel=2, stage_layers=(2, 2), rank_order="tp-cp-ep-pp-dp")
    >>> [x.key for x in problems(m, p)]
    ['rank_order']
    """
    p = plan
    found = megatron_flags.inexpressible(model)
    # A dense model gets an expert grid too: tensor degree T, expert degree 1, data degree W / (T P).
    expert_ranks = p.expert_parallel * p.expert_tensor_parallel if model.num_experts else p.tensor_parallel
    if p.rank_order == "tp-cp-ep-pp-dp" and p.pipeline_parallel > 1 and expert_ranks != p.tensor_parallel * p.context_parallel:
        found.append(
            Problem(
                f"rank order {p.rank_order} needs expert x expert-tensor ({expert_ranks}) equal to tensor x context "
                f"({p.tensor_parallel * p.context_parallel}), else the pipeline groups of dense and expert layers differ",
                key="rank_order",
            )
        )
    if model.mtp_num_layers and p.virtual_stages > 1 and len(set(p.stage_layers)) > 1:
        found.append(Problem("multi-token prediction with interleaved stages of unequal size is not emitted", key="stage_layers"))
    return found


def max_connections(plan: Plan, blackwell: bool = False) -> int | None:
    """CUDA_DEVICE_MAX_CONNECTIONS as Megatron's argument check wants it.

    1 up to Hopper; not asked for since Blackwell; never 1 with Megatron-FSDP (8 is CUDA's default).
    """
    if plan.zero_stage >= 2:
        return 8
    return None if blackwell else 1


def arguments(model: ModelSpec, plan: Plan) -> list[Arguments]:
    """All arguments that the model and the plan decide, in groups."""
    groups = [
        Arguments("MODEL_ARGS", "Architecture, every default spelled out.", megatron_flags.model_rows(model)),
        Arguments("MOE_ARGS", "Experts.", megatron_flags.expert_rows(model, plan)),
        Arguments("PARALLEL_ARGS", "Parallel degrees and the pipeline split.", megatron_flags.parallel_rows(model, plan)),
        Arguments("BATCH_ARGS", "Batch.", megatron_flags.batch_rows(plan)),
        Arguments("MEMORY_ARGS", "Recomputation.", megatron_flags.recompute_rows(model, plan)),
        Arguments("OPTIMIZER_ARGS", "Optimizer and its sharding.", megatron_flags.optimizer_rows(plan)),
        Arguments("PRECISION_ARGS", "Number formats and kernels.", megatron_flags.precision_rows(model)),
    ]
    return [g for g in groups if g.rows]


def train_rows(model: ModelSpec, plan: Plan) -> list[tuple[str | int | float, ...]]:
    """Length of the run and logging; the hyperparameters are yours to set."""
    iterations = 1000
    if model.training.tokens:
        iterations = max(1, round(model.training.tokens / (plan.global_batch_size * model.seq_length)))
    return [
        ("--train-iters", Raw(f'"${{TRAIN_ITERS:-{iterations}}}"')),
        ("--lr", Raw('"${LR:-3.0e-4}"')),
        ("--min-lr", Raw('"${MIN_LR:-3.0e-5}"')),
        ("--lr-decay-style", "cosine"),
        ("--weight-decay", 0.1),
        ("--clip-grad", 1.0),
        ("--adam-beta1", 0.9),
        ("--adam-beta2", 0.95),
        ("--init-method-std", 0.02),
        ("--log-interval", 1),
        ("--log-throughput",),
        ("--eval-iters", 0),
        ("--eval-interval", 1000),
        ("--distributed-timeout-minutes", 30),
    ]


def build(cluster: ClusterSpec, model: ModelSpec, plan: Plan, options: Options) -> Files:
    """The launch files of pretrain_gpt.py."""
    refuse(problems(model, plan))
    where = layout(cluster, plan)
    train = Arguments("TRAIN_ARGS", "Length of the run and logging: set LR and TRAIN_ITERS for your training.", train_rows(model, plan))
    job = Job(
        name=name_of(model, plan),
        header=header("megatron", VERSIONS, cluster, model, plan),
        layout=where,
        program=Raw('"${MEGATRON_PATH:-.}/pretrain_gpt.py"'),
        arguments=[*arguments(model, plan), train],
        environment=nccl.environment(cluster, plan, where, max_connections(plan, nccl.is_blackwell(cluster))),
        site=cluster.launch,
        amd=nccl.is_amd(cluster),
        optional=DATA,
        optional_arrays=("DATA_ARGS",),
    )
    return launchers.files(options.launcher or TARGET.launchers[0], job)


TARGET = Target("megatron", "Megatron-LM with Megatron Core", VERSIONS, ("torchrun", "slurm", "pdsh", "kubernetes"), build)
