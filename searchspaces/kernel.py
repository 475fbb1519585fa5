"""The compiled search: price every layer key once, then score a cell's lattice exhaustively.

A unit of work is one micro-batch size of one cell. Units are independent and their results merge associatively (best,
counts, closest miss), so one thread, many threads or many processes give identical answers. The loops release the GIL;
threads share them out (`autotune.parallel`).
"""

from __future__ import annotations

from math import isnan
from typing import NamedTuple

import numpy as np

from costmodels._jit import jit
from costmodels.edges import EdgeCost, price_edges
from costmodels.groups import unreachable_group
from costmodels.iteration import finish_iteration, peak_memory, price_schedule, price_stages, price_sync
from costmodels.layer import LayerCost, LayerKey, price_layer
from costmodels.types import Gpu, Model, Network, Stack
from searchspaces.legality import (
    batch_reason,
    cell_reason,
    chunk_reason,
    grid_reason,
    order_reason,
    recompute_reason,
    sequence_parallel_reason,
    split_reason,
    zero_reason,
)
from searchspaces.rules import MEMORY, N_REASONS, OK, RAIL, TargetRules
from searchspaces.splits import make_point, split_layers

N_LAYER = len(LayerCost._fields)
N_EDGE = len(EdgeCost._fields)


class Table(NamedTuple):
    """Level-1 prices of all layer keys, as arrays of records with axes (key, micro-batch, expert-tensor, seq-parallel)."""

    dense: np.ndarray
    moe: np.ndarray
    edges: np.ndarray


class Hardware(NamedTuple):
    """Everything a search holds fixed."""

    model: Model
    gpu: Gpu
    net: Network
    stack: Stack
    rules: TargetRules
    gpus: int
    batch: int
    memory_limit_bytes: float


class AxisValues(NamedTuple):
    """Inner axes as arrays; the same order as `searchspaces.lattice.Axes`."""

    micro_batch: np.ndarray
    expert_tensor: np.ndarray
    seq_parallel: np.ndarray
    split: np.ndarray
    chunks: np.ndarray
    recompute: np.ndarray
    order: np.ndarray
    zero: np.ndarray


@jit
def fill_row(hw, T, C, E, X, b, sp, dense_row, moe_row, edge_row):
    """Price one layer key into table rows: dense layer, expert layer, edges."""
    key = LayerKey(T, C, E, X, b, sp)
    dense = price_layer(hw.model, hw.gpu, hw.net, hw.stack, key, 0)
    for i, value in enumerate(dense):
        dense_row[i] = value
    if hw.model.experts > 0:
        moe = price_layer(hw.model, hw.gpu, hw.net, hw.stack, key, 1)
        for i, value in enumerate(moe):
            moe_row[i] = value
    edges = price_edges(hw.model, hw.gpu, hw.net, hw.stack, T, C, E, X, b, sp)
    for i, value in enumerate(edges):
        edge_row[i] = value


@jit
def build_table(hw, keys, axes, dense, moe, edges):
    """Price all layer keys: `keys[k]` = (T, C, E); rows [k, b, x, sp]. Keys that no legal point uses stay zero."""
    for k in range(keys.shape[0]):
        T, C, E = keys[k, 0], keys[k, 1], keys[k, 2]
        if cell_reason(hw.model, hw.rules, hw.gpus, T, 1, C, E) != OK:
            continue
        for ib in range(axes.micro_batch.shape[0]):
            for ix in range(axes.expert_tensor.shape[0]):
                X = axes.expert_tensor[ix]
                if grid_reason(hw.model, hw.rules, hw.gpus, 1, E, X) != OK:
                    continue
                for isp in range(axes.seq_parallel.shape[0]):
                    sp = axes.seq_parallel[isp]
                    if sequence_parallel_reason(hw.model, hw.rules, T, C, sp) == OK:
                        fill_row(
                            hw, T, C, E, X, axes.micro_batch[ib], sp,
                            dense[k, ib, ix, isp], moe[k, ib, ix, isp], edges[k, ib, ix, isp],
                        )  # fmt: skip


