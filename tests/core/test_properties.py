"""What must hold whatever the numbers: monotonicity, conservation, round trips, agreement of the two legality checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import brute
import numpy as np
import pytest
from cases import MODELS, cluster_spec, hardware_of, lattice_of, model_spec, random_points, setting_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.cells import CellSearch
from autotune.evaluate import evaluate, point_stage_memory, price_point
from autotune.legality import violations
from autotune.plan import Plan
from autotune.plan_points import plan_of, plan_point
from autotune.search import SearchOptions, search
from costmodels.activations import layer_bytes
from costmodels.collectives import all_gather_s, all_reduce_s, all_to_all_s, point_to_point_s
from costmodels.examples import EIGHT_H100, H100
from costmodels.layer import LayerKey
from searchspaces.legality import point_reason
from searchspaces.rules import OK

few = settings(max_examples=25, deadline=None)
many = settings(max_examples=150, deadline=None)
kinds = st.sampled_from(sorted(MODELS))


@dataclass(frozen=True, repr=False)
class Drawn:
    """A legal point and where it comes from."""

    kind: str
    hw: Any
    lattice: Any
    cell: Any
    index: int
    point: Any

    def __repr__(self) -> str:
        return f"{self.kind}: {self.point}"

    @property
    def model(self):
        return model_spec(self.kind, 32)

    @property
    def prices(self):
        return brute.price_key(self.hw, key_of(self.point))

    def plan(self):
        return plan_of(self.point, self.model.num_layers, setting_of(CLUSTER, self.model), CLUSTER.stack)


CLUSTER = cluster_spec(16)


@cache
def legal(kind: str) -> list[Drawn]:
    """Legal and reachable points drawn from a whole lattice."""
    model = model_spec(kind, 32)
    hw, lattice = hardware_of(CLUSTER, model), lattice_of(CLUSTER, model)
    points = []
    for cell, index in random_points(lattice, 15_000, 11):
        point = lattice.point(cell, index)
        mode = int(lattice.axes.recompute[lattice.decode(index)[5]])
        if point_reason(hw.model, hw.rules, hw.gpus, hw.batch, *cell, mode, point) == OK:
            points.append(Drawn(kind, hw, lattice, cell, index, point))
    assert len(points) >= 20
    return points


@st.composite
def legal_points(draw):
    return draw(st.sampled_from(legal(draw(kinds))))


def key_of(point):
    return LayerKey(point.tensor, point.context, point.expert, point.expert_tensor, point.micro_batch, point.seq_parallel)


def with_net(hw, **changes):
    net = hw.net.copy()
    for name, value in changes.items():
        setattr(net, name, value)
    return hw._replace(net=net)


@many
@given(legal_points(), st.sampled_from(["hb_Bps", "nic_Bps"]), st.floats(1.0, 20.0))
def test_more_bandwidth_never_makes_a_plan_slower(drawn, what, factor):
    hw, point = drawn.hw, drawn.point
    changes = {what: float(hw.net[what]) * factor}
    if what == "nic_Bps":
        changes |= {"pod_Bps": float(hw.net["pod_Bps"]) * factor, "core_Bps": float(hw.net["core_Bps"]) * factor}
    slow = price_point(hw, point, *drawn.prices).time_s
    faster = with_net(hw, **changes)
    fast = price_point(faster, point, *brute.price_key(faster, key_of(point))).time_s
    assert fast <= slow * (1 + 1e-12)


@cache
def best_time(kind: str, fabric: str, hb_GBps: float, nic: float, reserve: float = 0.0) -> float:
    cluster = cluster_spec(16, fabric, hb_GBps=hb_GBps, nic=nic, memory_reserve_GiB=reserve)
    model = model_spec(kind, 32, search={"context_parallel": [1, 2], "virtual_stages": [1, 2, 4]})
    return search(cluster, model, SearchOptions(top=1, jobs=1, study=False)).plans[0].iteration_time_s


@pytest.mark.parametrize("fabric", ["rail-only", "rail-optimized"])
@pytest.mark.parametrize("kind", ["gqa", "moe"])
def test_more_bandwidth_never_makes_the_best_plan_slower(kind, fabric):
    by_nic = [best_time(kind, fabric, 450.0, nic) for nic in (50.0, 100.0, 200.0, 400.0, 800.0)]
    by_hb = [best_time(kind, fabric, hb, 200.0) for hb in (50.0, 150.0, 450.0, 900.0)]
    assert by_nic == sorted(by_nic, reverse=True) and by_nic[0] > by_nic[-1]
    assert by_hb == sorted(by_hb, reverse=True) and by_hb[0] > by_hb[-1]


def test_more_memory_never_makes_the_best_plan_slower():
    times = [best_time("gqa", "rail-only", 450.0, 200.0, reserve) for reserve in (76.0, 75.0, 72.0, 60.0, 0.0)]
    assert times == sorted(times, reverse=True) and times[0] > times[-1]


@pytest.mark.parametrize("kind", ["dense", "moe", "mla"])
def test_joining_all_pairs_never_makes_the_best_plan_slower(kind):
    """Rail-only is the same network with fewer links."""
    cluster = cluster_spec(24, "rail-only", hb=8)
    model = model_spec(kind, 24, hidden_size=1536, num_attention_heads=12, search={"context_parallel": 1, "virtual_stages": [1, 2]})
    rails = hardware_of(cluster, model)
    times = []
    for hw in (with_net(rails, any_to_any=1), rails):
        cells = CellSearch.prepare(hw, lattice_of(cluster, model), 1)
        times.append(min(r.time_s for r in cells.score(list(range(len(cells.cells))), 1)))
    assert times[0] <= times[1] < float("inf")


@many
@given(legal_points())
def test_a_degree_of_one_costs_no_communication_of_its_kind(drawn):
    hw, p = drawn.hw, drawn.point
    b = price_point(hw, p, *drawn.prices).breakdown
    assert (b.tensor_comm == 0) == (p.tensor == 1)
    assert (b.context_comm == 0) == (p.context == 1)
    assert (b.expert_comm == 0) == (p.expert == 1 and p.expert_tensor == 1)
    if p.pipeline == 1:
        assert b.pipeline_comm == 0 and b.pipeline_bubble == 0
    else:
        assert b.pipeline_comm > 0 and b.pipeline_bubble > 0
    # Experts held more than once are reduced over their own group even where dense weights have one copy.
    copies = p.tensor * p.context * p.data // (p.expert * p.expert_tensor) if hw.model.experts else 1
    if p.data == p.context == copies == 1 and not (hw.model.tied and p.pipeline > 1):
        assert b.data_comm == 0
    assert (b.recompute == 0) == (p.recompute == 0 or (p.recompute == 2 and p.recompute_layers == 0))


@many
@given(legal_points())
def test_parts_sum_to_totals(drawn):
    hw, point, prices = drawn.hw, drawn.point, drawn.prices
    iteration = price_point(hw, point, *prices)
    assert iteration.time_s == pytest.approx(sum(iteration.breakdown), rel=1e-12)
    assert all(part >= 0 for part in iteration.breakdown)
    for stage in range(point.pipeline):
        memory = point_stage_memory(hw, point, *prices, stage)
        assert all(part >= 0 for part in memory) and memory.reserve > 0 and memory.weights > 0


@few
@given(legal_points())
def test_the_json_of_a_plan_sums_too(drawn):
    document = evaluate(CLUSTER, drawn.model, drawn.plan()).to_dict()
    assert sum(document["breakdown_s"].values()) == pytest.approx(document["iteration_time_s"], rel=1e-12)
    for stage in document["memory_GiB"]["by_stage"]:
        assert sum(v for k, v in stage.items() if k != "total") == pytest.approx(stage["total"], rel=1e-12)
    assert document["memory_GiB"]["peak"] == max(s["total"] for s in document["memory_GiB"]["by_stage"])
    tokens = 32 * drawn.model.seq_length / document["iteration_time_s"] / 16
    assert document["tokens_per_s_per_gpu"] == pytest.approx(tokens)
    assert 0 < document["mfu"] <= document["hfu"] < 1


@many
@given(legal_points())
def test_states_shrink_with_the_sharding_stage(drawn):
    hw, point = drawn.hw, drawn.point
    prices = drawn.prices
    for stage in range(point.pipeline):
        by_zero = [point_stage_memory(hw, point._replace(zero=z), *prices, stage) for z in range(4)]
        for part in ("weights", "gradients", "optimizer"):
            values = [getattr(m, part) for m in by_zero]
            assert values == sorted(values, reverse=True)
        totals = [sum(m) for m in by_zero[:3]]
        assert totals == sorted(totals, reverse=True)
        shards = point.data * point.context
        if hw.model.experts == 0 and shards > 1:
            assert by_zero[1].optimizer * shards == pytest.approx(by_zero[0].optimizer)
            assert by_zero[3].weights * shards == pytest.approx(by_zero[0].weights)


@many
@given(legal_points())
def test_recompute_never_keeps_more(drawn):
    hw, p = drawn.hw, drawn.point
    for moe in range(2 if hw.model.experts else 1):
        none, selective, full = layer_bytes(hw.model, hw.stack, float(p.micro_batch), p.tensor, p.context, p.expert_tensor, p.seq_parallel, moe)
        assert 0 < full < selective <= none
    prices = drawn.prices
    assume(p.recompute_layers == 0 and p.chunks == 1)
    for stage in range(p.pipeline):
        plain = point_stage_memory(hw, p._replace(recompute=0), *prices, stage).activations
        selective = point_stage_memory(hw, p._replace(recompute=1), *prices, stage).activations
        assert selective <= plain * (1 + 1e-12)


@many
@given(kinds, st.integers(0, 10**9))
def test_index_round_trip(kind, number):
    lattice = legal(kind)[0].lattice
    index = number % lattice.inner_size
    digits = lattice.decode(index)
    assert lattice.encode(*digits) == index
    assert all(0 <= d < n for d, n in zip(digits, lattice.shape, strict=True))


@many
@given(legal_points())
def test_a_point_its_plan_and_the_plan_s_point_cost_the_same(drawn):
    hw, point, prices, plan = drawn.hw, drawn.point, drawn.prices, drawn.plan()
    assert Plan.from_dict(plan.to_dict()) == plan
    again, layers = plan_point(plan)
    assert layers == drawn.model.num_layers
    assert price_point(hw, again, *prices).time_s == price_point(hw, point, *prices).time_s
    memory = [point_stage_memory(hw, point, *prices, s) for s in range(point.pipeline)]
    assert [point_stage_memory(hw, again, *prices, s) for s in range(point.pipeline)] == memory


@many
@given(legal_points())
def test_points_legal_to_the_kernel_break_no_rule_of_the_plan_checker(drawn):
    assert violations(drawn.model, drawn.plan(), "megatron") == []


@many
@given(legal_points())
def test_the_bound_of_a_cell_is_below_each_of_its_points(drawn):
    one = replace(drawn.lattice, cells=(drawn.cell,))
    bound = CellSearch.prepare(drawn.hw, one, 1).bounds[0]
    assert bound <= price_point(drawn.hw, drawn.point, *drawn.prices).time_s * (1 + 1e-12)


sizes = st.integers(1, 64)
strides = st.sampled_from([1, 2, 4, 8, 16])
amounts = st.floats(1e3, 1e10)
NET = EIGHT_H100._replace(gpus=4096)


@many
@given(amounts, strides, sizes, st.floats(1.0, 10.0))
def test_collectives_grow_with_bytes_and_vanish_alone(nbytes, stride, size, factor):
    functions = [
        lambda n, s: all_gather_s(NET, H100, n, stride, s),
        lambda n, s: all_reduce_s(NET, H100, n, stride, s),
        lambda n, s: all_to_all_s(NET, H100, n, stride, s, 1.0),
    ]
    for f in functions:
        assert f(nbytes, 1) == 0
        assert f(nbytes, size) <= f(nbytes * factor, size)
    assert point_to_point_s(NET, H100, nbytes, stride) < point_to_point_s(NET, H100, 2 * nbytes, stride)
    assert all_reduce_s(NET, H100, nbytes, stride, size) == 2 * all_gather_s(NET, H100, nbytes, stride, size)
    one_direction = (size - 1) / size * nbytes
    assert all_gather_s(NET, H100, nbytes, stride, size) >= one_direction / NET.hb_Bps


@many
@given(amounts, sizes)
def test_rails_never_make_an_all_to_all_faster(nbytes, size):
    rail = NET._replace(any_to_any=0)
    assert all_to_all_s(rail, H100, nbytes, 1, size, 1.0) >= all_to_all_s(NET, H100, nbytes, 1, size, 1.0)


def test_the_lattice_is_deterministic():
    a, b = (lattice_of(cluster_spec(24), model_spec("moe", 24)) for _ in range(2))
    assert a.cells == b.cells and all(np.array_equal(x, y) for x, y in zip(a.axes, b.axes, strict=True))
    assert len(set(a.cells)) == len(a.cells)
