"""Traffic by kind and by pair."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autotune.reproduce.settings import MEGATRON_RUNS, TRAFFIC_OPTIONS
from autotune.reproduce.traffic_values import run_edges, run_traffic
from costmodels.rail_only_paper import PaperModel, PaperOptions, PaperStrategy
from costmodels.rail_only_traffic import (
    binned_pair_bytes,
    data_bytes,
    pair_edges,
    silent_pair_fraction,
    traffic_per_gpu,
)

SMALL = PaperModel(12, 64, 8, 16, 100, 1e6)
STRATEGIES = [PaperStrategy(t, p, d, v, 1) for t, p, d, v in ((1, 1, 1, 1), (4, 1, 2, 1), (2, 2, 3, 3), (4, 6, 2, 1), (2, 4, 1, 3))]


@pytest.mark.parametrize("mesh", [0, 1])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pairs_add_up_to_the_traffic_of_all_gpus(strategy: PaperStrategy, mesh: int) -> None:
    options = PaperOptions()
    gpus = strategy.tensor * strategy.pipeline * strategy.data
    edges = pair_edges(SMALL, strategy, 12, options, mesh)
    by_kind = [edges.sent_bytes[edges.kind == kind].sum() for kind in range(3)]
    assert by_kind == pytest.approx([gpus * sent for sent in traffic_per_gpu(SMALL, strategy, 12, options)], rel=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pairs_stay_in_their_groups(strategy: PaperStrategy) -> None:
    t, d, p = strategy.tensor, strategy.data, strategy.pipeline
    edges = pair_edges(SMALL, strategy, 12, PaperOptions(), 1)
    for source, target, kind, _ in zip(*edges, strict=True):
        (i, j, k), (i2, j2, k2) = ((g % t, g // t % d, g // (t * d)) for g in (source, target))
        assert 0 <= target < t * d * p
        assert source != target
        differs = [(i != i2), (j != j2), (k != k2)]
        assert differs == [kind == 0, kind == 1, kind == 2]


@pytest.mark.parametrize("run", MEGATRON_RUNS, ids=lambda run: run.name)
@pytest.mark.parametrize("mesh", [False, True])
def test_silent_pairs_closed_form(run, mesh: bool) -> None:
    """Partners of a GPU: its tensor group (or ring neighbour), a data neighbour and two pipeline neighbours."""
    partners = (run.tensor - 1 if mesh else 1) + 1 + 2
    assert silent_pair_fraction(run_edges(run, mesh), run.gpus) == pytest.approx(1 - partners / (run.gpus - 1), rel=1e-12)


@pytest.mark.parametrize(("chunks", "sharded", "collectives"), list(itertools.product([0, 1], [0, 1], [8.0, 12.0])))
def test_tensor_share_holds_however_it_is_counted(chunks: int, sharded: int, collectives: float) -> None:
    options = PaperOptions(pipeline_sharded=sharded, tensor_collectives=collectives)
    for run in MEGATRON_RUNS:
        traffic = traffic_per_gpu(run.model, run.strategy(chunks), run.batch, options)
        assert 0.75 < traffic.tensor / sum(traffic) < 0.985


def test_no_group_no_bytes() -> None:
    traffic = traffic_per_gpu(SMALL, PaperStrategy(1, 1, 1, 1, 1), 12, PaperOptions())
    assert traffic == (0, 0, 0)


def test_down_sampling_keeps_the_total() -> None:
    run = MEGATRON_RUNS[-1]
    edges = run_edges(run, True)
    full, coarse = edges.sent_bytes.sum(), binned_pair_bytes(edges, run.gpus, 64)
    assert coarse.sum() == pytest.approx(full, rel=1e-12)
    assert full == pytest.approx(run.gpus * sum(run_traffic(run)), rel=1e-12)
    # One block is one pipeline stage: it talks to itself and its two neighbours, the last with the first.
    talking = np.argwhere(coarse > 0)
    assert all((a - b) % 64 in (0, 1, 63) for a, b in talking)


def test_data_bytes_match_a_ring() -> None:
    """A ring all-reduce of d members sends each of d blocks 2 (d-1) times round, one block per step."""
    strategy = PaperStrategy(2, 2, 6, 1, 1)
    block = 2 * SMALL.parameters / 4 / 6
    assert data_bytes(SMALL, strategy, TRAFFIC_OPTIONS) == pytest.approx(2 * 5 * block, rel=1e-12)
