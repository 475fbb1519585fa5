"""The search equals brute force: best plan and time, best of every cell, counts by reason, closest miss."""

from __future__ import annotations

from functools import cache

import brute
import numpy as np
import pytest
from cases import cluster_spec, hardware_of, lattice_of, model_spec, setting_of

from autotune.cells import CellSearch
from autotune.errors import InfeasibleError
from autotune.limits import lattice_limits
from autotune.plan_points import plan_of
from autotune.search import Account, SearchOptions, search, solve_setting
from searchspaces.rules import BOUND, MEMORY, OK, RAIL, REASONS

ONE = {"context_parallel": 1, "virtual_stages": [1, 2], "micro_batch_size": [1, 2]}

SPACES = {
    "dense": (cluster_spec(8), model_spec("dense", 8, search={**ONE, "rank_order": "tp-cp-ep-dp-pp"})),
    "both rank orders over two domains": (
        cluster_spec(16, hb=4), model_spec("gpt2", 16, search={"virtual_stages": 1, "micro_batch_size": 2, "recompute": "none"}),
    ),
    "experts with both expert axes": (
        cluster_spec(8), model_spec("moe", 8, search={**ONE, "recompute": "none", "zero_stage": [0, 1]}, num_layers=4),
    ),
    "latent attention, leading dense layers, prediction layer": (
        cluster_spec(8), model_spec("mla", 8, num_layers=6, search={**ONE, "micro_batch_size": 1, "recompute": ["selective", "full"], "zero_stage": 1}),
    ),
    "leading dense layers that reach past the first stage": (
        cluster_spec(8, memory_reserve_GiB=72.0), model_spec("mla", 16, num_layers=12, first_k_dense=3, search={
            "virtual_stages": 1, "micro_batch_size": 1, "recompute": ["none", "full"], "pipeline_parallel": 4}),
    ),
    "uneven layers": (cluster_spec(8, hb=4), model_spec("gqa", 8, num_layers=7, search={**ONE, "zero_stage": 1})),
    "alternating experts": (
        cluster_spec(12, hb=4), model_spec("alternating", 12, num_layers=9, search={**ONE, "recompute": "none", "zero_stage": 1}),
    ),
    "rails with a domain that no tensor degree of three divides": (
        cluster_spec(24, "rail-only", hb=8), model_spec("dense", 24, hidden_size=1536, num_attention_heads=12, ffn_hidden_size=6144,
                                                        num_layers=6, search={"micro_batch_size": 1, "virtual_stages": 1, "recompute": "none", "zero_stage": 1}),
    ),
    "memory at the edge": (
        cluster_spec(8, hb=4, memory_reserve_GiB=70.0), model_spec("dense", 8, num_layers=16, search={**ONE, "zero_stage": [0, 1]}),
    ),
}  # fmt: skip


@cache
def brute_force(name: str) -> brute.Found:
    cluster, model = SPACES[name]
    return brute.search_all(hardware_of(cluster, model), lattice_limits(model))


@cache
def whole_search(name: str):
    """All cells scored, none pruned."""
    cluster, model = SPACES[name]
    cells = CellSearch.prepare(hardware_of(cluster, model), lattice_of(cluster, model), 1)
    return cells, cells.score(list(range(len(cells.cells))), 1)


@pytest.mark.parametrize("name", SPACES)
def test_counts_by_reason(name):
    cells, results = whole_search(name)
    counted = {i: int(n) for i, n in enumerate(np.sum([r.counts for r in results], axis=0)) if n}
    expected = brute_force(name).counts
    assert {REASONS[k][0]: n for k, n in counted.items()} == {REASONS[k][0]: n for k, n in expected.items()}
    assert sum(expected.values()) == cells.lattice.size <= 20_000
    assert expected[OK] >= 20


@pytest.mark.parametrize("name", SPACES)
def test_best_of_every_cell(name):
    cells, results = whole_search(name)
    expected = brute_force(name).feasible
    found = {tuple(c): r for c, r in zip(cells.lattice.cells, results, strict=True) if r.best_index >= 0}
    assert found.keys() == expected.keys()
    for cell, points in expected.items():
        time_s, point = min(points, key=lambda p: p[0])
        assert found[cell].time_s == time_s
        assert cells.lattice.point(cells.lattice.cells[cells.lattice.cells.index(cell)], found[cell].best_index) == point


@pytest.mark.parametrize("name", SPACES)
def test_pruned_search_gives_the_best_of_each_shape_in_order(name):
    cluster, model = SPACES[name]
    setting = setting_of(cluster, model)
    expected = brute_force(name).best_by_cell()
    for top in (1, 4):
        result = search(cluster, model, SearchOptions(top=top, jobs=1))
        assert [p.iteration_time_s for p in result.plans] == [t for t, _ in expected[:top]]
        assert result.report["exhaustive"]
        rejected = sum(result.report["rejected"].values())
        assert result.report["points_total"] == result.report["points_scored"] + rejected == sum(brute_force(name).counts.values())
    account, cells, proved = solve_setting(cluster, model, setting, SearchOptions(top=1, jobs=1))
    best = account.best[0]
    assert proved
    plan = plan_of(cells.lattice.point(cells.cell(best[1]), best[2]), model.num_layers, setting, cluster.stack)
    ties = [p for t, p in expected if t == expected[0][0]]
    assert plan in [plan_of(p, model.num_layers, setting, cluster.stack) for p in ties]


@pytest.mark.parametrize("name", SPACES)
def test_bounds_are_below_every_time_of_their_cell(name):
    cells, _ = whole_search(name)
    for cell, points in brute_force(name).feasible.items():
        bound = cells.bounds[cells.lattice.cells.index(cell)]
        assert 0 < bound <= min(t for t, _ in points) * (1 + 1e-12)


def test_the_closest_miss_is_the_smallest_excess_of_all_points():
    cells, results = whole_search("memory at the edge")
    found = min((r.over_bytes, n, r.over_index) for n, r in enumerate(results) if r.over_index >= 0)
    over, _ = min(brute_force("memory at the edge").over, key=lambda p: p[0])
    assert found[0] == pytest.approx(over, rel=1e-9)


def test_pruning_counts_what_it_skips():
    cluster, model = cluster_spec(64), model_spec("gqa", 128, num_layers=16, search={"virtual_stages": [1, 2]})
    hw, lattice = hardware_of(cluster, model), lattice_of(cluster, model)
    cells = CellSearch.prepare(hw, lattice, 1)
    account = Account()
    for n, r in enumerate(cells.score(list(range(len(cells.cells))), 1)):
        account.add(n, r, 3)
    result = search(cluster, model, SearchOptions(top=3, jobs=1))
    assert [p.iteration_time_s for p in result.plans] == [t for t, _, _ in account.best]
    assert result.report["rejected"]["bound"] > 0 == account.counts[BOUND]


def test_the_spaces_reach_the_rail_and_the_memory_rule():
    assert brute_force("rails with a domain that no tensor degree of three divides").counts[RAIL] > 50
    assert brute_force("memory at the edge").counts[MEMORY] > 50


def test_nothing_that_fits_is_an_error_with_counts():
    cluster, model = cluster_spec(8, memory_reserve_GiB=78.0), model_spec("dense", 8, num_layers=16, search=ONE)
    with pytest.raises(InfeasibleError) as caught:
        search(cluster, model, SearchOptions(jobs=1))
    hw = hardware_of(cluster, model)
    expected = brute.search_all(hw, lattice_limits(model)).counts
    assert caught.value.details["rejected"] == {REASONS[k][0]: n for k, n in expected.items()}