@jit
def cell_bound_s(hw, T, P, C, E, axes, table, k):
    """A lower bound on the iteration time of every point of a cell: perfect sharing of forward and backward, no bubble.

    The heaviest stage works at least the mean over stages for each micro-batch, so m x mean is never beaten.
    """
    best = np.inf
    if cell_reason(hw.model, hw.rules, hw.gpus, T, P, C, E) != OK:
        return best
    data = hw.gpus // (T * P * C)
    moe_layers = 0
    if hw.model.experts > 0:
        moe_layers = (hw.model.layers - hw.model.dense_first + hw.model.moe_every - 1) // hw.model.moe_every
    for ib in range(axes.micro_batch.shape[0]):
        b = axes.micro_batch[ib]
        if batch_reason(hw.batch, b, data) != OK:
            continue
        m = hw.batch // (b * data)
        for ix in range(axes.expert_tensor.shape[0]):
            if grid_reason(hw.model, hw.rules, hw.gpus, P, E, axes.expert_tensor[ix]) != OK:
                continue
            for isp in range(axes.seq_parallel.shape[0]):
                if sequence_parallel_reason(hw.model, hw.rules, T, C, axes.seq_parallel[isp]) != OK:
                    continue
                d, x, e = table.dense[k, ib, ix, isp], table.moe[k, ib, ix, isp], table.edges[k, ib, ix, isp]
                work = (hw.model.layers - moe_layers) * (
                    d.forward_s + d.backward_s + d.tensor_fwd_s + d.tensor_bwd_s + d.context_fwd_s + d.context_bwd_s
                )
                work += moe_layers * (
                    x.forward_s + x.backward_s + x.tensor_fwd_s + x.tensor_bwd_s + x.context_fwd_s + x.context_bwd_s
                    + x.expert_fwd_s + x.expert_bwd_s
                )  # fmt: skip
                work += e.embed_fwd_s + e.embed_bwd_s + e.head_fwd_s + e.head_bwd_s
                best = min(best, m * work / P + hw.stack.iteration_s)
    return best


@jit
def bound_cells(hw, cells, key_of, axes, table, bounds):
    """Lower bounds of all cells."""
    for i in range(cells.shape[0]):
        bounds[i] = cell_bound_s(hw, cells[i, 0], cells[i, 1], cells[i, 2], cells[i, 3], axes, table, key_of[i])


@jit
def _score_chunk(hw, T, P, C, E, b, X, sp, split, v, base, axes, dense, moe, edges, sync, counts, best, miss):
    # All recompute modes, rank orders and sharding stages of one way to cut the pipeline. Stage times depend on the first
    # only, the schedule on the first two, gradient traffic on the last two: each is priced once where its inputs are known.
    n_order, n_zero = axes.order.shape[0], axes.zero.shape[0]
    sync[:, :, :] = np.nan
    for imode in range(axes.recompute.shape[0]):
        mode = axes.recompute[imode]
        reason = recompute_reason(hw.model, hw.rules, P, v, mode)
        if reason != OK:
            counts[reason] += n_order * n_zero
            continue
        point = make_point(hw.model.layers, hw.gpus, hw.batch, T, P, C, E, b, X, sp, split, v, 0, mode, 0)
        stages = price_stages(hw.model, hw.gpu, hw.stack, point, dense, moe, edges)
        for iorder in range(n_order):
            point = make_point(hw.model.layers, hw.gpus, hw.batch, T, P, C, E, b, X, sp, split, v, 0, mode, axes.order[iorder])
            reason = order_reason(hw.model, hw.rules, point)
            if reason == OK and unreachable_group(hw.net, point, hw.model.experts, hw.model.tied) != 0:
                reason = RAIL
            if reason != OK:
                counts[reason] += n_zero
                continue
            crossing, bubble = price_schedule(hw.model, hw.gpu, hw.net, hw.stack, point, edges, stages)
            for izero in range(n_zero):
                zero = axes.zero[izero]
                index = ((base * axes.recompute.shape[0] + imode) * n_order + iorder) * n_zero + izero
                reason = zero_reason(hw.rules, point, zero)
                if reason == OK:
                    point = make_point(
                        hw.model.layers, hw.gpus, hw.batch, T, P, C, E, b, X, sp, split, v, zero, mode, axes.order[iorder]
                    )
                    peak = peak_memory(hw.model, hw.stack, point, dense, moe, edges, stages)
                    over = peak - hw.memory_limit_bytes
                    if over > 0.0:
                        reason = MEMORY
                        if over < miss[0]:
                            miss[0], miss[1] = over, index
                    else:
                        if isnan(sync[iorder, izero, 0]):
                            sync[iorder, izero, 0], sync[iorder, izero, 1] = price_sync(hw.net, hw.gpu, hw.stack, point, stages)
                        it = finish_iteration(
                            hw.model, hw.gpu, hw.net, hw.stack, point, edges, stages, crossing, bubble, peak,
                            sync[iorder, izero, 0], sync[iorder, izero, 1],
                        )  # fmt: skip
                        if it.time_s < best[0]:
                            best[0], best[1] = it.time_s, index
                counts[reason] += 1


