"""What a launch target is, and the checks every target makes before it writes a file.

A target turns (cluster, model, plan) into the files that start the job: relative file name -> text. A text that starts
with `#!` is a program and gets the executable bit. What a target's program cannot run is refused with the reason;
nothing is written that would train something other than the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from autotune.errors import InputError, Problem
from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec

LAUNCHERS = ("torchrun", "slurm", "pdsh", "kubernetes")


class Capability(NamedTuple):
    """What a target's program can run; the search space of that target is cut to it. 1 = can, 0 = cannot."""

    tp: int = 1
    pp: int = 1
    context: int = 1
    sequence_parallel: int = 1
    moe: int = 1
    mla: int = 1
    expert_tensor: int = 1
    interleave: int = 1
    interleave_m_multiple_of_p: int = 1  # micro-batches must be a multiple of the pipeline degree when interleaved
    uneven_stages: int = 1
    max_zero: int = 3
    max_zero_with_pp: int = 1
    selective_recompute: int = 1
    partial_recompute: int = 1  # full recompute of some layers of a chunk
    zero_one: int = 1  # optimizer state can be sharded without the gradients
    m_at_least_p: int = 0  # fewer micro-batches than pipeline stages are refused
    moe_tp_needs_sp: int = 1  # tensor parallel experts train only with sequence parallelism
    data_outside_pipeline: int = 1  # rank order tp-cp-ep-pp-dp
    interleave_min_pp: int = 2  # smallest pipeline degree with interleaved stages
    zero_1: int = 1  # optimizer state can be sharded without gradients
    zero_0_with_groups: int = 1  # context or expert degrees beside whole copies of the weights
    kv_copies: int = 1  # KV heads are copied where the tensor degree exceeds them
    max_zero_with_ep: int = 3
    pp_with_ep: int = 1


MEGATRON = Capability()
TARGET_CAPABILITIES: dict[str, Capability] = {
    "megatron": MEGATRON,
    "megatron-bridge": MEGATRON,
    # 2023: no context parallelism, experts only as top-1 switch layers, stages of equal size, no MLA, no FSDP.
    "megatron-lm-2023": Capability(
        context=0, moe=0, mla=0, expert_tensor=0, uneven_stages=0, max_zero=1, selective_recompute=0, data_outside_pipeline=0,
        interleave_min_pp=3,
    ),
    "megatron-deepspeed": Capability(
        context=0, moe=0, mla=0, expert_tensor=0, interleave=0, interleave_m_multiple_of_p=0, uneven_stages=0,
        selective_recompute=0, partial_recompute=0, data_outside_pipeline=0,
    ),
    "deepspeed": Capability(
        context=0, sequence_parallel=0, expert_tensor=0, interleave=0, interleave_m_multiple_of_p=0, uneven_stages=0,
        selective_recompute=0, partial_recompute=0, moe_tp_needs_sp=0, data_outside_pipeline=0, max_zero_with_ep=2, pp_with_ep=0,
    ),
    "torchtitan": Capability(
        expert_tensor=0, uneven_stages=0, selective_recompute=0, partial_recompute=0, max_zero_with_pp=3, zero_one=0, m_at_least_p=1,
        moe_tp_needs_sp=0, data_outside_pipeline=0, zero_1=0, kv_copies=0, zero_0_with_groups=0,
    ),
}
CAPABILITIES: dict[str, dict[str, int]] = {name: c._asdict() for name, c in TARGET_CAPABILITIES.items()}


@dataclass(frozen=True)
class Options:
    """Choices that do not change the plan: how the processes are started."""

    launcher: str | None = None  # None: the target's own default


Files = dict[str, str]


@dataclass(frozen=True)
class Target:
    """One launch target. `build` is called with a plan that has passed `refuse_illegal`."""

    name: str
    summary: str
    versions: str
    launchers: tuple[str, ...]  # the first is the default
    build: Callable[[ClusterSpec, ModelSpec, Plan, Options], Files]
    beyond_search: tuple[str, ...] = ()  # capabilities that a given plan may use, though a search does not propose them

    @property
    def capabilities(self) -> Capability:
        """What its program can run by itself: the search space of this target."""
        return TARGET_CAPABILITIES[self.name]

    @property
    def accepts(self) -> Capability:
        """What files can be written for: the capabilities, and what a given plan may use beyond them."""
        return self.capabilities._replace(**dict.fromkeys(self.beyond_search, 1))


def is_executable(text: str) -> bool:
    """Whether a launch file is a program.

    >>> is_executable("#!/usr/bin/env bash\\n"), is_executable("key: value\\n")
    (True, False)
    """
    return text.startswith("#!")


