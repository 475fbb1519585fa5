"""Iteration time on a rail-only network, as the Rail-only paper models it.

"Rail-only: A Low-Cost High-Performance Network for Training LLMs with Trillion Parameters" (arXiv 2307.12169). This is a
small closed-form model kept apart from the planner's own: one efficiency for all kernels, no overlap of compute and
communication, no memory limit. The collectives and the cost table are determined by the paper's text; the parts of the
iteration that its text leaves open are the fields of `PaperOptions`, whose defaults match its published figures best.

Symbols: N GPUs, K GPUs in one high-bandwidth (HB) domain, so N/K domains and K rails; p, t, d pipeline, tensor and data
degrees, p t d = N; v model chunks per stage; B global batch and b micro-batch in sequences, m = B/(d b) micro-batches;
L layers, h hidden, a heads, s sequence, V vocabulary, P parameters; a communicator has x members in each of y domains.
Ranks are laid out tensor first, then data, then pipeline, so a rank's place in its domain is its rail.
Bandwidth is per GPU and one direction.
"""

from __future__ import annotations

from typing import NamedTuple

from costmodels._jit import jit


class PaperModel(NamedTuple):
    """A GPT as the paper counts it."""

    layers: int
    hidden: int
    heads: int
    seq: int
    vocab: int
    parameters: float


class PaperSystem(NamedTuple):
    """A cluster: N GPUs in HB domains of K, one efficiency for all kernels."""

    gpus: int
    hb_size: int
    hb_Bps: float
    nic_Bps: float
    peak_flops: float
    efficiency: float


class PaperOptions(NamedTuple):
    """What the paper's text leaves open, and how it is counted here."""

    flops_factor: float = 96.0  # 96 counts full recomputation, 72 none
    tensor_collectives: float = 8.0  # per layer and micro-batch: 4 all-gathers and 4 reduce-scatters; 12 with recomputation
    element_bytes: float = 2.0  # activations on the wire
    gradient_bytes: float = 2.0
    pipeline_sharded: int = 1  # 1: stage-to-stage tensors are split over the tensor group
    pipeline_in_steady: int = 0  # 1: stage-to-stage transfers also delay the steady phase


class PaperStrategy(NamedTuple):
    """How the model is split."""

    tensor: int
    pipeline: int
    data: int
    chunks: int
    micro_batch: int


class PaperTime(NamedTuple):
    """Seconds of one iteration: pipeline bubble, the last stage's own work, and the gradient all-reduce."""

    bubble: float
    last: float
    sync: float


@jit
def all_gather_s(full_bytes: float, x: float, y: float, hb_Bps: float, nic_Bps: float) -> float:
    """Seconds to gather `full_bytes` over x members in each of y domains; reduce-scatter takes the same.

    First along the rail: each member receives y-1 blocks of D/(xy) through its NIC. Then inside the domain: each of x
    members holds D/x and receives x-1 such blocks.

    >>> round(all_gather_s(32e9, 8, 4, 450e9, 50e9), 4)  # 3*1e9/50e9 + 7*4e9/450e9
    0.1222
    >>> all_gather_s(32e9, 1, 1, 450e9, 50e9)
    0.0
    """
    return (y - 1.0) * full_bytes / (x * y * nic_Bps) + (x - 1.0) * full_bytes / (x * hb_Bps)


@jit
def all_reduce_s(full_bytes: float, x: float, y: float, hb_Bps: float, nic_Bps: float) -> float:
    """Seconds of an all-reduce: reduce-scatter in the domain, all-reduce on the rail, all-gather in the domain.

    >>> all_reduce_s(8e9, 8, 1, 100e9, 10e9)  # 2 * 7/8 * 8e9 / 100e9
    0.14
    """
    return 2.0 * all_gather_s(full_bytes, x, y, hb_Bps, nic_Bps)


@jit
def point_to_point_s(message_bytes: float, same_domain: bool, hb_Bps: float, nic_Bps: float) -> float:
    """Seconds of one message between two GPUs of a domain, or of a rail.

    >>> point_to_point_s(1e9, True, 100e9, 10e9), point_to_point_s(1e9, False, 100e9, 10e9)
    (0.01, 0.1)
    """
    return message_bytes / (hb_Bps if same_domain else nic_Bps)


@jit
def all_gather_ratio(x: float, y: float, bandwidth_ratio: float) -> float:
    """Hierarchical all-gather over the same group all inside one domain; `bandwidth_ratio` is R = C_F / C_S.

    1 + (R-1)(y-1)/(xy-1), never above 1 + (R-1)/x: it tends to 1 as the domain grows.

    >>> [round(all_gather_ratio(x, y, 9), 3) for x, y in ((8, 4), (32, 2), (256, 16))]
    [1.774, 1.127, 1.029]
    """
    return 1.0 if x * y <= 1.0 else 1.0 + (bandwidth_ratio - 1.0) * (y - 1.0) / (x * y - 1.0)


