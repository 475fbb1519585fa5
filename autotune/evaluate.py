"""Price one named plan: iteration time, memory of every stage, rails, legality. The same functions as the search kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from autotune.cluster_checks import gpu_of
from autotune.constants import GIB, model_constants, stack_constants
from autotune.legality import violations
from autotune.plan import Plan
from autotune.plan_points import plan_point
from autotune.setting import Setting, calibration_of, hardware
from autotune.specs import ClusterSpec, ModelSpec
from autotune.training_state import training_stack
from costmodels._jit import jit
from costmodels.edges import EdgeCost
from costmodels.flops import matmul_parameters, model_flops_per_token, recomputed_flops_per_token
from costmodels.iteration import Iteration, price_iteration
from costmodels.layer import LayerCost
from costmodels.memory import memory_total, stage_memory
from costmodels.types import Breakdown, Point, StageMemory
from searchspaces.kernel import Hardware, fill_row
from searchspaces.rules import TargetRules


@dataclass(frozen=True)
class Evaluation:
    """What the model says of one plan. Seconds, bytes, FLOP/s.

    `reason` is empty for a plan that is legal and fits, else the first obstacle: `rule`, `rail` or `memory`.
    """

    plan: Plan
    reason: str
    violations: list[dict[str, Any]]
    iteration_time_s: float
    breakdown: Breakdown
    stages: list[StageMemory]
    capacity_bytes: float
    rail: dict[str, Any]
    tokens_per_s_per_gpu: float
    model_tflops_per_gpu: float
    mfu: float
    hfu: float

    @property
    def peak_bytes(self) -> float:
        """Memory of the fullest stage."""
        return max(float(sum(s)) for s in self.stages)

    @property
    def fits(self) -> bool:
        """Whether every stage fits."""
        return self.peak_bytes <= self.capacity_bytes

    def to_dict(self) -> dict[str, Any]:
        """The JSON of one plan."""
        by_stage = [{**{k: v / GIB for k, v in s._asdict().items()}, "total": sum(s) / GIB} for s in self.stages]
        return {
            **self.plan.to_dict(),
            "iteration_time_s": self.iteration_time_s,
            "tokens_per_s_per_gpu": self.tokens_per_s_per_gpu,
            "model_tflops_per_gpu": self.model_tflops_per_gpu,
            "mfu": self.mfu,
            "hfu": self.hfu,
            "memory_GiB": {"peak": self.peak_bytes / GIB, "capacity": self.capacity_bytes / GIB, "by_stage": by_stage},
            "breakdown_s": self.breakdown._asdict(),
            "rail": self.rail,
        }


@jit
def price_point(hw: Any, point: Point, dense: LayerCost, moe: LayerCost, edges: EdgeCost) -> Iteration:
    """Iteration of one point."""
    return price_iteration(hw.model, hw.gpu, hw.net, hw.stack, point, dense, moe, edges)


@jit
def point_stage_memory(hw: Any, point: Point, dense: LayerCost, moe: LayerCost, edges: EdgeCost, stage: int) -> StageMemory:
    """Memory of one stage of one point."""
    return stage_memory(hw.model, hw.stack, point, dense, moe, edges, stage)


def setting_of(plan: Plan, cluster: ClusterSpec) -> Setting:
    """The hardware setting a plan was made for; the HB rate is the cluster's (a plan does not carry it)."""
    from autotune.constants import GB, hb_rates
    from autotune.specs import Range

    rates = hb_rates(cluster)
    rate = rates.max if isinstance(rates, Range) else rates[0] / GB
    return Setting(plan.gpus, plan.hb_domain_size, rate, plan.nic_Gbps, plan.fabric, plan.global_batch_size)


@lru_cache(maxsize=512)
def _hardware(cluster_json: str, model_json: str, setting: Setting) -> Hardware:
    cluster, model = ClusterSpec.model_validate_json(cluster_json), ModelSpec.model_validate_json(model_json)
    return hardware(cluster, model, setting, TargetRules())


def _with_layers(hw: Hardware, layers: int) -> Hardware:
    if int(hw.model.layers) == layers:
        return hw
    changed: Any = hw.model.copy()  # type: ignore[attr-defined]  # a record here, see costmodels.records
    changed.layers = layers
    return hw._replace(model=changed)


@dataclass(frozen=True)
class Pricing:
    """The level-1 prices of one plan and the kernel inputs they came from."""

    hw: Hardware
    point: Point
    dense: Any
    moe: Any
    edges: Any

    def at_stage(self, stage_layers: tuple[int, ...], stage: int) -> tuple[Hardware, Point]:
        """Kernel inputs for one stage: a middle stage of another size is priced as if all middle stages had its layers."""
        P = len(stage_layers)
        layers = stage_layers[0] + stage_layers[stage] * (P - 2) + stage_layers[-1]
        if not 0 < stage < P - 1 or layers == int(self.hw.model.layers):
            return self.hw, self.point
        ends = self.point._replace(first_layers=stage_layers[0], last_layers=stage_layers[-1])
        return _with_layers(self.hw, layers), ends


