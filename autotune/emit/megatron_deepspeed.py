"""Target `megatron-deepspeed`: pretrain_gpt.py of Megatron-DeepSpeed (deepspeedai), dense GPT models.

Tensor and pipeline degrees are arguments, the ZeRO stage and the batch are in `ds_config.json` and repeated as arguments.
Spellings that differ from Megatron-LM: `--num-key-value-heads`, `--normalization rmsnorm`, `--rotary-position-embeddings-theta`,
`--use-flash-attn-v2`, `--checkpoint-activations`. Source: megatron/arguments.py of deepspeedai/Megatron-DeepSpeed at 207b2d5.
"""

from __future__ import annotations

import json

from autotune.emit import deepspeed, launchers, megatron, megatron_flags, nccl
from autotune.emit.base import Files, Options, Target, refuse
from autotune.emit.job import Arguments, Job, header, layout, name_of
from autotune.emit.megatron_flags import Row
from autotune.emit.shell import Raw
from autotune.errors import Problem
from autotune.plan import Plan
from autotune.recompute import selective_modules
from autotune.specs import ClusterSpec, ModelSpec

VERSIONS = "Megatron-DeepSpeed at 207b2d5 with DeepSpeed 0.16 to 0.19"

DATA = r"""# Data: DATA_PATH and TOKENIZER_MODEL (a Hugging Face tokenizer) are needed; checkpoints only with CHECKPOINT_PATH.
DATA_ARGS=(
    --data-path "${DATA_PATH:?set DATA_PATH}" --split 99,1,0 --data-impl mmap
    --tokenizer-type HFTokenizer --tokenizer-model "${TOKENIZER_MODEL:?set TOKENIZER_MODEL}"
)
if [ -n "${CHECKPOINT_PATH:-}" ]; then
    DATA_ARGS+=(--save "$CHECKPOINT_PATH" --load "$CHECKPOINT_PATH" --save-interval "${SAVE_INTERVAL:-1000}")
fi"""


def problems(model: ModelSpec, plan: Plan) -> list[Problem]:
    """What Megatron-DeepSpeed cannot express.

    >>> m = ModelSpec(name="m", num_layers=4, hidden_size=64, num_attention_heads=4, vocab_size=128, seq_length=64, qk_layernorm=True)
    >>> [p.key for p in problems(m, Plan(stage_layers=(4,)))]
    ['qk_layernorm']
    """
    m = model
    checks = [
        (m.position_embedding_type == "none", "position_embedding_type", "positions are learned or rotary"),
        (m.attention_sinks or m.window_size is not None, "window_size", "no sliding window and no attention sinks"),
        (m.qk_layernorm, "qk_layernorm", "no QK norm"),
        (m.add_qkv_bias and not m.add_bias_linear, "add_qkv_bias", "no bias on QKV alone"),
        (m.mtp_num_layers > 0, "mtp_num_layers", "no multi-token prediction"),
        (m.training.precision == "fp8", "training.precision", "no fp8 under DeepSpeed"),
        (plan.recompute == "selective" and selective_modules(m, plan.stack) != ("core_attn",), "recompute",
         f"selective recomputation re-runs core attention only, stack {plan.stack} plans with other modules: unavailable"),
        (plan.zero_stage >= 2 and plan.recompute == "selective", "recompute",
         "selective recomputation is Megatron's own and not used without its pipeline engine"),
    ]  # fmt: skip
    found = megatron_flags.inexpressible(m)
    return found + [Problem(f"{message} in Megatron-DeepSpeed", key=key) for bad, key, message in checks if bad]


def arguments(model: ModelSpec, plan: Plan) -> list[Arguments]:
    """All arguments that the model and the plan decide."""
    groups = [
        Arguments("MODEL_ARGS", "Architecture, every default spelled out.", _model_rows(model)),
        Arguments("PARALLEL_ARGS", "Parallel degrees.", _parallel_rows(plan)),
        Arguments("BATCH_ARGS", "Batch; the same numbers as in ds_config.json.", megatron_flags.batch_rows(plan)),
        Arguments("MEMORY_ARGS", "Recomputation.", _recompute_rows(plan)),
        Arguments("PRECISION_ARGS", "Number formats and kernels.", [("--" + model.training.precision,), ("--use-flash-attn-v2",)]),
    ]
    return [g for g in groups if g.rows]


