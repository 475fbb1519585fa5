"""Bytes each GPU sends in an iteration, by kind, and which pairs of GPUs exchange them, as the Rail-only paper counts.

Ranks are laid out tensor first, then data, then pipeline. Symbols as in `costmodels.rail_only_paper`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from costmodels._jit import jit
from costmodels.rail_only_paper import (
    PaperModel,
    PaperOptions,
    PaperStrategy,
    activation_bytes,
    data_group_in_domain,
    micro_batches,
    nic_byte_share,
)

TENSOR, DATA, PIPELINE = 0, 1, 2  # kinds of traffic, as in the edge list


class PaperTraffic(NamedTuple):
    """Bytes one GPU sends in one iteration, averaged over the stages."""

    tensor: float
    data: float
    pipeline: float


class PaperEdges(NamedTuple):
    """Directed pairs of GPUs that exchange bytes in an iteration; a pair appears once per kind."""

    source: np.ndarray
    target: np.ndarray
    kind: np.ndarray
    sent_bytes: np.ndarray


@jit
def tensor_bytes(model: PaperModel, strategy: PaperStrategy, batch: int, options: PaperOptions) -> float:
    """Bytes one GPU sends for its tensor group: n_c collectives per layer and micro-batch of (t-1)/t of the tensor.

    >>> gpt_1t = PaperModel(128, 25600, 160, 2048, 51200, 1008e9)
    >>> round(tensor_bytes(gpt_1t, PaperStrategy(8, 64, 6, 2, 1), 3072, PaperOptions()) / 1e9, 1)  # 8*2*512*.1049*7/8
    751.6
    """
    passes = options.tensor_collectives * (model.layers / strategy.pipeline) * micro_batches(batch, strategy)
    whole = activation_bytes(model, strategy.micro_batch, options.element_bytes)
    return passes * whole * (strategy.tensor - 1.0) / strategy.tensor


@jit
def data_bytes(model: PaperModel, strategy: PaperStrategy, options: PaperOptions) -> float:
    """Bytes one GPU sends for its data-parallel group: 2 (d-1)/d of its gradients.

    >>> gpt_1t = PaperModel(128, 25600, 160, 2048, 51200, 1008e9)
    >>> data_bytes(gpt_1t, PaperStrategy(8, 64, 6, 2, 1), PaperOptions()) / 1e9  # 2*5/6*2*1008/512
    6.5625
    """
    gradients = options.gradient_bytes * model.parameters / (strategy.pipeline * strategy.tensor)
    return 2.0 * (strategy.data - 1.0) / strategy.data * gradients


@jit
def hop_bytes(model: PaperModel, strategy: PaperStrategy, batch: int, options: PaperOptions) -> float:
    """Bytes one GPU sends over one chunk boundary, in one direction, in an iteration.

    >>> gpt_1t = PaperModel(128, 25600, 160, 2048, 51200, 1008e9)
    >>> round(hop_bytes(gpt_1t, PaperStrategy(8, 64, 6, 1, 1), 3072, PaperOptions()) / 1e9, 2)  # 512*.1049/8
    6.71
    """
    message = activation_bytes(model, strategy.micro_batch, options.element_bytes)
    if options.pipeline_sharded == 1:
        message = message / strategy.tensor
    return micro_batches(batch, strategy) * message


@jit
def traffic_per_gpu(model: PaperModel, strategy: PaperStrategy, batch: int, options: PaperOptions) -> PaperTraffic:
    """Bytes a GPU sends in an iteration. p v chunks in a row have p v - 1 boundaries, crossed once each way.

    >>> gpt_1t, options = PaperModel(128, 25600, 160, 2048, 51200, 1008e9), PaperOptions(pipeline_sharded=0)
    >>> traffic = traffic_per_gpu(gpt_1t, PaperStrategy(8, 64, 6, 2, 1), 3072, options)
    >>> [round(100 * kind / sum(traffic), 1) for kind in traffic]  # 751.6, 6.6 and 2*127/64*53.7 = 213.1 GB
    [77.4, 0.7, 21.9]
    """
    boundaries = (strategy.pipeline * strategy.chunks - 1.0) / strategy.pipeline
    return PaperTraffic(
        tensor_bytes(model, strategy, batch, options),
        data_bytes(model, strategy, options),
        2.0 * boundaries * hop_bytes(model, strategy, batch, options),
    )


@jit
def data_nic_share(model: PaperModel, strategy: PaperStrategy, batch: int, hb_size: int, options: PaperOptions) -> float:
    """Data-parallel bytes that go through NICs, as a fraction of all bytes.

    >>> gpt_1t = PaperModel(128, 25600, 160, 2048, 51200, 1008e9)
    >>> share = data_nic_share(gpt_1t, PaperStrategy(8, 8, 64, 16, 1), 256, 256, PaperOptions(pipeline_sharded=0))
    >>> round(100 * share, 2)
    0.8
    """
    traffic = traffic_per_gpu(model, strategy, batch, options)
    x = data_group_in_domain(strategy, hb_size)
    return traffic.data * nic_byte_share(x, strategy.data / x) / (traffic.tensor + traffic.data + traffic.pipeline)


@jit
def all_to_all_share(
    layers: int, hidden: int, tokens_per_gpu: float, gpus: int, shared_parameters: float, capacity: float, element_bytes: float
) -> float:
    """All-to-all bytes of a mixture of experts as a fraction of all bytes, experts spread over all GPUs.

    Each of `layers` expert layers sends every token out and back, forward and backward; `shared_parameters`, which all
    GPUs hold, are all-reduced. Both leave (N-1)/N of the bytes to other GPUs, which cancels.

    >>> round(all_to_all_share(12, 2048, 8192, 128, 1.3e9, 1.0, 2.0), 4)  # 1.611 / (1.611 + 5.2) GB
    0.2365
    """
    remote = (gpus - 1.0) / gpus
    exchanged = 4.0 * layers * tokens_per_gpu * capacity * element_bytes * hidden * remote
    reduced = 2.0 * element_bytes * shared_parameters * remote
    return exchanged / (exchanged + reduced)


@jit
def _count_edges(strategy: PaperStrategy, tensor_mesh: int) -> int:
    """Room for the edge list: at most t-1 (or 1) tensor, 1 data and 2 pipeline partners per GPU."""
    gpus = strategy.tensor * strategy.pipeline * strategy.data
    return gpus * ((strategy.tensor - 1 if tensor_mesh == 1 else 1) + 1 + 2)


@jit
def pair_edges(
    model: PaperModel, strategy: PaperStrategy, batch: int, options: PaperOptions, tensor_mesh: int
) -> PaperEdges:
    """The pairs of GPUs that exchange bytes, directed, with what the first sends the second in one iteration.

    Data groups are rings in one direction. Tensor groups are rings, or with `tensor_mesh` every member sends to every
    other. With chunks, the last stage feeds the first.

    >>> tiny, options = PaperModel(2, 4, 1, 2, 8, 100.0), PaperOptions()
    >>> edges = pair_edges(tiny, PaperStrategy(2, 2, 1, 1, 1), 1, options, 0)  # GPUs 0, 1: stage 0; 2, 3: stage 1
    >>> [(int(s), int(t), int(k), float(b)) for s, t, k, b in zip(*edges) if s == 0]
    [(0, 1, 0, 64.0), (0, 2, 2, 8.0)]
    """
    t, d, p, v = strategy.tensor, strategy.data, strategy.pipeline, strategy.chunks
    room = _count_edges(strategy, tensor_mesh)
    source, target = np.empty(room, np.int64), np.empty(room, np.int64)
    kind, sent = np.empty(room, np.int64), np.empty(room, np.float64)
    tensor, data = tensor_bytes(model, strategy, batch, options), data_bytes(model, strategy, options)
    hop = hop_bytes(model, strategy, batch, options)
    n = 0
    for gpu in range(t * d * p):
        i, j, k = gpu % t, gpu // t % d, gpu // (t * d)
        stage, peers = k * t * d, (t if tensor_mesh == 1 else min(t, 2))
        for step in range(1, peers):
            source[n], target[n], kind[n] = gpu, stage + j * t + (i + step) % t, TENSOR
            sent[n] = tensor / (peers - 1)
            n += 1
        if d > 1:
            source[n], target[n], kind[n], sent[n] = gpu, stage + (j + 1) % d * t + i, DATA, data
            n += 1
        for way in (1, -1):  # activations to the next stage, gradients to the one before
            crossings = v if 0 <= k + way < p else v - 1
            if p > 1 and crossings > 0:
                source[n], target[n], kind[n] = gpu, (k + way) % p * t * d + j * t + i, PIPELINE
                sent[n] = hop * crossings
                n += 1
    return PaperEdges(source[:n], target[:n], kind[:n], sent[:n])


def silent_pair_fraction(edges: PaperEdges, gpus: int) -> float:
    """Fraction of the N (N-1) ordered pairs of GPUs that exchange nothing.

    >>> tiny = PaperModel(2, 4, 1, 2, 8, 100.0)
    >>> silent_pair_fraction(pair_edges(tiny, PaperStrategy(2, 2, 1, 1, 1), 1, PaperOptions(), 0), 4)  # 8 of 12 talk
    0.33333333333333337
    """
    talking = np.unique(edges.source * gpus + edges.target).size
    return 1.0 - talking / (gpus * (gpus - 1.0))


def binned_pair_bytes(edges: PaperEdges, gpus: int, bins: int) -> np.ndarray:
    """Bytes between blocks of GPUs, source by target: a down-sampled traffic matrix that keeps the total.

    >>> tiny = PaperModel(2, 4, 1, 2, 8, 100.0)
    >>> binned_pair_bytes(pair_edges(tiny, PaperStrategy(2, 2, 1, 1, 1), 1, PaperOptions(), 0), 4, 2)
    array([[128.,  16.],
           [ 16., 128.]])
    """
    matrix = np.zeros((bins, bins))
    np.add.at(matrix, (edges.source * bins // gpus, edges.target * bins // gpus), edges.sent_bytes)
    return matrix