@jit
def score_unit(hw, T, P, C, E, ib, axes, table, k, sync, counts, best, miss):
    """Score one micro-batch size of one cell; `sync` is working space of (order, zero, 2).

    `counts[reason]` counts every point (0 = scored), `best` = (seconds, index), `miss` = (bytes over the limit, index) of
    the point that came closest to fitting.
    """
    n_x, n_sp, n_split = axes.expert_tensor.shape[0], axes.seq_parallel.shape[0], axes.split.shape[0]
    n_v = axes.chunks.shape[0]
    per_v = axes.recompute.shape[0] * axes.order.shape[0] * axes.zero.shape[0]
    per_split = per_v * n_v
    per_sp = per_split * n_split
    per_x = per_sp * n_sp
    model, rules = hw.model, hw.rules
    reason = cell_reason(model, rules, hw.gpus, T, P, C, E)
    data = max(1, hw.gpus // (T * P * C))
    b = axes.micro_batch[ib]
    if reason == OK:
        reason = batch_reason(hw.batch, b, data)
    if reason != OK:
        counts[reason] += per_x * n_x
        return
    m = hw.batch // (b * data)
    for block in range(n_x * n_sp * n_split):
        ix = block // (n_sp * n_split)
        isp = block // n_split % n_sp
        X, sp = axes.expert_tensor[ix], axes.seq_parallel[isp]
        split = axes.split[block % n_split]
        first, last = split_layers(model.layers, P, split)
        reason = grid_reason(model, rules, hw.gpus, P, E, X)
        if reason == OK:
            reason = sequence_parallel_reason(model, rules, T, C, sp)
        if reason == OK:
            reason = split_reason(rules, first)
        if reason != OK:
            counts[reason] += per_split
            continue
        base = (ib * n_x * n_sp * n_split + block) * n_v
        for iv in range(n_v):
            v = axes.chunks[iv]
            reason = chunk_reason(model, rules, P, v, m, first, last)
            if reason != OK:
                counts[reason] += per_v
                continue
            _score_chunk(
                hw, T, P, C, E, b, X, sp, split, v, base + iv, axes, table.dense[k, ib, ix, isp], table.moe[k, ib, ix, isp],
                table.edges[k, ib, ix, isp], sync, counts, best, miss,
            )  # fmt: skip


@jit
def score_cells(hw, cells, key_of, axes, table, counts, best, miss):
    """Score all units of `cells`; results per unit (cell x micro-batch): counts, best, miss."""
    n_b = axes.micro_batch.shape[0]
    sync = np.empty((axes.order.shape[0], axes.zero.shape[0], 2))
    for unit in range(cells.shape[0] * n_b):
        i = unit // n_b
        ib = unit - i * n_b
        score_unit(
            hw, cells[i, 0], cells[i, 1], cells[i, 2], cells[i, 3], ib, axes, table, key_of[i], sync, counts[unit],
            best[unit], miss[unit],
        )  # fmt: skip


def empty_results(units: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Result arrays for `score_cells`: counts, best and miss.

    >>> counts, best, miss = empty_results(3)
    >>> counts.shape[0], best[0].tolist()
    (3, [inf, -1.0])
    """
    counts = np.zeros((units, N_REASONS), dtype=np.int64)
    best = np.empty((units, 2))
    best[:, 0], best[:, 1] = np.inf, -1.0
    return counts, best, best.copy()