@jit
def nic_byte_share(x: float, y: float) -> float:
    """Share of a hierarchical collective's bytes that goes through NICs: (y-1)/(xy-1).

    >>> [round(100 * nic_byte_share(x, y), 2) for x, y in ((8, 4), (32, 2), (256, 16))]
    [9.68, 1.59, 0.37]
    """
    return 0.0 if x * y <= 1.0 else (y - 1.0) / (x * y - 1.0)


@jit
def all_to_all_s(gpu_bytes: float, gpus: int, hb_size: int, hb_Bps: float, nic_Bps: float, rail_only: bool) -> float:
    """Seconds of a uniform all-to-all of `gpu_bytes` per GPU.

    On a Clos, bytes for other domains leave through the NIC. On rail-only they first hop inside the domain to the GPU on
    the destination's rail. The two steps do not overlap.

    >>> round(all_to_all_s(64e9, 64, 8, 450e9, 50e9, False), 4)  # 56/64 * 64e9 / 50e9
    1.12
    >>> round(all_to_all_s(64e9, 64, 8, 450e9, 50e9, True), 4)   # + 7/8 * 64e9 / 450e9
    1.2444
    """
    between_domains = (gpus - hb_size) / gpus * gpu_bytes / nic_Bps
    if not rail_only:
        return between_domains
    return between_domains + (hb_size - 1.0) / hb_size * gpu_bytes / hb_Bps


@jit
def all_to_all_slow_down(hb_size: float, domains: float, hb_Bps: float, nic_Bps: float) -> float:
    """Extra time of an all-to-all on rail-only, as a fraction of its time on a Clos; more than one domain.

    (K-1)/K * y/(y-1) * C_S/C_F: exactly C_S/C_F when y = K, and near it when both are large.

    >>> round(all_to_all_slow_down(8, 8, 450e9, 50e9), 6), round(50 / 450, 6)
    (0.111111, 0.111111)
    """
    return (hb_size - 1.0) / hb_size * domains / (domains - 1.0) * nic_Bps / hb_Bps


@jit
def iteration_flops(model: PaperModel, batch: float, flops_factor: float) -> float:
    """FLOPs of one iteration over `batch` sequences (Narayanan et al., SC'21, with recomputation when the factor is 96).

    >>> round(iteration_flops(PaperModel(96, 12288, 96, 2048, 51200, 175e9), 1, 96) / 1e15, 3)  # one sequence of GPT-3
    2.937
    """
    h = float(model.hidden)
    shape = 1.0 + model.seq / (6.0 * h) + model.vocab / (16.0 * model.layers * h)
    return flops_factor * batch * model.seq * model.layers * h * h * shape


@jit
def activation_bytes(model: PaperModel, micro_batch: float, element_bytes: float) -> float:
    """Bytes of one layer's hidden states of a micro-batch, not split over the tensor group.

    >>> activation_bytes(PaperModel(128, 25600, 160, 2048, 51200, 1008e9), 1, 2)
    104857600.0
    """
    return 1.0 * element_bytes * model.seq * micro_batch * model.hidden


@jit
def micro_batches(batch: int, strategy: PaperStrategy) -> int:
    """Micro-batches of one pipeline: B/(d b).

    >>> micro_batches(3072, PaperStrategy(8, 64, 6, 1, 1))
    512
    """
    return batch // (strategy.data * strategy.micro_batch)


@jit
def compute_s(model: PaperModel, system: PaperSystem, strategy: PaperStrategy, batch: int, options: PaperOptions) -> float:
    """Compute seconds of one stage for one micro-batch, forward and backward.

    >>> model, system = PaperModel(96, 12288, 96, 2048, 51200, 175e9), PaperSystem(1024, 8, 300e9, 25e9, 312e12, 0.5)
    >>> round(compute_s(model, system, PaperStrategy(8, 8, 16, 1, 1), 1536, PaperOptions()), 4)  # 4.511e18/(1024*156e12)/96
    0.2942
    """
    busy = iteration_flops(model, batch, options.flops_factor) / (system.gpus * system.peak_flops * system.efficiency)
    return busy / micro_batches(batch, strategy)


@jit
def tensor_s(model: PaperModel, system: PaperSystem, strategy: PaperStrategy, options: PaperOptions) -> float:
    """Seconds of tensor-parallel collectives of one stage for one micro-batch.

    >>> model, system = PaperModel(96, 12288, 96, 2048, 51200, 175e9), PaperSystem(1024, 8, 300e9, 25e9, 312e12, 0.5)
    >>> round(tensor_s(model, system, PaperStrategy(8, 8, 16, 1, 1), PaperOptions()), 6)  # 8*12*(7/8*50331648/300e9)
    0.014093
    """
    x = min(strategy.tensor, system.hb_size)
    gather = all_gather_s(
        activation_bytes(model, strategy.micro_batch, options.element_bytes), x, strategy.tensor / x, system.hb_Bps, system.nic_Bps
    )
    return options.tensor_collectives * (model.layers / strategy.pipeline) * gather


