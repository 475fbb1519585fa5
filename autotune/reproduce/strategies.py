"""The paper's strategy search: every way to split a model on a cluster, priced by the paper's own model.

The space is wider than what can be launched: no memory limit and, unless asked, no rule on micro-batches and stages.
"""

from __future__ import annotations

from typing import NamedTuple

from costmodels._jit import jit
from costmodels.rail_only_paper import (
    PaperModel,
    PaperOptions,
    PaperStrategy,
    PaperSystem,
    iteration_time_s,
    micro_batches,
)


class SearchLimits(NamedTuple):
    """Limits of the strategy space; the defaults are the paper's, which has none of these."""

    largest_tensor: int = 0  # 0: up to the number of heads
    interleave: int = 1  # 0: one chunk per stage
    whole_rounds: int = 0  # 1: micro-batches must be a multiple of the stages


class BestStrategy(NamedTuple):
    """The fastest strategy, its iteration time in seconds, and how many were priced."""

    strategy: PaperStrategy
    time_s: float
    priced: int


@jit
def _better(time_s: float, best_s: float) -> bool:
    # Equal times up to rounding keep the earlier strategy, so the winner does not hang on the last bit.
    return time_s < best_s * (1.0 - 1e-12)


@jit
def _best_micro_batch_and_chunks(
    model: PaperModel,
    system: PaperSystem,
    batch: int,
    options: PaperOptions,
    limits: SearchLimits,
    best: BestStrategy,
    tensor: int,
    pipeline: int,
) -> BestStrategy:
    data = system.gpus // (tensor * pipeline)
    share, stage_layers = batch // data, model.layers // pipeline
    strategy, time_s, priced = best
    for micro_batch in range(1, share + 1):
        if share % micro_batch != 0:
            continue
        for chunks in range(1, stage_layers + 1):
            if stage_layers % chunks != 0 or (limits.interleave == 0 and chunks > 1) or (pipeline == 1 and chunks > 1):
                continue
            candidate = PaperStrategy(tensor, pipeline, data, chunks, micro_batch)
            if limits.whole_rounds == 1 and micro_batches(batch, candidate) % pipeline != 0:
                continue
            priced += 1
            seconds = iteration_time_s(model, system, candidate, batch, options)
            if _better(seconds, time_s):
                strategy, time_s = candidate, seconds
    return BestStrategy(strategy, time_s, priced)


@jit
def best_strategy(
    model: PaperModel, system: PaperSystem, batch: int, options: PaperOptions, limits: SearchLimits
) -> BestStrategy:
    """The fastest strategy: t a power of two up to the heads, p | L, d = N/(p t) with d | B, b | B/d, v | L/p.

    The time is infinite when no strategy divides evenly.

    >>> gpt = PaperModel(80, 12288, 96, 2048, 51200, 145.6e9)
    >>> h100 = PaperSystem(32768, 256, 450e9, 50e9, 989e12, 0.5)
    >>> best = best_strategy(gpt, h100, 1024, PaperOptions(), SearchLimits())
    >>> best.strategy, round(best.time_s, 3)
    (PaperStrategy(tensor=16, pipeline=4, data=512, chunks=20, micro_batch=1), 0.233)
    """
    best = BestStrategy(PaperStrategy(0, 0, 0, 0, 0), float("inf"), 0)
    tensor = 1
    largest = model.heads if limits.largest_tensor == 0 else min(model.heads, limits.largest_tensor)
    while tensor <= largest:
        for pipeline in range(1, model.layers + 1):
            if model.layers % pipeline != 0 or system.gpus % (tensor * pipeline) != 0:
                continue
            if batch % (system.gpus // (tensor * pipeline)) == 0:
                best = _best_micro_batch_and_chunks(model, system, batch, options, limits, best, tensor, pipeline)
        tensor *= 2
    return best
