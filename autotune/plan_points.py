"""Between lattice points and named plans."""

from __future__ import annotations

from autotune.plan import RANK_ORDERS, RECOMPUTE, Plan
from autotune.setting import Setting
from costmodels.stages import stage_layer_count
from costmodels.types import Point
from searchspaces.splits import layers_per_chunk


def plan_of(point: Point, layers: int, setting: Setting, stack: str) -> Plan:
    """The plan that a point stands for on one hardware setting.

    >>> from costmodels.examples import POINT
    >>> s = Setting(8, 8, 450.0, 400.0, "rail-only", 16)
    >>> plan_of(POINT._replace(tensor=2, pipeline=4, micro_batches=16), 8, s, "megatron-core").stage_layers
    (2, 2, 2, 2)
    """
    stages = tuple(
        int(stage_layer_count(layers, point.pipeline, point.first_layers, point.last_layers, i)) for i in range(point.pipeline)
    )
    partial = None
    if point.recompute == 2 and point.recompute_layers < max(-(-max(stages) // point.chunks), layers_per_chunk(layers, point.pipeline, point.chunks)):
        partial = int(point.recompute_layers)
    return Plan(
        tensor_parallel=int(point.tensor),
        pipeline_parallel=int(point.pipeline),
        data_parallel=int(point.data),
        context_parallel=int(point.context),
        expert_parallel=int(point.expert),
        expert_tensor_parallel=int(point.expert_tensor),
        virtual_stages=int(point.chunks),
        micro_batch_size=int(point.micro_batch),
        global_batch_size=setting.global_batch_size,
        sequence_parallel=bool(point.seq_parallel),
        recompute=RECOMPUTE[point.recompute],
        recompute_num_layers=partial,
        zero_stage=int(point.zero),
        stage_layers=stages,
        rank_order=RANK_ORDERS[point.order],
        hb_domain_size=setting.hb_domain_size,
        nic_Gbps=float(setting.nic_Gbps),
        fabric=setting.fabric,
        stack=stack,
    )


def plan_point(plan: Plan) -> tuple[Point, int]:
    """(point, layers it stands for). A split with unequal middle stages is priced with its largest middle stage throughout.

    >>> plan_point(Plan(pipeline_parallel=4, stage_layers=(7, 8, 7, 7)))[1]
    30
    """
    P, layers = plan.pipeline_parallel, plan.stage_layers
    middle = max(layers[1:-1], default=0)
    total = layers[0] + middle * (P - 2) + layers[-1] if P > 1 else layers[0]
    even = len(set(layers)) == 1
    per_chunk = -(-max(layers) // plan.virtual_stages)
    recomputed = 0
    if plan.recompute == "full":
        recomputed = per_chunk if plan.recompute_num_layers is None else min(per_chunk, plan.recompute_num_layers)
    return Point(
        plan.tensor_parallel, P, plan.data_parallel, plan.context_parallel, plan.expert_parallel, plan.expert_tensor_parallel,
        plan.virtual_stages, plan.micro_batch_size, plan.micro_batches, int(plan.sequence_parallel and plan.tensor_parallel > 1),
        RECOMPUTE.index(plan.recompute), recomputed, plan.zero_stage,
        -1 if even else layers[0], -1 if even else layers[-1], RANK_ORDERS.index(plan.rank_order),
    ), total  # fmt: skip
