"""Would the training program accept this plan? Every broken rule, with the nearest values that satisfy it.

The rules are those the programs check themselves: Megatron-LM (`arguments.py`, `transformer_config.py`,
`parallel_state.py`, `schedules.py` of megatron-core 0.17 to 0.19), DeepSpeed's pipeline engine and configuration,
torchtitan's `ParallelDims` and nanotron's process-group grid. Whether a plan fits in memory is not a matter of
legality. The search kernel tests the same rules in compiled form; this module explains them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from autotune.nearest_values import balanced_stage_layers, nearest_divisors, nearest_multiples
from autotune.plan import Plan
from autotune.specs import ModelSpec

__all__ = [
    "FAMILIES", "RULES", "Case", "Rule", "balanced_stage_layers", "family_of", "nearest_divisors", "nearest_multiples", "violations",
]  # fmt: skip

FAMILIES = {
    "megatron": ("megatron", "nemo", "bridge", "primus", "flagscale", "swift", "neox"),
    "deepspeed": ("deepspeed", "zero"),
    "torchtitan": ("torchtitan", "titan", "fsdp"),
    "nanotron": ("nanotron",),
}


_NEAR = 512  # how far from a value the next legal one is looked for


@dataclass(frozen=True)
class Case:
    """What a rule looks at. `gpus` is the size of the job where it is known apart from the plan."""

    model: ModelSpec
    plan: Plan
    family: str
    gpus: int | None = None

    @property
    def world(self) -> int:
        """Ranks of the job."""
        return self.gpus or self.plan.gpus


@dataclass(frozen=True)
class Rule:
    """One constraint: `broken` returns what is wrong, or None. `axes` are the plan fields that could put it right.

    `structural` rules tie an axis to the model alone; a suggested value satisfies all of them on its axis.
    """

    name: str
    axes: tuple[str, ...]
    broken: Callable[[Case], str | None]
    families: tuple[str, ...] = ("megatron", "deepspeed", "torchtitan", "nanotron")
    structural: bool = False


def family_of(target: str) -> str:
    """The rule table of a launch target or stack name; unknown names follow Megatron.

    >>> family_of("megatron-core"), family_of("megatron-deepspeed"), family_of("fsdp")
    ('megatron', 'deepspeed', 'torchtitan')
    """
    name = target.lower()
    if "deepspeed" in name:
        return "deepspeed"
    for family, words in FAMILIES.items():
        if any(word in name for word in words):
            return family
    return "megatron"


def violations(model: ModelSpec, plan: Plan, target: str = "megatron", gpus: int | None = None) -> list[dict[str, Any]]:
    """Every rule of `target` that the plan breaks: `{"rule", "message", "nearest"}`, empty if it is legal.

    `nearest` maps each field that could put it right to the nearest legal values below and above (empty when no value
    of that field alone helps). `gpus` is the job's size when known; by default the product of the plan's degrees.

    >>> m = ModelSpec(name="m", num_layers=40, hidden_size=5120, num_attention_heads=40, ffn_hidden_size=20480,
    ...               vocab_size=50304, seq_length=2048)
    >>> found = violations(m, Plan(tensor_parallel=3, data_parallel=1, global_batch_size=1, stage_layers=(40,)))
    >>> [(v["rule"], v["nearest"]["tensor_parallel"]) for v in found]
    [('heads_per_tensor_rank', [2, 4]), ('query_groups_per_tensor_rank', [2, 4]), ('ffn_per_tensor_rank', [2, 4])]
    >>> violations(m, Plan(tensor_parallel=4, global_batch_size=1, stage_layers=(40,)))
    []
    """
    case = Case(model, plan, family_of(target), gpus)
    found = []
    for rule in RULES:
        if case.family not in rule.families:
            continue
        message = rule.broken(case)
        if message:
            found.append({"rule": rule.name, "message": message, "nearest": _nearest(case, rule)})
    return found


def _nearest(case: Case, rule: Rule) -> dict[str, list[Any]]:
    result = {}
    for axis in rule.axes:
        values = _nearest_on(case, rule, axis)
        if values:
            result[axis] = values
    return result


def _nearest_on(case: Case, rule: Rule, axis: str) -> list[Any]:
    peers = [r for r in RULES if axis in r.axes and r.structural and case.family in r.families]
    for rules in ([rule, *peers], [rule]):
        found = [next((v for v in run if _ok(case, axis, v, rules)), None) for run in _candidates(case, axis)]
        values = [v for v in found if v is not None]
        if values:
            return values
    return []


def _ok(case: Case, axis: str, value: Any, rules: list[Rule]) -> bool:
    changed = _changed(case, axis, value)
    return all(rule.broken(changed) is None for rule in rules)


def _changed(case: Case, axis: str, value: Any) -> Case:
    if axis == "gpus":
        return dataclasses.replace(case, gpus=value)
    if axis == "seq_length":
        return dataclasses.replace(case, model=case.model.model_copy(update={axis: value}))
    fields: dict[str, Any] = {axis: value}
    if axis == "pipeline_parallel":
        fields["stage_layers"] = balanced_stage_layers(case.model.num_layers, value)
    return dataclasses.replace(case, plan=dataclasses.replace(case.plan, **fields))


def _candidates(case: Case, axis: str) -> Iterator[Iterator[Any]]:
    """Runs of values to try, nearest first: one run below the present value, one above."""
    plan = case.plan
    if axis == "stage_layers":
        yield iter([balanced_stage_layers(case.model.num_layers, plan.pipeline_parallel)])
        return
    if axis == "seq_length":
        step = 2 * plan.context_parallel * plan.tensor_parallel
        yield iter(nearest_multiples(step, case.model.seq_length)[:1])
        yield iter(nearest_multiples(step, case.model.seq_length)[1:])
        return
    value = case.world if axis == "gpus" else getattr(plan, axis)
    if isinstance(value, bool):
        yield iter([not value])
    elif axis in ("global_batch_size", "gpus"):
        step = plan.micro_batch_size * plan.data_parallel
        if axis == "gpus":
            step = plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel
        below = value // step * step
        yield (below - i * step for i in range(64) if below - i * step > 0)
        yield (below + i * step for i in range(1, 4 * plan.pipeline_parallel + 64))
    elif axis == "rank_order":
        yield iter([o for o in ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp") if o != value])
    elif axis == "zero_stage":
        yield iter(range(value - 1, -1, -1))
    else:
        # More stages than layers never help. A degree beyond hundreds is a slip: near values, then powers of two.
        most = case.model.num_layers + 2 if axis == "pipeline_parallel" else value + _NEAR
        below = min(value - 1, most)
        low = max(below - _NEAR, 0)
        yield chain(range(below, low, -1), (1 << i for i in range(low.bit_length() - 1, -1, -1)))
        yield iter(range(value + 1, min(4 * value, value + _NEAR, most) + 8))


# --- the rules; each function returns what is wrong, or None -------------------------------------------------------


def _divides(what: str, size: int, degree: int, axis: str) -> str | None:
    return f"{what} {size} is not divisible by {axis} {degree}" if size % degree else None


def _world(c: Case) -> str | None:
    p = c.plan
    inner = p.tensor_parallel * p.pipeline_parallel * p.context_parallel
    if c.world % inner:
        return f"{c.world} GPUs are not a multiple of tensor x pipeline x context = {inner}"
    if c.world != p.gpus:
        return f"the degrees make {p.gpus} ranks, the job has {c.world} GPUs"
    return None


def _expert_grid(c: Case) -> str | None:
    p = c.plan
    inside = p.gpus // p.pipeline_parallel
    want = p.expert_parallel * p.expert_tensor_parallel
    if inside % want:
        return f"the {inside} ranks of a pipeline stage are not a multiple of expert_parallel x expert_tensor_parallel = {want}"
    return None


def _expert_order(c: Case) -> str | None:
    p = c.plan
    if p.pipeline_parallel > 1 and p.rank_order.endswith("dp") and p.expert_parallel > 1 and _expert_grid(c) is None and p.expert_data_parallel != p.data_parallel:
        return (
            f"rank order {p.rank_order} needs equal dense and expert data parallel degrees; "
            f"they are {p.data_parallel} and {p.expert_data_parallel}"
        )
    return None


def _heads(c: Case) -> str | None:
    return _divides("num_attention_heads", c.model.num_attention_heads, c.plan.tensor_parallel, "tensor_parallel")


def _query_groups(c: Case) -> str | None:
    groups, t = c.model.kv_heads, c.plan.tensor_parallel
    if c.model.multi_latent_attention or groups % t == 0 or t % groups == 0:
        return None
    return f"num_query_groups {groups} (kv heads) and tensor_parallel {t}: neither divides the other"


def _whole_query_groups(c: Case) -> str | None:
    # torchtitan splits the KV projection by heads: pytorch/torchtitan pull request 2577 checks it when the job starts.
    groups, t = c.model.kv_heads, c.plan.tensor_parallel
    if c.model.multi_latent_attention or groups % t == 0:
        return None
    return f"num_query_groups {groups} (kv heads) is not divisible by tensor_parallel {t}; this program does not copy KV heads"


def _ffn(c: Case) -> str | None:
    m = c.model
    dense = not m.num_experts or m.first_k_dense > 0 or m.moe_layer_freq > 1
    wrong = _divides("ffn_hidden_size", m.ffn, c.plan.tensor_parallel, "tensor_parallel") if dense else None
    if wrong is None and m.moe_shared_expert_intermediate_size:
        shared = m.moe_shared_expert_intermediate_size
        wrong = _divides("moe_shared_expert_intermediate_size", shared, c.plan.tensor_parallel, "tensor_parallel")
    return wrong


def _expert_ffn(c: Case) -> str | None:
    if not c.model.num_experts:
        return None
    return _divides("moe_ffn_hidden_size", c.model.expert_ffn, c.plan.expert_tensor_parallel, "expert_tensor_parallel")


def _stages(c: Case) -> str | None:
    p, layers = c.plan, c.model.num_layers
    if len(p.stage_layers) != p.pipeline_parallel:
        return f"stage_layers lists {len(p.stage_layers)} stages, pipeline_parallel is {p.pipeline_parallel}"
    if sum(p.stage_layers) != layers:
        return f"stage_layers sums to {sum(p.stage_layers)}, the model has {layers} layers"
    if any(n < 1 for n in p.stage_layers[1:-1]) or p.pipeline_parallel > layers:
        return f"a pipeline stage has no layer: {layers} layers over {p.pipeline_parallel} stages"
    return None


def _chunks(c: Case) -> str | None:
    p = c.plan
    uneven = sorted({n for n in p.stage_layers if n % p.virtual_stages})
    if not uneven or p.virtual_stages == 1:
        return None
    chunks = p.virtual_stages * p.pipeline_parallel
    if chunks > sum(p.stage_layers):
        return (
            f"virtual_stages {p.virtual_stages} x pipeline_parallel {p.pipeline_parallel} = {chunks} model chunks, "
            f"more than the {sum(p.stage_layers)} layers"
        )
    return f"a stage of {uneven[0]} layers does not split into virtual_stages {p.virtual_stages} equal chunks"


def _chunks_need_pipeline(c: Case) -> str | None:
    if c.plan.virtual_stages > 1 and c.plan.pipeline_parallel == 1:
        return f"virtual_stages {c.plan.virtual_stages} needs pipeline_parallel of at least 2"
    return None


def _chunk_batches(c: Case) -> str | None:
    p = c.plan
    if p.virtual_stages > 1 and (p.micro_batches < p.pipeline_parallel or p.micro_batches % p.pipeline_parallel):
        return f"with virtual stages the {p.micro_batches} micro-batches must be a multiple of pipeline_parallel {p.pipeline_parallel}"
    return None


def _batch(c: Case) -> str | None:
    p = c.plan
    step = p.micro_batch_size * p.data_parallel
    if p.global_batch_size % step or p.global_batch_size < step:
        return f"global_batch_size {p.global_batch_size} is not a multiple of micro_batch_size x data_parallel = {step}"
    return None


def _context(c: Case) -> str | None:
    ways = 2 * c.plan.context_parallel
    if c.plan.context_parallel > 1 and c.model.seq_length % ways:
        return f"seq_length {c.model.seq_length} is not a multiple of 2 x context_parallel = {ways}"
    return None


def _sequence(c: Case) -> str | None:
    p = c.plan
    ways = p.context_parallel * p.tensor_parallel
    if p.sequence_parallel and p.tensor_parallel > 1 and c.model.seq_length % ways:
        return f"sequence_parallel: seq_length {c.model.seq_length} is not a multiple of context x tensor = {ways}"
    return None


def _positions(c: Case) -> str | None:
    limit = c.model.max_position_embeddings
    if limit and c.model.seq_length > limit:
        return f"seq_length {c.model.seq_length} exceeds max_position_embeddings {limit}"
    return None


def _experts(c: Case) -> str | None:
    e = c.plan.expert_parallel
    if e == 1:
        return None
    if not c.model.num_experts:
        return f"expert_parallel {e} needs a model with experts"
    return _divides("num_experts", c.model.num_experts, e, "expert_parallel")


def _experts_sequence(c: Case) -> str | None:
    p = c.plan
    if not c.model.num_experts or p.tensor_parallel == 1 or p.sequence_parallel:
        return None
    return f"experts with tensor_parallel {p.tensor_parallel} train only with sequence_parallel"


def _expert_tensor(c: Case) -> str | None:
    x = c.plan.expert_tensor_parallel
    if c.model.num_experts and c.model.add_bias_linear and x > 1:
        return f"experts with linear biases need expert_tensor_parallel 1, got {x} (or turn the biases off)"
    return None


def _zero_pipeline(c: Case) -> str | None:
    p = c.plan
    if p.zero_stage >= 2 and p.pipeline_parallel > 1:
        return f"zero_stage {p.zero_stage} cannot be combined with pipeline_parallel {p.pipeline_parallel}"
    return None


def _no_chunks(c: Case) -> str | None:
    v = c.plan.virtual_stages
    return f"this program has no interleaved schedule, virtual_stages is {v}" if v > 1 else None


def _no_context(c: Case) -> str | None:
    n = c.plan.context_parallel
    return f"this program has no context parallelism, context_parallel is {n}" if n > 1 else None


def _zero_experts(c: Case) -> str | None:
    if c.plan.zero_stage == 3 and c.model.num_experts and c.plan.expert_parallel > 1:
        return "zero_stage 3 does not take expert-parallel layers"
    return None


def _nanotron_experts(c: Case) -> str | None:
    e = c.plan.expert_parallel
    if e == 1:
        return None
    return (
        f"the ranks are laid out as expert x pipeline x data x context x tensor, but their number must also be "
        f"{c.plan.gpus} without the expert degree {e}"
    )


RULES = (
    Rule("world_size", ("data_parallel", "gpus"), _world),
    Rule("expert_grid", ("expert_parallel", "expert_tensor_parallel"), _expert_grid),
    Rule("expert_rank_order", ("rank_order", "expert_parallel"), _expert_order, ("megatron",)),
    Rule("heads_per_tensor_rank", ("tensor_parallel",), _heads, structural=True),
    Rule("query_groups_per_tensor_rank", ("tensor_parallel",), _query_groups, structural=True),
    Rule("query_groups_whole", ("tensor_parallel",), _whole_query_groups, ("torchtitan",), structural=True),
    Rule("ffn_per_tensor_rank", ("tensor_parallel",), _ffn, structural=True),
    Rule("expert_ffn_per_expert_tensor_rank", ("expert_tensor_parallel",), _expert_ffn, structural=True),
    Rule("layers_per_stage", ("stage_layers", "pipeline_parallel"), _stages, structural=True),
    Rule("chunks_need_pipeline", ("virtual_stages", "pipeline_parallel"), _chunks_need_pipeline, structural=True),
    Rule("layers_per_chunk", ("virtual_stages", "pipeline_parallel"), _chunks, ("megatron",), structural=True),
    Rule("micro_batches_per_chunk_group", ("global_batch_size", "micro_batch_size", "virtual_stages"), _chunk_batches, ("megatron",)),
    Rule("global_batch", ("global_batch_size", "micro_batch_size", "data_parallel"), _batch),
    Rule("sequence_per_context_rank", ("context_parallel", "seq_length"), _context, structural=True),
    Rule("sequence_per_tensor_rank", ("sequence_parallel", "tensor_parallel", "seq_length"), _sequence, structural=True),
    Rule("position_embeddings", (), _positions, ("megatron", "nanotron")),
    Rule("experts_per_expert_rank", ("expert_parallel",), _experts, structural=True),
    Rule("experts_need_sequence_parallel", ("sequence_parallel", "tensor_parallel"), _experts_sequence, ("megatron",), structural=True),
    Rule("expert_bias", ("expert_tensor_parallel",), _expert_tensor, ("megatron",), structural=True),
    Rule("zero_with_pipeline", ("zero_stage", "pipeline_parallel"), _zero_pipeline, ("deepspeed",)),
    Rule("no_interleaving", ("virtual_stages",), _no_chunks, ("deepspeed", "nanotron"), structural=True),
    Rule("no_context_parallelism", ("context_parallel",), _no_context, ("deepspeed",), structural=True),
    Rule("zero_with_experts", ("zero_stage", "expert_parallel"), _zero_experts, ("deepspeed",)),
    Rule("expert_grid_in_world", ("expert_parallel",), _nanotron_experts, ("nanotron",)),
)
