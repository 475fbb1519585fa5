"""Target `torchtitan`: torchtitan 0.3, whose configuration is a named function plus typed overrides on the command line.

The architecture comes from a configuration that torchtitan ships; a model that is none of them is refused. Sharding there always
covers optimizer state and gradients together, so a plan has ZeRO stage 0 (replicated), 2 or 3; context parallel ranks shard too.
"""

from __future__ import annotations

from typing import NamedTuple

from autotune.emit import launchers, nccl
from autotune.emit.base import Files, Options, Target, refuse
from autotune.emit.job import Arguments, Job, header, layout, name_of
from autotune.emit.shell import Raw
from autotune.errors import Problem
from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec

VERSIONS = "torchtitan 0.3 (torchtitan.train), checked against 0.3.0"


class Flavor(NamedTuple):
    """A configuration that torchtitan ships, and what identifies its architecture."""

    module: str
    config: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int  # of dense layers; 0 where every layer has experts
    experts: int
    vocab: int


FLAVORS = (
    Flavor("llama3", "llama3_8b", 32, 4096, 32, 8, 14336, 0, 128256),
    Flavor("llama3", "llama3_70b", 80, 8192, 64, 8, 28672, 0, 128256),
    Flavor("qwen3", "qwen3_14b", 40, 5120, 40, 8, 17408, 0, 151936),
    Flavor("qwen3", "qwen3_32b", 64, 5120, 64, 8, 25600, 0, 151936),
    Flavor("qwen3", "qwen3_30b_a3b", 48, 2048, 32, 4, 0, 128, 151936),
    Flavor("deepseek_v3", "deepseek_v3_16b", 27, 2048, 16, 16, 10944, 64, 102400),
    Flavor("deepseek_v3", "deepseek_v3_671b", 61, 7168, 128, 128, 18432, 256, 129280),
    Flavor("gpt_oss", "gpt_oss_20b", 24, 2880, 64, 8, 0, 32, 201088),
    Flavor("gpt_oss", "gpt_oss_120b", 36, 2880, 64, 8, 0, 128, 201088),
)


def flavor(model: ModelSpec) -> Flavor | None:
    """The shipped configuration with this architecture, or None.

    >>> m = ModelSpec(name="m", num_layers=32, hidden_size=4096, num_attention_heads=32, num_query_groups=8, ffn_hidden_size=14336,
    ...               swiglu=True, vocab_size=128256, seq_length=8192)
    >>> flavor(m).config
    'llama3_8b'
    """
    for f in FLAVORS:
        heads = f.kv_heads == model.kv_heads or (model.multi_latent_attention and f.module == "deepseek_v3")
        shape = (f.layers, f.hidden, f.heads, f.experts, f.vocab)
        same = shape == (model.num_layers, model.hidden_size, model.num_attention_heads, model.num_experts or 0, model.vocab_size)
        if same and heads and (not f.ffn or f.ffn == model.ffn):
            return f
    return None


def problems(model: ModelSpec, plan: Plan) -> list[Problem]:
    """What torchtitan cannot express."""
    p = plan
    sharded = p.data_parallel * p.context_parallel
    shipped = ", ".join(f.config for f in FLAVORS)
    checks = [
        (flavor(model) is None, "model", f"torchtitan ships no configuration of this architecture; it has {shipped}"),
        (model.training.precision != "bf16", "training.precision", "only bf16 mixed precision is emitted"),
        (p.zero_stage == 1 and sharded > 1, "zero_stage", "torchtitan shards gradients with the optimizer state: use zero_stage 2 or 3"),
        (p.zero_stage == 0 and p.context_parallel > 1, "zero_stage", "context parallel ranks always shard weights: use zero_stage 2 or 3"),
        (p.zero_stage == 0 and p.expert_parallel > 1 and p.data_parallel > 1, "zero_stage",
         "expert parallel ranks are taken from sharded data parallel ranks: use zero_stage 2 or 3"),
        (model.num_layers % (p.pipeline_parallel * p.virtual_stages) != 0, "virtual_stages",
         f"{model.num_layers} layers do not split into {p.pipeline_parallel} x {p.virtual_stages} equal chunks"),
        (bool(model.num_experts) and p.expert_tensor_parallel > 1, "expert_tensor_parallel", "experts are not split over tensor ranks"),
    ]  # fmt: skip
    return [Problem(message, key=key) for bad, key, message in checks if bad]