def refuse(problems: list[Problem]) -> None:
    """Raise all problems together, if there are any."""
    if problems:
        raise InputError(problems)


def beyond(capability: Capability, model: ModelSpec, plan: Plan) -> list[Problem]:
    """What the plan asks of a program that cannot do it.

    >>> m = ModelSpec(name="m", num_layers=4, hidden_size=64, num_attention_heads=4, vocab_size=128, seq_length=64)
    >>> [p.key for p in beyond(TARGET_CAPABILITIES["deepspeed"], m, Plan(context_parallel=2, stage_layers=(4,)))]
    ['context_parallel']
    """
    c, p = capability, plan
    limit = c.max_zero if p.pipeline_parallel == 1 else min(c.max_zero, c.max_zero_with_pp)
    layers = set(p.stage_layers)
    t = model.training
    checks = [
        (t.lora_rank is not None, "training.lora_rank", "launch files train all parameters; adapters are priced but not emitted"),
        (t.optimizer_moments not in (None, "fp32") or t.master_weights is False, "training.optimizer_moments",
         "launch files keep fp32 master weights and moments; other optimizer states are priced but not emitted"),
        (p.tensor_parallel > 1 and not c.tp, "tensor_parallel", "this target has no tensor parallelism"),
        (p.pipeline_parallel > 1 and not c.pp, "pipeline_parallel", "this target has no pipeline parallelism"),
        (p.context_parallel > 1 and not c.context, "context_parallel", "this target has no context parallelism of the planned kind"),
        (p.sequence_parallel and p.tensor_parallel > 1 and not c.sequence_parallel, "sequence_parallel",
         "this target has no sequence parallelism"),
        (bool(model.num_experts) and not c.moe, "num_experts", "this target's program has no experts"),
        (model.multi_latent_attention and not c.mla, "multi_latent_attention", "this target's program has no latent attention"),
        (bool(model.num_experts) and p.expert_tensor_parallel not in (1, p.tensor_parallel) and not c.expert_tensor,
         "expert_tensor_parallel", "this target has no tensor degree of its own for experts"),
        (p.virtual_stages > 1 and not c.interleave, "virtual_stages", "this target has no interleaved schedule"),
        (len(layers) > 1 and not c.uneven_stages, "stage_layers", "this target only runs stages of equal size"),
        (p.zero_stage > limit, "zero_stage",
         f"this target goes up to ZeRO stage {limit}" + (" with pipeline parallelism" if p.pipeline_parallel > 1 else "")),
        (p.recompute == "selective" and not c.selective_recompute, "recompute", "this target has no selective recomputation"),
        (_partial(p) and not c.partial_recompute, "recompute_num_layers", "this target recomputes all layers or none"),
        (p.micro_batches < p.pipeline_parallel and bool(c.m_at_least_p), "global_batch_size",
         f"this target needs at least as many micro-batches ({p.micro_batches}) as pipeline stages ({p.pipeline_parallel})"),
        (bool(model.num_experts) and p.tensor_parallel > 1 and not p.sequence_parallel and bool(c.moe_tp_needs_sp),
         "sequence_parallel", "a model with experts trains with tensor parallelism only if sequence_parallel is on"),
        (p.rank_order.endswith("pp-dp") and p.pipeline_parallel > 1 and p.data_parallel > 1 and not c.data_outside_pipeline,
         "rank_order", f"this target cannot place ranks as {p.rank_order}"),
    ]  # fmt: skip
    return [Problem(message, key=key) for bad, key, message in checks if bad]


def _partial(plan: Plan) -> bool:
    return plan.recompute == "full" and plan.recompute_num_layers is not None and plan.recompute_num_layers < chunk_layers(plan)


def chunk_layers(plan: Plan) -> int:
    """Most decoder layers in one model chunk.

    >>> chunk_layers(Plan(pipeline_parallel=2, virtual_stages=2, stage_layers=(6, 8)))
    4
    """
    return -(-max(plan.stage_layers) // plan.virtual_stages)


def recomputed_layers(plan: Plan) -> int:
    """Layers of a chunk that are recomputed in full: 0 none, at most `chunk_layers`.

    >>> recomputed_layers(Plan(recompute="full", stage_layers=(6,)))
    6
    >>> recomputed_layers(Plan(recompute="full", recompute_num_layers=2, stage_layers=(6,)))
    2
    """
    if plan.recompute != "full":
        return 0
    every = chunk_layers(plan)
    return every if plan.recompute_num_layers is None else min(plan.recompute_num_layers, every)
