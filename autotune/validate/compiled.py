"""The cost model on prepared numbers, for fits that price thousands of rows many times with changed constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from autotune.validate.mapping import Scenario
from autotune.validate.tables import systems
from costmodels._jit import jit
from costmodels.edges import price_edges
from costmodels.iteration import price_iteration
from costmodels.layer import LayerKey, price_layer
from costmodels.memory import memory_total, stage_memory
from costmodels.types import Breakdown, Gpu, Model, Network, Point, Stack


class Priced(NamedTuple):
    """Seconds of one iteration, its parts, and bytes of the first stage and of the fullest one, without the reserve."""

    time_s: float
    breakdown: Breakdown
    first_stage_bytes: float
    peak_bytes: float
    reserve_bytes: float  # of the fullest stage


@jit
def price(model: Model, gpu: Gpu, net: Network, stack: Stack, point: Point) -> Priced:
    """Time and memory of one point."""
    key = LayerKey(point.tensor, point.context, point.expert, point.expert_tensor, point.micro_batch, point.seq_parallel)
    dense = price_layer(model, gpu, net, stack, key, 0)
    moe = dense
    if model.experts > 0:
        moe = price_layer(model, gpu, net, stack, key, 1)
    edges = price_edges(
        model, gpu, net, stack, point.tensor, point.context, point.expert, point.expert_tensor, point.micro_batch, point.seq_parallel
    )
    iteration = price_iteration(model, gpu, net, stack, point, dense, moe, edges)
    first = stage_memory(model, stack, point, dense, moe, edges, 0)
    worst = first
    for stage in range(1, point.pipeline):
        if stage > 1 and stage < point.pipeline - 1:
            continue
        other = stage_memory(model, stack, point, dense, moe, edges, stage)
        if memory_total(other) > memory_total(worst):
            worst = other
    return Priced(
        iteration.time_s, iteration.breakdown, memory_total(first) - first.reserve, memory_total(worst) - worst.reserve, worst.reserve
    )


@dataclass(frozen=True)
class Prepared:
    """One scenario in the cost model's numbers, with the names of what its constants belong to."""

    model: Model
    gpu: Gpu
    net: Network
    point: Point
    stack: str
    gpu_name: str
    system: str
    stalls: bool = False  # a job so large that pipeline transfers of this machine are known to stall


def prepare(scenario: Scenario) -> Prepared:
    """Convert once. Efficiencies are the shipped ones; a fit replaces them."""
    from autotune.constants import gpu_constants, hb_rates, model_constants, network_constants, nic_rates
    from autotune.evaluate import plan_point
    from autotune.setting import calibration_of

    cluster, plan = scenario.cluster, scenario.plan
    spec = cluster.gpu
    assert not isinstance(spec, str)
    hb, nic = hb_rates(cluster), nic_rates(cluster)
    assert isinstance(hb, list) and isinstance(nic, list)
    net = network_constants(cluster, plan.gpus, plan.hb_domain_size, hb[0], nic[0])
    gpu = gpu_constants(spec, scenario.model.training.precision, calibration_of(cluster))
    point, layers = plan_point(plan)
    model = model_constants(scenario.model)._replace(layers=layers)
    own = calibration_of(cluster)  # a machine whose rates were measured is not told from others of its GPU type
    name = f"{spec.name} of {cluster.name}" if own and own.gemm_efficiency else spec.name
    known = systems().get(cluster.name)
    stalls = bool(known and known.stall_gpus and plan.gpus >= known.stall_gpus)
    return Prepared(model, gpu, net, point, plan.stack, name, cluster.name, stalls)
