"""Target `deepspeed`: `ds_config.json` and the launcher line for the user's own training script.

The JSON decides the ZeRO stage, the batch, buckets, automatic tensor and expert parallelism. DeepSpeed has no key for a
pipeline's topology or a Megatron-style tensor degree: those go to `model_parallel.py`, which the script imports.
"""

from __future__ import annotations

import json
from typing import Any

from autotune.emit import launchers, nccl
from autotune.emit.base import Files, Options, Target, refuse
from autotune.emit.job import Arguments, Job, header, layout, name_of
from autotune.emit.render import render
from autotune.emit.shell import Raw
from autotune.errors import Problem
from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec

VERSIONS = "DeepSpeed 0.16 to 0.19, checked against 0.19.8"
BUCKET = 500_000_000  # elements; DeepSpeed's own default


def problems(model: ModelSpec, plan: Plan) -> list[Problem]:
    """What DeepSpeed would refuse, or silently not do."""
    p, found = plan, []
    if model.training.precision == "fp8":
        found.append(Problem("DeepSpeed's configuration has no fp8 training", key="training.precision"))
    if p.expert_parallel > 1 and p.pipeline_parallel > 1:
        found.append(Problem("expert parallelism by configuration (AutoEP) takes no pipeline stages", key="expert_parallel"))
    if model.num_experts and p.tensor_parallel > 1 and p.sequence_parallel:
        found.append(Problem("expert parallelism by configuration (AutoEP) takes no tensor degree of the script", key="sequence_parallel"))
    if model.num_layers % p.pipeline_parallel:
        found.append(Problem("DeepSpeed's uniform partition needs equal stages", key="stage_layers"))
    return found


def config(model: ModelSpec, plan: Plan) -> dict[str, Any]:
    """The JSON document. train_batch_size = micro batch x accumulation steps x data parallel ranks.

    >>> m = ModelSpec(name="m", num_layers=4, hidden_size=64, num_attention_heads=4, vocab_size=128, seq_length=64)
    >>> c = config(m, Plan(data_parallel=4, micro_batch_size=2, global_batch_size=32, zero_stage=3, stage_layers=(4,)))
    >>> c["train_batch_size"], c["train_micro_batch_size_per_gpu"], c["gradient_accumulation_steps"]
    (32, 2, 4)
    >>> c["zero_optimization"]["stage"]
    3
    """
    p = plan
    document: dict[str, Any] = {
        "train_batch_size": p.global_batch_size,
        "train_micro_batch_size_per_gpu": p.micro_batch_size,
        "gradient_accumulation_steps": p.micro_batches,
        "gradient_clipping": 1.0,
        "steps_per_print": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
        "zero_optimization": zero(plan),
        "wall_clock_breakdown": False,
    }
    if model.training.precision == "fp16":
        document["fp16"] = {"enabled": True, "loss_scale": 0, "initial_scale_power": 16}
    else:
        document["bf16"] = {"enabled": True}
    if auto_tensor(plan):
        document["tensor_parallel"] = {"autotp_size": p.tensor_parallel}
    if model.num_experts and p.expert_parallel > 1:
        document["expert_parallel"] = {
            "enabled": True,
            "autoep_size": p.expert_parallel,
            "expert_tensor_parallel_size": p.expert_tensor_parallel,
        }
    if p.pipeline_parallel > 1:
        document["pipeline"] = {"stages": p.pipeline_parallel, "partition": "uniform"}
        document["pipeline"]["activation_checkpoint_interval"] = int(p.recompute == "full")
    if p.recompute == "full":
        document["activation_checkpointing"] = {
            "partition_activations": False,
            "cpu_checkpointing": False,
            "contiguous_memory_optimization": False,
            "synchronize_checkpoint_boundary": False,
        }
    return document


def auto_tensor(plan: Plan) -> bool:
    """Whether DeepSpeed splits the model over tensor ranks itself (AutoTP): no pipeline, no sequence parallelism."""
    return plan.tensor_parallel > 1 and plan.pipeline_parallel == 1 and not plan.sequence_parallel


def zero(plan: Plan) -> dict[str, Any]:
    """The zero_optimization block."""
    block: dict[str, Any] = {"stage": plan.zero_stage}
    if plan.zero_stage:
        # Pipeline engines run the reduction themselves at the end of the batch.
        block |= {"overlap_comm": plan.pipeline_parallel == 1, "contiguous_gradients": True}
        block |= {"reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET, "reduce_scatter": True}
    if plan.zero_stage == 3:
        block |= {
            "stage3_prefetch_bucket_size": 50_000_000,
            "stage3_param_persistence_threshold": 100_000,
            "stage3_max_live_parameters": 1_000_000_000,
            "stage3_max_reuse_distance": 1_000_000_000,
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    return block


def build(cluster: ClusterSpec, model: ModelSpec, plan: Plan, options: Options) -> Files:
    """`ds_config.json`, the launcher's files, and `model_parallel.py` where the script has a part to play."""
    refuse(problems(model, plan))
    where = layout(cluster, plan)
    lines = header("deepspeed", VERSIONS, cluster, model, plan)
    files = configuration(model, plan, lines)
    job = Job(
        name=name_of(model, plan),
        header=[*lines, "TRAIN_SCRIPT is your training script; it calls deepspeed.initialize(config=args.deepspeed_config)."],
        layout=where,
        program=Raw('"${TRAIN_SCRIPT:-train.py}"'),
        arguments=[
            Arguments("DEEPSPEED_ARGS", "Read by deepspeed.add_config_arguments.",
                      [("--deepspeed",), ("--deepspeed_config", Raw('"${DS_CONFIG:-$here/ds_config.json}"'))])
        ],
        environment=nccl.environment(cluster, plan, where, None),
        site=cluster.launch,
        attachments=files,
        amd=nccl.is_amd(cluster),
        deepspeed=True,
    )  # fmt: skip
    return files | launchers.files(options.launcher or TARGET.launchers[0], job)


def configuration(model: ModelSpec, plan: Plan, lines: list[str]) -> Files:
    """The JSON, and the module for what the script must do itself."""
    files = {"ds_config.json": json.dumps(config(model, plan), indent=2) + "\n"}
    if plan.pipeline_parallel > 1 or (plan.tensor_parallel > 1 and not auto_tensor(plan)) or plan.recompute == "selective":
        files["model_parallel.py"] = render("model_parallel.py.j2", header=lines, plan=plan, seq_length=model.seq_length)
    return files


TARGET = Target(
    "deepspeed",
    "DeepSpeed configuration and launcher for your own script",
    VERSIONS,
    ("pdsh", "torchrun", "slurm", "kubernetes"),
    build,
    beyond_search=("sequence_parallel", "selective_recompute"),  # left to the user's own model
)