def rows(model: ModelSpec, plan: Plan) -> list[tuple[str | int, ...]]:
    """Typed overrides. With a pipeline one step holds all micro-batches; without, they accumulate."""
    p = plan
    shard = p.zero_stage >= 2 or p.data_parallel * p.context_parallel == 1
    result: list[tuple[str | int, ...]] = [
        ("--training.seq_len", model.seq_length),
        ("--training.global_batch_size", p.global_batch_size),
        ("--training.local_batch_size", p.micro_batch_size * (p.micro_batches if p.pipeline_parallel > 1 else 1)),
        # Graph capture takes neither pipelines nor the usual expert dispatch.
        ("--training.disable_cuda_graphs",),
        ("--parallelism.data_parallel_replicate_degree", 1 if shard else p.data_parallel),
        ("--parallelism.data_parallel_shard_degree", p.data_parallel if shard else 1),
        ("--parallelism.fsdp_reshard_after_forward", "always" if p.zero_stage == 3 else "never"),
        ("--parallelism.tensor_parallel_degree", p.tensor_parallel),
        ("--parallelism.context_parallel_degree", p.context_parallel),
        ("--parallelism.pipeline_parallel_degree", p.pipeline_parallel),
        ("--parallelism.expert_parallel_degree", p.expert_parallel),
        ("--parallelism.enable_sequence_parallel" if p.sequence_parallel else "--parallelism.no_enable_sequence_parallel",),
    ]
    if p.pipeline_parallel > 1:
        chunk = model.num_layers // (p.pipeline_parallel * p.virtual_stages)
        result += [
            ("--parallelism.pipeline_parallel_schedule", "Interleaved1F1B" if p.virtual_stages > 1 else "1F1B"),
            ("--parallelism.pipeline_parallel_microbatch_size", p.micro_batch_size),
            ("--parallelism.pipeline_parallel_layers_per_stage", chunk),
            ("--parallelism.pipeline_parallel_first_stage_less_layers", 0),
            ("--parallelism.pipeline_parallel_last_stage_less_layers", 0),
        ]
    return result


def build(cluster: ClusterSpec, model: ModelSpec, plan: Plan, options: Options) -> Files:
    """The launch files of torchtitan.train."""
    refuse(problems(model, plan))
    where, chosen = layout(cluster, plan), flavor(model)
    assert chosen is not None
    recompute = "full" if plan.recompute == "full" else "none"
    job = Job(
        name=name_of(model, plan),
        header=header("torchtitan", VERSIONS, cluster, model, plan),
        layout=where,
        program=Raw("-m torchtitan.train"),
        arguments=[
            Arguments("CONFIG_ARGS", "The architecture, as torchtitan ships it.", [("--module", chosen.module), ("--config", chosen.config)]),
            Arguments("PLAN_ARGS", "Overrides that make it the plan.", [*rows(model, plan), ("--training.steps", Raw('"${TRAIN_ITERS:-1000}"'))]),
            Arguments("RECOMPUTE_ARGS", "Recomputation; a subcommand, so it stands last.", [(f"activation-checkpoint:{recompute}",)]),
        ],
        environment=nccl.environment(cluster, plan, where, None),
        site=cluster.launch,
        optional=DATA,
        optional_arrays=(),
        amd=nccl.is_amd(cluster),
        arguments_last="RECOMPUTE_ARGS",
    )  # fmt: skip
    return launchers.files(options.launcher or TARGET.launchers[0], job)


DATA = r"""# Tokenizer and weights: HF_ASSETS_PATH overrides the configuration's own folder.
if [ -n "${HF_ASSETS_PATH:-}" ]; then
    PLAN_ARGS+=(--hf_assets_path "$HF_ASSETS_PATH")
fi"""

TARGET = Target("torchtitan", "torchtitan", VERSIONS, ("torchrun", "slurm", "pdsh", "kubernetes"), build)
