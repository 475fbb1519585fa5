"""Memory of one GPU of one pipeline stage at its peak."""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.edges import EdgeCost
from costmodels.groups import expert_data_size
from costmodels.layer import LayerCost
from costmodels.pipeline import in_flight
from costmodels.stages import recomputed_share, stage_layer_count, stage_moe_layers, stage_parameters
from costmodels.types import Model, Point, Stack, StageMemory


@jit
def memory_total(memory: StageMemory) -> float:
    """Sum of the parts.

    >>> from costmodels.types import StageMemory
    >>> memory_total(StageMemory(1., 2., 3., 4., 5., 6., 7.))
    28.0
    """
    return (
        memory.weights + memory.gradients + memory.optimizer + memory.activations + memory.logits + memory.buffers + memory.reserve
    )


@jit
def layer_activations(cost: LayerCost, point: Point, share: float) -> float:
    """Bytes one layer keeps per micro-batch, averaged over recomputed and kept layers."""
    if point.recompute == 1:
        return cost.act_selective_bytes
    return share * cost.act_full_bytes + (1.0 - share) * cost.act_none_bytes


@jit
def working_set(cost: LayerCost, point: Point) -> float:
    """Bytes alive while one recomputed layer is run again."""
    if point.recompute == 2:
        return cost.act_none_bytes
    if point.recompute == 1:
        return cost.act_none_bytes - cost.act_selective_bytes
    return 0.0


@jit
def dynamic_bytes(
    model: Model, stack: Stack, point: Point, dense: LayerCost, moe: LayerCost, edges: EdgeCost, stage: int
) -> tuple[float, float, float]:
    """(activations, logits, temporaries) of one stage: what does not depend on the sharding of the states.

    Activations are held for every micro-batch in flight, and one recomputed layer is alive in full. Temporaries are the
    weight gradients of head and embedding before they are added up, and what a stack copies of the hidden state.
    """
    count = stage_layer_count(model.layers, point.pipeline, point.first_layers, point.last_layers, stage)
    n_moe = 1.0 * stage_moe_layers(model, point, stage, count)
    n_dense = count - n_moe
    last = stage == point.pipeline - 1
    share = recomputed_share(point, count)
    if last and model.experts > 0:
        n_moe += edges.mtp_layers
    elif last:
        n_dense += edges.mtp_layers
    layers = n_dense * layer_activations(dense, point, share) + n_moe * layer_activations(moe, point, share)
    temporaries = edges.hidden_temp_bytes
    logits = 0.0
    working = stack.working_copies * (working_set(moe, point) if n_moe > 0 else working_set(dense, point))
    if stage == 0:
        layers += edges.embed_act_bytes
        if point.pipeline > 1:  # the embedding's comes after the layers of its micro-batch: their working set is gone
            temporaries += max(0.0, edges.head_temp_bytes - working)
    if last:
        logits = (1.0 + edges.mtp_layers) * edges.logits_bytes
        if point.micro_batches > 1:
            logits += edges.logits_kept_bytes
        temporaries += edges.head_temp_bytes
    activations = in_flight(point.pipeline, point.chunks, point.micro_batches, stage) * layers
    activations += working
    return activations, logits, temporaries


@jit
def state_bytes(
    stack: Stack, point: Point, params: float, expert: float, layer_params: float, edge_params: float
) -> tuple[float, float, float, float]:
    """(weights, gradients, optimizer, buffers) of a stage with `params` dense and `expert` expert parameters.

    Each is divided by the sharding of the ZeRO stage (Rajbhandari et al. 2020, arXiv 1910.02054), experts over their own
    group. Buffers are gradient buckets, or under ZeRO 3 two gathered layers and the gathered embedding or head.

    >>> from costmodels.examples import MEGATRON_2021, POINT
    >>> state_bytes(MEGATRON_2021, POINT._replace(data=4, zero=1), 1e9, 0.0, 1e8, 1e8)
    (2000000000.0, 4000000000.0, 3000000000.0, 0.0)
    """
    both = params + expert
    split = params / (point.data * point.context) + expert / max(1, expert_data_size(point))
    weights = stack.weight_memory_bytes * (split if point.zero >= 3 else both)
    gradients = stack.grad_memory_bytes * (split if point.zero >= 2 else both)
    optimizer = stack.optimizer_memory_bytes * (split if point.zero >= 1 else both)
    buffers = 0.0
    if point.zero >= 3:
        buffers = 4.0 * layer_params + 2.0 * edge_params
    elif point.data * point.context > 1:
        buffers = stack.bucket_memory_bytes * both
    return weights, gradients, optimizer, buffers


@jit
def gathered_parameters(dense: LayerCost, moe: LayerCost, edges: EdgeCost) -> tuple[float, float]:
    """(largest layer, larger of embedding and head): what ZeRO 3 gathers at once."""
    return max(dense.dense_params, moe.dense_params + moe.expert_params), max(edges.embed_params, edges.head_params)


@jit
def stage_memory(
    model: Model, stack: Stack, point: Point, dense: LayerCost, moe: LayerCost, edges: EdgeCost, stage: int
) -> StageMemory:
    """Peak bytes of one stage, by what they hold."""
    count = stage_layer_count(model.layers, point.pipeline, point.first_layers, point.last_layers, stage)
    n_moe = 1.0 * stage_moe_layers(model, point, stage, count)
    params, expert = stage_parameters(model, point, dense, moe, edges, stage, count, n_moe)
    layer, edge = gathered_parameters(dense, moe, edges)
    weights, gradients, optimizer, buffers = state_bytes(stack, point, params, expert, layer, edge)
    activations, logits, temporaries = dynamic_bytes(model, stack, point, dense, moe, edges, stage)
    reserve = stack.reserve_bytes + stack.fragmentation * (activations + logits + temporaries + buffers)
    return StageMemory(weights, gradients, optimizer, activations, logits, temporaries + buffers, reserve)
