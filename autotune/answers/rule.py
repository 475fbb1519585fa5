"""The plan that the field's rule of thumb gives, and how far from the best it is predicted to be.

The rule (Narayanan et al. 2021, arXiv 2104.04473, takeaways 1 to 3): tensor parallelism inside the high-bandwidth domain
first, then as few pipeline stages as make the model fit, data parallelism with the rest; micro-batch 1, interleaving
where the layers divide. Experts stay inside the domain. It is what a person writes down without measuring.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autotune.evaluate import Evaluation, evaluate
from autotune.limits import lattice_limits
from autotune.plan import Plan
from autotune.plan_points import plan_of
from autotune.setting import AXES, Setting, hardware, setting_axes, target_rules
from autotune.specs import ClusterSpec, ModelSpec, Range
from costmodels.groups import unreachable_group
from costmodels.types import Point
from searchspaces.kernel import Hardware
from searchspaces.lattice import divisors_of
from searchspaces.legality import point_reason
from searchspaces.rules import OK
from searchspaces.splits import make_point

NONE, SELECTIVE, FULL = 0, 1, 5  # recompute modes of the lattice
MIN_CHUNK_LAYERS = 2  # interleaving is taken while a model chunk keeps this many layers


@dataclass(frozen=True)
class _Degrees:
    """One try of the rule."""

    tensor: int
    pipeline: int
    context: int
    expert: int
    mode: int


def default_setting(cluster: ClusterSpec, model: ModelSpec) -> Setting:
    """The hardware setting meant where a file leaves axes open: most GPUs, and the first value of every other axis.

    >>> from autotune.load import load_cluster, load_model
    >>> s = default_setting(load_cluster("h100-rail-1024"), load_model("llama-3-70b"))
    >>> s.gpus, s.hb_domain_size, s.fabric
    (1024, 8, 'rail-only')
    """
    chosen: dict[str, Any] = {}
    for name, values in setting_axes(cluster, model).items():
        chosen[name] = values.max if isinstance(values, Range) else values[0]
    counts = setting_axes(cluster, model)["gpus"]
    chosen["gpus"] = max(counts)
    return Setting(**{name: chosen[name] for name in AXES})


def rule_of_thumb_plan(
    cluster: ClusterSpec, model: ModelSpec, target: str = "megatron", setting: Setting | None = None
) -> Plan | None:
    """The field's plan for a model on a cluster; None when no plan of that kind is legal and fits.

    In order: no or selective recompute before full; no context parallelism before some; experts inside the HB domain
    before wider; fewer pipeline stages before more; a smaller tensor degree before a larger, never beyond the HB domain.
    The first that is legal for the target and fits is taken, then the most model chunks that leave two layers each.

    >>> from autotune.load import load_cluster, load_model
    >>> p = rule_of_thumb_plan(load_cluster("h100-superpod-1024"), load_model("llama-3-8b"))
    >>> p.tensor_parallel, p.pipeline_parallel, p.micro_batch_size
    (2, 1, 1)
    """
    setting = setting or default_setting(cluster, model)
    rule = RuleOfThumb(cluster, model, target, setting)
    for degrees in rule.tries():
        plan = rule.plan(degrees, 1)
        if plan is not None:
            return rule.interleaved(degrees, plan)
    return None


def rule_of_thumb(
    cluster: ClusterSpec, model: ModelSpec, best: Evaluation, target: str = "megatron", setting: Setting | None = None
) -> dict[str, Any]:
    """The rule-of-thumb plan priced beside a better one: `{"plan": Evaluation | None, "gap": float | None, "text"}`.

    `gap` is its iteration time over the best plan's, minus one.
    """
    plan = rule_of_thumb_plan(cluster, model, target, setting)
    if plan is None:
        return {"plan": None, "gap": None, "text": "no plan of the usual kind fits: tensor parallelism in the domain, few stages, data parallelism"}
    priced = evaluate(cluster, model, plan, target)
    gap = priced.iteration_time_s / best.iteration_time_s - 1.0
    same = plan.id == best.plan.id
    text = "the rule of thumb gives the same plan" if same else f"the rule of thumb gives {shape(plan)}: {gap:+.1%} iteration time"
    return {"plan": priced, "gap": gap, "text": text}


def different_shape(plans: list[Evaluation]) -> Evaluation | None:
    """The best of `plans` (best first) whose shape clearly differs from the first's: another tensor, pipeline, context or
    expert degree by a factor of two or more. None when all are alike.
    """
    if not plans:
        return None
    first = plans[0].plan
    axes = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
    for e in plans[1:]:
        ratios = [getattr(e.plan, a) / getattr(first, a) for a in axes]
        if any(r >= 2 or r <= 0.5 for r in ratios):
            return e
    return None


def shape(plan: Plan) -> str:
    """A plan in one short phrase.

    >>> shape(Plan(tensor_parallel=8, pipeline_parallel=2, data_parallel=4, global_batch_size=64, stage_layers=(16, 16)))
    'T8 P2 D4, micro-batch 1'
    """
    parts = [f"T{plan.tensor_parallel}", f"P{plan.pipeline_parallel}", f"D{plan.data_parallel}"]
    if plan.context_parallel > 1:
        parts.append(f"C{plan.context_parallel}")
    if plan.expert_parallel > 1:
        parts.append(f"E{plan.expert_parallel}")
    if plan.virtual_stages > 1:
        parts.append(f"v{plan.virtual_stages}")
    more = [f"micro-batch {plan.micro_batch_size}"]
    if plan.recompute != "none":
        more.append(f"{plan.recompute} recompute")
    if plan.zero_stage > 1:
        more.append(f"ZeRO {plan.zero_stage}")
    return " ".join(parts) + ", " + ", ".join(more)


class RuleOfThumb:
    """Builds and tests the rule's candidates on one setting."""

    def __init__(self, cluster: ClusterSpec, model: ModelSpec, target: str, setting: Setting) -> None:
        self.cluster, self.model, self.target, self.setting = cluster, model, target, setting
        self.hw: Hardware = hardware(cluster, model, setting, target_rules(target))
        self.limits = lattice_limits(model)
        fully_sharded = target == "torchtitan"
        self.zero = 3 if fully_sharded else 1

    def allowed(self, axis: str, values: list[int]) -> list[int]:
        """Values within the model file's limits."""
        limit = self.limits.get(axis)
        return values if limit is None else [v for v in values if v in limit]

    def tries(self, passes: tuple[tuple[int, ...], ...] = ((NONE, SELECTIVE), (FULL,))) -> Iterator[_Degrees]:
        """Degrees in the order of the rule, once per pass over recompute modes."""
        s, m = self.setting, self.model
        divisors = divisors_of(s.gpus)
        tensor = self.allowed("tensor", [d for d in divisors if d <= s.hb_domain_size])
        pipeline = self.allowed("pipeline", [d for d in divisors if d <= m.num_layers])
        context = self.allowed("context", [d for d in divisors if 2 * d <= m.seq_length])
        expert = self.allowed("expert", divisors_of(m.num_experts) if m.num_experts else [1])
        inside = [max([e for e in expert if e <= s.hb_domain_size], default=1)]
        wider = [e for e in expert if e > s.hb_domain_size and e <= s.gpus]
        for modes in passes:
            for e in (*inside, *wider):
                for c in context:
                    for p in pipeline:
                        for t in tensor:
                            yield from (_Degrees(t, p, c, e, mode) for mode in modes if self.mode_allowed(mode))

    def mode_allowed(self, mode: int) -> bool:
        """Whether the model file allows a recompute mode."""
        return "recompute" not in self.limits or min(mode, 2) in self.limits["recompute"]

    def plan(self, d: _Degrees, chunks: int) -> Plan | None:
        """The candidate as a plan, None when it is illegal or does not fit."""
        for split in (0, 1, 2):
            point = self._point(d, chunks, split)
            if self._legal(d, point):
                plan = plan_of(point, self.model.num_layers, self.setting, self.cluster.stack)
                if evaluate(self.cluster, self.model, plan, self.target, rail=False).fits:
                    return plan
        return None

    def interleaved(self, d: _Degrees, plan: Plan) -> Plan:
        """The same degrees with as many model chunks as leave two layers each and still fit."""
        most = max(plan.stage_layers) // MIN_CHUNK_LAYERS
        for chunks in self.allowed("chunks", list(range(min(24, most), 1, -1))):
            found = self.plan(d, chunks)
            if found is not None:
                return found
        return plan

    def _point(self, d: _Degrees, chunks: int, split: int) -> Point:
        s = self.setting
        data = s.gpus // max(1, d.tensor * d.pipeline * d.context)
        zero = self.zero if data * d.context > 1 else 0
        micro_batch = min(self.allowed("micro_batch", [1]) or self.limits["micro_batch"])
        return make_point(
            self.model.num_layers, s.gpus, s.global_batch_size, d.tensor, d.pipeline, d.context, d.expert,
            micro_batch, 1, int(d.tensor > 1), split, chunks, zero, d.mode, 0,
        )  # fmt: skip

    def _legal(self, d: _Degrees, point: Point) -> bool:
        s, hw = self.setting, self.hw
        if d.tensor * d.pipeline * d.context > s.gpus or d.expert * d.pipeline > s.gpus:
            return False
        if "data" in self.limits and point.data not in self.limits["data"]:
            return False
        if (point.data * point.context > 1 and point.zero not in self.limits.get("zero", (point.zero,))) or point.zero > hw.rules.max_zero:
            return False
        reason = point_reason(
            hw.model, hw.rules, s.gpus, s.global_batch_size, d.tensor, d.pipeline, d.context, d.expert, d.mode, point
        )
        if reason != OK:
            return False
        return int(unreachable_group(hw.net, point, hw.model.experts, hw.model.tied)) == 0