def _model_rows(m: ModelSpec) -> list[Row]:
    rows: list[Row] = [
        ("--num-layers", m.num_layers),
        ("--hidden-size", m.hidden_size),
        ("--ffn-hidden-size", m.ffn),
        ("--num-attention-heads", m.num_attention_heads),
        ("--num-key-value-heads", m.kv_heads),
        ("--kv-channels", m.head_dim),
        ("--seq-length", m.seq_length),
        ("--max-position-embeddings", megatron_flags.positions(m)),
        ("--make-vocab-size-divisible-by", m.make_vocab_size_divisible_by),
        ("--normalization", m.normalization.lower()),
        ("--attention-dropout", 0.0),
        ("--hidden-dropout", 0.0),
    ]
    if m.position_embedding_type == "rope":
        rows += [("--use-rotary-position-embeddings",), ("--rotary-position-embeddings-theta", m.rotary_base), ("--rotary-percent", 1.0)]
    if m.swiglu:
        rows.append(("--swiglu",))
    if not m.add_bias_linear:
        rows.append(("--disable-bias-linear",))
    if m.untie_embeddings_and_output_weights:
        rows.append(("--untie-embeddings-and-output-weights",))
    return rows


def _parallel_rows(p: Plan) -> list[Row]:
    rows: list[Row] = [
        ("--tensor-model-parallel-size", p.tensor_parallel),
        ("--pipeline-model-parallel-size", p.pipeline_parallel),
        ("--ds-sequence-parallel-size", 1),
    ]
    if p.sequence_parallel and p.tensor_parallel > 1:
        rows.append(("--sequence-parallel",))
    if p.pipeline_parallel == 1:
        rows.append(("--no-pipeline-parallel",))
    return rows


def _recompute_rows(p: Plan) -> list[Row]:
    if p.recompute == "selective":
        return [("--recompute-granularity", "selective")]
    if p.recompute == "full":
        return [("--deepspeed-activation-checkpointing",), ("--checkpoint-activations",), ("--checkpoint-num-layers", 1)]
    return []


def config(model: ModelSpec, plan: Plan) -> dict[str, object]:
    """`ds_config.json`: the DeepSpeed target's, without what Megatron's arguments decide."""
    document = deepspeed.config(model, plan)
    for key in ("optimizer", "tensor_parallel", "pipeline", "activation_checkpointing", "expert_parallel"):
        document.pop(key, None)
    if model.training.precision == "bf16" and plan.zero_stage <= 1:
        document["data_types"] = {"grad_accum_dtype": "fp32"}
    return document


def build(cluster: ClusterSpec, model: ModelSpec, plan: Plan, options: Options) -> Files:
    """`ds_config.json` and the launch files of pretrain_gpt.py."""
    refuse(problems(model, plan))
    where = layout(cluster, plan)
    files = {"ds_config.json": json.dumps(config(model, plan), indent=2) + "\n"}
    train = [row for row in megatron.train_rows(model, plan) if row[0] != "--log-throughput"]
    engine: list[Row] = [
        ("--deepspeed",),
        ("--deepspeed_config", Raw('"${DS_CONFIG:-$here/ds_config.json}"')),
        ("--zero-stage", plan.zero_stage),
    ]
    job = Job(
        name=name_of(model, plan),
        header=header("megatron-deepspeed", VERSIONS, cluster, model, plan),
        layout=where,
        program=Raw('"${MEGATRON_PATH:-.}/pretrain_gpt.py"'),
        arguments=[
            *arguments(model, plan),
            Arguments("TRAIN_ARGS", "Length of the run: set LR and TRAIN_ITERS.", train),
            Arguments("DEEPSPEED_ARGS", "The engine.", engine),
        ],
        environment=nccl.environment(cluster, plan, where, 1),
        site=cluster.launch,
        optional=DATA,
        optional_arrays=("DATA_ARGS",),
        attachments=files,
        amd=nccl.is_amd(cluster),
        deepspeed=True,
    )
    return files | launchers.files(options.launcher or TARGET.launchers[0], job)


TARGET = Target("megatron-deepspeed", "Megatron-DeepSpeed", VERSIONS, ("pdsh", "torchrun", "slurm", "kubernetes"), build,
                ("selective_recompute",))  # fmt: skip
