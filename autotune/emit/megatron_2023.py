"""Target `megatron-lm-2023`: the arguments of Megatron-LM at the end of 2023 (core 0.4), for dense GPT models.

What differs from today: interleaving is given as layers per chunk, flash attention and Megatron Core models must be switched on,
rotary embeddings have a flag of their own, and there are no synthetic data.
"""

from __future__ import annotations

from autotune.emit import launchers, megatron, megatron_flags, nccl
from autotune.emit.base import Files, Options, Target, refuse
from autotune.emit.job import Arguments, Job, header, layout, name_of
from autotune.emit.megatron_flags import Row
from autotune.emit.shell import Raw
from autotune.errors import Problem
from autotune.plan import Plan
from autotune.recompute import selective_modules
from autotune.specs import ClusterSpec, ModelSpec

VERSIONS = "Megatron-LM of late 2023 (core 0.4, pretrain_gpt.py)"
# Arguments that came later; their 2023 defaults are what the later value says, or they do not apply.
LATER = ("--rotary-base", "--context-parallel-size", "--kv-lora-rank", "--attention-backend", "--ckpt-format", "--recompute-modules")

DATA = r"""# Data: DATA_PATH and TOKENIZER_MODEL (SentencePiece) are needed; checkpoints only with CHECKPOINT_PATH.
DATA_ARGS=(
    --data-path "${DATA_PATH:?set DATA_PATH}" --split 99,1,0
    --tokenizer-type GPTSentencePieceTokenizer --tokenizer-model "${TOKENIZER_MODEL:?set TOKENIZER_MODEL}"
)
if [ -n "${CHECKPOINT_PATH:-}" ]; then
    DATA_ARGS+=(--save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" --save-interval "${SAVE_INTERVAL:-1000}")
fi"""


def problems(model: ModelSpec, plan: Plan) -> list[Problem]:
    """What that generation could not express.

    >>> m = ModelSpec(name="m", num_layers=4, hidden_size=64, num_attention_heads=4, vocab_size=128, seq_length=64, rotary_base=500000)
    >>> [p.key for p in problems(m, Plan(pipeline_parallel=2, virtual_stages=2, stage_layers=(2, 2)))]
    ['rotary_base', 'virtual_stages']
    """
    m = model
    found = megatron_flags.inexpressible(m)
    checks = [
        (m.rotary_base != 10_000 and m.position_embedding_type == "rope", "rotary_base", "the rotary base is fixed at 10000"),
        (m.attention_sinks or m.window_size is not None, "window_size", "no sliding window and no attention sinks"),
        (m.qk_layernorm, "qk_layernorm", "no QK norm"),
        (m.add_qkv_bias and not m.add_bias_linear, "add_qkv_bias", "no bias on QKV alone"),
        (m.mtp_num_layers > 0, "mtp_num_layers", "no multi-token prediction"),
        (m.position_embedding_type == "none", "position_embedding_type", "positions are learned or rotary"),
        (plan.recompute == "selective" and selective_modules(m, plan.stack) != ("core_attn",), "recompute",
         f"selective recomputation re-runs core attention only, stack {plan.stack} plans with other modules: unavailable"),
        (plan.virtual_stages > 1 and plan.pipeline_parallel == 2, "virtual_stages",
         "its interleaved schedule needs a pipeline of more than 2 stages"),
    ]  # fmt: skip
    return found + [Problem(f"{message} in Megatron-LM of 2023", key=key) for bad, key, message in checks if bad]


def arguments(model: ModelSpec, plan: Plan) -> list[Arguments]:
    """All arguments that the model and the plan decide."""
    groups = [
        Arguments("MODEL_ARGS", "Architecture, every default spelled out.", _model_rows(model)),
        Arguments("PARALLEL_ARGS", "Parallel degrees and the pipeline split.", _parallel_rows(plan)),
        Arguments("BATCH_ARGS", "Batch.", megatron_flags.batch_rows(plan)),
        Arguments("MEMORY_ARGS", "Recomputation.", _without(megatron_flags.recompute_rows(model, plan))),
        Arguments("OPTIMIZER_ARGS", "Optimizer and its sharding.", _optimizer_rows(plan)),
        Arguments("PRECISION_ARGS", "Number formats and kernels.", _precision_rows(model)),
    ]
    return [g for g in groups if g.rows]


def _without(rows: list[Row]) -> list[Row]:
    kept: list[Row] = []
    for row in rows:
        names = [w for w in row if str(w).startswith("--")]
        if names and names[0] in LATER:
            continue
        kept.append(row)
    return kept


def _model_rows(model: ModelSpec) -> list[Row]:
    rows = _without(megatron_flags.model_rows(model))
    if model.position_embedding_type == "rope":
        rows.append(("--use-rotary-position-embeddings",))
    return rows


def _parallel_rows(plan: Plan) -> list[Row]:
    rows: list[Row] = [
        ("--tensor-model-parallel-size", plan.tensor_parallel),
        ("--pipeline-model-parallel-size", plan.pipeline_parallel),
    ]
    if plan.virtual_stages > 1:
        rows.append(("--num-layers-per-virtual-pipeline-stage", plan.stage_layers[0] // plan.virtual_stages))
    if plan.sequence_parallel and plan.tensor_parallel > 1:
        rows.append(("--sequence-parallel",))
    return rows


def _optimizer_rows(plan: Plan) -> list[Row]:
    rows: list[Row] = [("--optimizer", "adam")]
    if plan.zero_stage >= 1:
        rows.append(("--use-distributed-optimizer",))
    if plan.data_parallel > 1:
        rows.append(("--overlap-grad-reduce",))
        if plan.zero_stage >= 1:
            rows.append(("--overlap-param-gather",))
    return rows


def _precision_rows(model: ModelSpec) -> list[Row]:
    rows: list[Row] = [("--transformer-impl", "transformer_engine"), ("--use-mcore-models",), ("--use-flash-attn",)]
    precision = model.training.precision
    if precision == "fp8":
        return [("--bf16",), *rows, ("--fp8-format", "hybrid"), ("--fp8-amax-history-len", 1024), ("--fp8-amax-compute-algo", "max")]
    return [("--" + precision,), *rows]


def build(cluster: ClusterSpec, model: ModelSpec, plan: Plan, options: Options) -> Files:
    """The launch files of that generation's pretrain_gpt.py."""
    refuse(problems(model, plan))
    where = layout(cluster, plan)
    train = [row for row in megatron.train_rows(model, plan) if row[0] != "--log-throughput"]
    job = Job(
        name=name_of(model, plan),
        header=header("megatron-lm-2023", VERSIONS, cluster, model, plan),
        layout=where,
        program=Raw('"${MEGATRON_PATH:-.}/pretrain_gpt.py"'),
        arguments=[*arguments(model, plan), Arguments("TRAIN_ARGS", "Length of the run: set LR and TRAIN_ITERS.", train)],
        environment=nccl.environment(cluster, plan, where, 1),
        site=cluster.launch,
        optional=DATA,
        optional_arrays=("DATA_ARGS",),
        amd=nccl.is_amd(cluster),
    )
    return launchers.files(options.launcher or TARGET.launchers[0], job)


TARGET = Target("megatron-lm-2023", "Megatron-LM as of late 2023", VERSIONS, ("torchrun", "slurm", "pdsh", "kubernetes"), build,
                ("selective_recompute",))  # fmt: skip
