"""What a reader has found in a script or configuration, and its completion to a model and a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from autotune.errors import InputError, Problem
from autotune.legality import balanced_stage_layers
from autotune.plan import Plan
from autotune.schema_errors import problems as problems_of
from autotune.specs import MAX_GPUS, ModelSpec
from autotune.yaml_lines import Document

# Model keys without which nothing can be priced, in the order they are asked for.
ESSENTIAL = ("num_layers", "hidden_size", "num_attention_heads", "seq_length")
_GPT2_VOCABULARY = 50257
_LARGEST = 100_000_000
_COUNTS = (
    "tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel", "ulysses_parallel",
    "virtual_stages", "micro_batch_size", "global_batch_size", "gradient_accumulation", "nodes", "gpus_per_node", "world_size", "num_layers",
    "hidden_size", "num_attention_heads", "num_query_groups", "seq_length", "local_batch_size", "pipeline_first_stage_layers", "pipeline_last_stage_layers",
)  # fmt: skip


@dataclass
class Recovered:
    """Facts by section, in Megatron's names (`model`) and the plan's (`plan`), with how sure they are.

    `derived` names facts that stand nowhere literally, `missing` maps the name of an unknown to what needs it,
    `violations` are rules broken by the flags themselves.
    """

    kind: str
    model: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    launch: dict[str, Any] = field(default_factory=dict)
    derived: dict[str, None] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    violations: list[dict[str, Any]] = field(default_factory=list)
    target: str = "megatron"
    launches: int = 1

    def derive(self, section: str, key: str, value: Any) -> None:
        """Set a fact that follows from others, unless it is stated."""
        facts: dict[str, Any] = getattr(self, section)
        if facts.get(key) is None and value is not None:
            facts[key] = value
            self.derived.setdefault(key)

    def need(self, name: str, purpose: str) -> None:
        """Ask for an unknown by name."""
        self.missing.setdefault(f"argument {name} of the script" if name.isdigit() else name, purpose)

    def violate(self, rule: str, message: str, **nearest: list[Any]) -> None:
        """Record a rule broken by the flags."""
        self.violations.append({"rule": rule, "message": message, "nearest": nearest})

    def note(self, text: str) -> None:
        """Something the user should know."""
        if text not in self.notes:
            self.notes.append(text)

    def to_dict(self) -> dict[str, Any]:
        """The facts for `--json`."""
        return {
            "kind": self.kind, "model": self.model, "plan": self.plan, "launch": self.launch, "derived": list(self.derived),
            "assumed": self.assumed, "notes": self.notes, "missing": self.missing, "launches": self.launches,
        }


def complete(found: Recovered) -> Recovered:
    """Fill in what follows: degrees of 1, world size, data parallel degree, batch, accumulation, stage layers."""
    plan, launch = found.plan, found.launch
    _check_counts(found)
    for key in ("tensor_parallel", "pipeline_parallel"):
        found.derive("plan", key, 1)
    nodes, per_node = launch.get("nodes"), launch.get("gpus_per_node")
    if nodes and per_node:
        found.derive("launch", "world_size", nodes * per_node)
    world = launch.get("world_size")
    if world and per_node and not nodes and world % per_node == 0:
        found.derive("launch", "nodes", world // per_node)
    if world and nodes and not per_node and world % nodes == 0:
        found.derive("launch", "gpus_per_node", world // nodes)
    inner = plan["tensor_parallel"] * plan["pipeline_parallel"] * plan.get("context_parallel", 1) * plan.get("ulysses_parallel", 1)
    data = plan.get("data_parallel")
    if world and data is None:
        if world % inner == 0:
            found.derive("plan", "data_parallel", world // inner)
        else:
            found.derive("plan", "data_parallel", max(1, world // inner))
            found.violate("world_size", f"{world} GPUs are not a multiple of tensor x pipeline x context = {inner}", gpus=_around(world, inner))
    elif data and not world:
        found.derive("launch", "world_size", data * inner)
    _batch(found)
    _sequence_parallel(found)
    _stage_layers(found)
    return found


def _check_counts(found: Recovered) -> None:
    """Degrees, sizes and batches are counts; InputError for anything else."""
    problems = []
    for section in (found.plan, found.launch, found.model):
        for key in _COUNTS:
            value = section.get(key)
            most = MAX_GPUS if key.endswith("_parallel") or key in ("nodes", "gpus_per_node", "world_size") else _LARGEST
            if value is not None and not (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most):
                problems.append(Problem(f"must be a whole number from 1 to {most:,}, got {value!r}", key=key))
    if problems:
        raise InputError(problems)


def _around(value: int, step: int) -> list[int]:
    below = value // step * step
    return [v for v in (below, below + step) if v]


def _batch(found: Recovered) -> None:
    plan = found.plan
    micro, data = plan.get("micro_batch_size"), plan.get("data_parallel")
    accumulate, batch = plan.get("gradient_accumulation"), plan.get("global_batch_size")
    if micro and data:
        if batch is None:
            found.derive("plan", "global_batch_size", micro * data * (accumulate or 1))
        batch = plan["global_batch_size"]
        if accumulate is None and batch % (micro * data) == 0:
            found.derive("plan", "gradient_accumulation", batch // (micro * data))
        elif accumulate and not plan.get("local_batch_size") and batch != micro * data * accumulate:
            found.violate(
                "global_batch",
                f"global batch {batch} is not micro batch {micro} x accumulation {accumulate} x data parallel {data} = {micro * data * accumulate}",
                global_batch_size=[micro * data * accumulate],
            )


def _sequence_parallel(found: Recovered) -> None:
    if found.plan.get("sequence_parallel") and found.plan["tensor_parallel"] == 1:
        found.plan["sequence_parallel"] = False
        found.derived.setdefault("sequence_parallel")
        found.note("sequence parallelism at tensor_parallel 1 has no effect: the program switches it off")


def _stage_layers(found: Recovered) -> None:
    layers, stages, plan = found.model.get("num_layers"), found.plan["pipeline_parallel"], found.plan
    if not layers or plan.get("stage_layers"):
        return
    first, last = plan.get("pipeline_first_stage_layers"), plan.get("pipeline_last_stage_layers")
    if (first or last) and stages > 1:
        ends = [x for x in (first, last) if x]
        middle, rest = stages - len(ends), layers - sum(ends)
        if rest < 0 or (middle and rest % middle) or (not middle and rest):
            found.violate("layers_per_stage", f"{layers} layers less {sum(ends)} of the end stages do not divide over {middle} middle stages")
            found.derive("plan", "stage_layers", list(balanced_stage_layers(layers, stages)))
            return
        between = [rest // middle] * middle if middle else []
        found.derive("plan", "stage_layers", [*([first] if first else []), *between, *([last] if last else [])])
        return
    found.derive("plan", "stage_layers", list(balanced_stage_layers(layers, stages)))


def model_spec(found: Recovered) -> ModelSpec | None:
    """The model to price, None while essential keys are missing (they are then in `found.missing`)."""
    absent = [key for key in ESSENTIAL if found.model.get(key) is None]
    if absent:
        for key in absent if not found.missing else ():
            found.need(key, "the model; give it with --model")
        return None
    fields = {k: v for k, v in found.model.items() if k in ModelSpec.model_fields and v is not None}
    padded = found.model.get("padded_vocab_size")
    if padded:
        fields["vocab_size"] = padded
        fields["make_vocab_size_divisible_by"] = 1
    if "vocab_size" not in fields:
        fields["vocab_size"] = _GPT2_VOCABULARY
        found.assumed.append(f"vocab_size {_GPT2_VOCABULARY}: the tokenizer decides it, GPT-2's was assumed")
    fields.setdefault("name", "from-script")
    heads, hidden = fields["num_attention_heads"], fields["hidden_size"]
    if "kv_channels" not in fields and hidden % heads and not fields.get("multi_latent_attention"):
        found.violate("hidden_per_head", f"hidden_size {hidden} is not divisible by num_attention_heads {heads}")
        fields["kv_channels"] = max(1, hidden // heads)
    groups = fields.get("num_query_groups")
    if groups and heads % groups:
        found.violate("heads_per_query_group", f"num_attention_heads {heads} is not divisible by num_query_groups {groups}")
        del fields["num_query_groups"]
    fields["training"] = {"precision": _priced_precision(found), "global_batch_size": found.plan.get("global_batch_size")}
    try:
        return ModelSpec(**fields)
    except ValidationError as e:
        raise InputError([Problem(f"the model's {p.key} {p.message}", key=p.key) for p in problems_of(e, ModelSpec, Document(fields))]) from None


def _priced_precision(found: Recovered) -> str:
    precision = str(found.plan.get("precision") or "")
    if not precision:
        found.assumed.append("precision bf16: the script does not say")
        return "bf16"
    if "fp8" in precision:
        return "fp8"
    if "fp4" in precision:
        found.assumed.append("fp4 is priced as fp8")
        return "fp8"
    if precision.startswith("fp16"):
        return "fp16"
    if precision.startswith("fp32"):
        found.assumed.append("fp32 is priced as bf16: time and memory will be higher")
    return "bf16"


def plan_of(found: Recovered, stack: str, hb_domain_size: int, nic_Gbps: float, fabric: str) -> Plan | None:
    """The plan to price on a network, None while it is incomplete (see `found.missing`)."""
    facts = found.plan
    for key, why in (("data_parallel", "the number of GPUs; --set NNODES=.. and GPUS_PER_NODE=.."), ("micro_batch_size", "the micro batch")):
        if facts.get(key) is None:
            found.need({"data_parallel": "NNODES", "micro_batch_size": "MICRO_BATCH_SIZE"}[key], why)
    if facts.get("data_parallel") is None or facts.get("micro_batch_size") is None or facts.get("stage_layers") is None:
        return None
    recompute = facts.get("recompute", "none")
    layers = facts.get("recompute_num_layers")
    partial = recompute == "full" and facts.get("recompute_method") == "block" and layers is not None
    return Plan(
        tensor_parallel=facts["tensor_parallel"],
        pipeline_parallel=facts["pipeline_parallel"],
        data_parallel=facts["data_parallel"],
        context_parallel=facts.get("context_parallel", 1) * facts.get("ulysses_parallel", 1),
        expert_parallel=facts.get("expert_parallel", 1),
        expert_tensor_parallel=facts.get("expert_tensor_parallel", 1),
        virtual_stages=facts.get("virtual_stages") or 1,
        micro_batch_size=facts["micro_batch_size"],
        global_batch_size=facts["global_batch_size"],
        sequence_parallel=bool(facts.get("sequence_parallel")),
        recompute=recompute if recompute in ("none", "selective", "full") else "selective",
        recompute_num_layers=layers if partial else None,
        zero_stage=facts.get("zero_stage", 0),
        stage_layers=tuple(facts["stage_layers"]),
        rank_order=facts.get("rank_order", "tp-cp-ep-dp-pp"),
        hb_domain_size=hb_domain_size,
        nic_Gbps=nic_Gbps,
        fabric=fabric,
        stack=stack,
    )