def price_plan(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> Pricing:
    """Level-1 prices of a plan's layer key, in the form the compiled functions take."""
    from costmodels.records import record_view

    point, layers = plan_point(plan)
    hw = _hardware(cluster.model_dump_json(), model.model_dump_json(), setting_of(plan, cluster))
    hw = _with_layers(hw, layers)
    rows = [np.zeros(len(kind._fields)) for kind in (LayerCost, LayerCost, EdgeCost)]
    p = point
    fill_row(hw, p.tensor, p.context, p.expert, p.expert_tensor, p.micro_batch, p.seq_parallel, *rows)
    dense, moe, edges = (record_view(r.reshape(1, -1), k)[0] for r, k in zip(rows, (LayerCost, LayerCost, EdgeCost), strict=True))
    return Pricing(hw, point, dense, moe, edges)


def plan_memory(pricing: Pricing, stage_layers: tuple[int, ...]) -> list[StageMemory]:
    """Memory of every stage; stages with unequal middles are each priced with their own layer count."""
    stages = []
    for i in range(len(stage_layers)):
        hw, point = pricing.at_stage(stage_layers, i)
        found = point_stage_memory(hw, point, pricing.dense, pricing.moe, pricing.edges, i)
        stages.append(StageMemory(*(float(x) for x in found)))
    return stages


def evaluate(cluster: ClusterSpec, model: ModelSpec, plan: Plan, target: str = "megatron", rail: bool = True) -> Evaluation:
    """Price a plan on a cluster.

    The plan's own HB-domain size, NIC rate, fabric and stack are used. A plan that breaks a rule is still priced, with the
    violations listed; InputError when it does not describe this model (layers do not add up).
    """
    from autotune.traffic import rail_report

    if plan.stack != cluster.stack:
        cluster = cluster.model_copy(update={"stack": plan.stack})
    check_layers(model, plan)
    broken = violations(model, plan, target)
    pricing = price_plan(cluster, model, plan)
    iteration = price_point(pricing.hw, pricing.point, pricing.dense, pricing.moe, pricing.edges)
    stages = plan_memory(pricing, plan.stage_layers)
    breakdown = Breakdown(*(float(x) for x in iteration.breakdown))
    numbers = model_constants(model)
    report: dict[str, Any] = {"compatible": True, "cross_rail_bytes": 0.0, "relayed_bytes": 0.0, "groups": []}
    if rail:
        stack = training_stack(stack_constants(plan.stack, calibration_of(cluster)), model)
        point = pricing.point
        report = rail_report(numbers, stack, point, plan.hb_domain_size, plan.stage_layers)
        if pricing.hw.net.any_to_any:
            report = {**report, "compatible": True, "cross_rail_bytes": 0.0, "rail_only_compatible": report["compatible"]}
    capacity = float(pricing.hw.memory_limit_bytes)
    fits = max(memory_total(s) for s in stages) <= capacity
    reason = "rule" if broken else "rail" if not report["compatible"] else "" if fits else "memory"
    return Evaluation(
        plan, reason, broken, float(iteration.time_s), breakdown, stages, capacity, report,
        *_rates(model, plan, cluster, float(iteration.time_s)),
    )  # fmt: skip


def _rates(model: ModelSpec, plan: Plan, cluster: ClusterSpec, time_s: float) -> tuple[float, float, float, float]:
    """(tokens/s per GPU, model TFLOP/s per GPU, MFU, HFU); full-attention FLOPs over the dense peak of the precision."""
    from autotune.constants import TERA, gpu_constants

    numbers = model_constants(model)
    tokens = plan.global_batch_size * model.seq_length / time_s / plan.gpus
    flops = model_flops_per_token(numbers, 0)
    if model.training.lora_rank is not None:
        flops -= 2.0 * matmul_parameters(numbers)  # a frozen model has no weight gradients
    share = 0.0
    if plan.recompute == "full":
        n = plan.recompute_num_layers
        held = max(plan.stage_layers)
        share = 1.0 if n is None else min(1.0, n * plan.virtual_stages / held)
    hardware_flops = flops + recomputed_flops_per_token(numbers, share)
    peak = gpu_constants(gpu_of(cluster), model.training.precision).peak_flops
    return tokens, tokens * flops / TERA, tokens * flops / peak, tokens * hardware_flops / peak


def check_layers(model: ModelSpec, plan: Plan) -> None:
    """InputError when a plan's stages do not add up to the model's layers."""
    from autotune.errors import InputError

    if sum(plan.stage_layers) != model.num_layers:
        raise InputError.of(
            f"stages hold {sum(plan.stage_layers)} layers, {model.name} has {model.num_layers}", key="stage_layers"
        )