@jit
def pipeline_s(model: PaperModel, system: PaperSystem, strategy: PaperStrategy, options: PaperOptions) -> float:
    """Seconds of stage-to-stage transfers of one stage for one micro-batch: an activation and a gradient per chunk.

    They go through the NIC unless a domain holds two whole stages (K >= 2 t d).

    >>> model, system = PaperModel(96, 12288, 96, 2048, 51200, 175e9), PaperSystem(1024, 8, 300e9, 25e9, 312e12, 0.5)
    >>> round(pipeline_s(model, system, PaperStrategy(8, 8, 16, 1, 1), PaperOptions()), 6)  # 2*50331648/8/25e9
    0.000503
    """
    if strategy.pipeline == 1:
        return 0.0
    message = activation_bytes(model, strategy.micro_batch, options.element_bytes)
    if options.pipeline_sharded == 1:
        message = message / strategy.tensor
    same_domain = system.hb_size >= 2 * strategy.tensor * strategy.data
    return 2.0 * strategy.chunks * point_to_point_s(message, same_domain, system.hb_Bps, system.nic_Bps)


@jit
def data_group_in_domain(strategy: PaperStrategy, hb_size: int) -> int:
    """Members of a data-parallel group inside one domain, the tensor group being placed first.

    >>> data_group_in_domain(PaperStrategy(8, 8, 64, 1, 1), 256), data_group_in_domain(PaperStrategy(16, 8, 64, 1, 1), 8)
    (32, 1)
    """
    return min(strategy.data, max(1, hb_size // strategy.tensor))


@jit
def sync_s(model: PaperModel, system: PaperSystem, strategy: PaperStrategy, options: PaperOptions) -> float:
    """Seconds of the gradient all-reduce of one GPU's P/(p t) parameters.

    >>> model, system = PaperModel(96, 12288, 96, 2048, 51200, 175e9), PaperSystem(1024, 8, 300e9, 25e9, 312e12, 0.5)
    >>> round(sync_s(model, system, PaperStrategy(8, 8, 16, 1, 1), PaperOptions()), 4)  # 2*15/16*2*175e9/64/25e9
    0.4102
    """
    gradients = options.gradient_bytes * model.parameters / (strategy.pipeline * strategy.tensor)
    x = data_group_in_domain(strategy, system.hb_size)
    return all_reduce_s(gradients, x, strategy.data / x, system.hb_Bps, system.nic_Bps)


@jit
def iteration_time(
    model: PaperModel, system: PaperSystem, strategy: PaperStrategy, batch: int, options: PaperOptions
) -> PaperTime:
    """The three serial parts of an iteration, in seconds; their sum is the iteration time.

    >>> model, system = PaperModel(96, 12288, 96, 2048, 51200, 175e9), PaperSystem(1024, 8, 300e9, 25e9, 312e12, 0.5)
    >>> time = iteration_time(model, system, PaperStrategy(8, 8, 16, 1, 1), 1536, PaperOptions())
    >>> round(time.bubble, 3), round(time.last, 3), round(time.sync, 3)  # 7*.30876, 96*.30825, .4102
    (2.161, 29.592, 0.41)
    """
    work = compute_s(model, system, strategy, batch, options) + tensor_s(model, system, strategy, options)
    transfer = pipeline_s(model, system, strategy, options)
    bubble = (strategy.pipeline - 1.0) / strategy.chunks * (work + transfer)
    steady = work + transfer if options.pipeline_in_steady == 1 else work
    return PaperTime(bubble, micro_batches(batch, strategy) * steady, sync_s(model, system, strategy, options))


@jit
def iteration_time_s(
    model: PaperModel, system: PaperSystem, strategy: PaperStrategy, batch: int, options: PaperOptions
) -> float:
    """Seconds of one iteration.

    >>> model, system = PaperModel(96, 12288, 96, 2048, 51200, 175e9), PaperSystem(1024, 8, 300e9, 25e9, 312e12, 0.5)
    >>> round(iteration_time_s(model, system, PaperStrategy(8, 8, 16, 1, 1), 1536, PaperOptions()), 3)
    32.163
    """
    time = iteration_time(model, system, strategy, batch, options)
    return time.bubble + time.last + time.sync


@jit
def hardware_utilisation(
    model: PaperModel, system: PaperSystem, strategy: PaperStrategy, batch: int, options: PaperOptions
) -> float:
    """Hardware FLOPs utilisation: FLOPs done, recomputation included, over what the GPUs could do in that time.

    >>> model, system = PaperModel(96, 12288, 96, 2048, 51200, 175e9), PaperSystem(1024, 8, 300e9, 25e9, 312e12, 0.5)
    >>> round(hardware_utilisation(model, system, PaperStrategy(8, 8, 16, 1, 1), 1536, PaperOptions()), 3)
    0.439
    """
    seconds = iteration_time_s(model, system, strategy, batch, options)
    return iteration_flops(model, batch, options.flops_factor) / (system.gpus * system.peak_flops * seconds)
