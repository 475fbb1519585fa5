"""Figures worked out by hand or step by step, without the functions they check."""

from __future__ import annotations

from math import sqrt

import pytest

from costmodels.collectives import BASE_S, NIC_STEP_S, ROOT_S, STEP_S, all_gather_s, all_to_all_s, point_to_point_s
from costmodels.dataparallel import data_parallel_s, gradient_sync_s
from costmodels.edges import EdgeCost, price_edges
from costmodels.examples import EIGHT_H100, H100, MEGATRON_2021, POINT, TINY
from costmodels.gemm import gemm_s
from costmodels.iteration import price_iteration
from costmodels.layer import LayerKey, price_layer
from costmodels.memory import memory_total, stage_memory
from costmodels.records import as_record
from costmodels.stages import StageTime
from costmodels.topology import members_in_domain, reach_class
from searchspaces.splits import split_layers

NET = EIGHT_H100._replace(gpus=64)


def ring_all_gather_s(shares: int, share_bytes: float, rate: float) -> float:
    """n - 1 steps, each passing one share to the neighbour."""
    return sum(share_bytes / rate for _ in range(shares - 1))


@pytest.mark.parametrize(("stride", "size", "x", "y"), [(1, 8, 8, 1), (1, 32, 8, 4), (2, 16, 4, 4), (8, 8, 1, 8), (4, 2, 2, 1)])
def test_all_gather_is_a_ring_over_domains_then_one_inside(stride, size, x, y):
    tensor = 4e8
    assert members_in_domain(8, stride, size) == x
    # First every rail gathers the share of its own position from all domains, then the domain exchanges what its rails hold.
    expected = ring_all_gather_s(y, tensor / (x * y), 0.85 * 50e9) + ring_all_gather_s(x, tensor / x, 0.8 * 450e9)
    if x > 1:
        expected += 0.5 * (BASE_S + STEP_S * x + ROOT_S * sqrt(tensor))
    if y > 1:
        expected += (y - 1) * (NIC_STEP_S + NET.latency_s)
    assert all_gather_s(NET, H100, tensor, stride, size) == pytest.approx(expected, rel=1e-12)


def test_all_to_all_counts_the_bytes_of_every_pair():
    sent, size, K = 64e6, 64, 8
    per_pair = sent / size
    inside = sum(per_pair for other in range(1, K))  # rank 0 to the rest of its domain
    outside = sum(per_pair for other in range(K, size))
    relayed = sum(per_pair for other in range(K, size) if other % K != 0)  # to other rails: one hop inside first
    start = BASE_S + 0.5 * STEP_S * size + ROOT_S * sqrt(sent) + NET.latency_s
    clos = start + inside / (0.8 * 450e9) + outside / (0.85 * 50e9)
    rails = start + (inside + relayed) / (0.8 * 450e9) + outside / (0.85 * 50e9)
    assert all_to_all_s(NET, H100, sent, 1, size, 1.0) == pytest.approx(clos, rel=1e-12)
    assert all_to_all_s(NET._replace(any_to_any=0), H100, sent, 1, size, 1.0) == pytest.approx(rails, rel=1e-12)


def test_slow_tiers_bound_a_group_that_spans_them():
    tapered = NET._replace(gpus=4096, leaf_gpus=256, pod_gpus=2048, pod_Bps=25e9, core_Bps=5e9)
    times = [point_to_point_s(tapered, H100, 1e9, stride) for stride in (8, 128, 256, 1024, 2048)]
    rates = [1e9 / t / 0.85e9 for t in times]
    assert rates == pytest.approx([50, 50, 25, 25, 5], rel=1e-3)


def class_by_listing(K: int, stride: int, size: int) -> int:
    """Lay K blocks of groups over the ranks and look where each member sits: the definition, without arithmetic."""
    worst = 0
    for start in (block * stride * size + offset for block in range(K) for offset in range(stride)):
        rails: dict[int, set[int]] = {}
        for rank in range(start, start + stride * size, stride):
            rails.setdefault(rank // K, set()).add(rank % K)
        alike = len({frozenset(r) for r in rails.values()}) == 1
        one_rail = len(set().union(*rails.values())) == 1
        worst = max(worst, 0 if len(rails) == 1 else 1 if one_rail else 2 if alike else 3)
    return worst


@pytest.mark.parametrize("K", [2, 4, 6, 8, 12])
def test_how_groups_lie_on_rails_by_listing_every_member(K):
    for stride in range(1, 25):
        for size in range(2, 33):
            assert reach_class(K, stride, size) == class_by_listing(K, stride, size), (stride, size)


def test_a_large_product_runs_at_its_efficiency_and_a_thin_one_at_memory_speed():
    n = 16384.0
    assert gemm_s(n, n, n, 700e12, 132.0, 2.68e12, 2.0, 80.0) == pytest.approx(2 * n**3 / 700e12, rel=0.01)
    assert gemm_s(1.0, n, n, 700e12, 132.0, 2.68e12, 2.0, 80.0) >= 2 * n * n / 2.68e12


def priced(point, model=TINY, stack=MEGATRON_2021):
    """(records of model, GPU and stack, layer, edges): records, as the kernel has them, compile once for all tests."""
    records = [as_record(x) for x in (model, H100, EIGHT_H100, stack)]
    key = LayerKey(point.tensor, point.context, point.expert, point.expert_tensor, point.micro_batch, point.seq_parallel)
    layer = price_layer(*records, key, 0)
    edges = price_edges(*records, *key[:4], point.micro_batch, point.seq_parallel)
    return records, as_record(layer), as_record(edges)


def test_one_gpu_is_the_sum_of_its_parts():
    point = POINT._replace(micro_batches=4)
    records, layer, edges = priced(point)
    b = price_iteration(*records, point, layer, layer, edges)
    parameters = 4 * 784 + 8 + 2 * 100 * 8  # layers, final norm, embedding and head
    hbm = 0.8 * 3.35e12
    pass_s = 4 * (layer.forward_s + layer.backward_s) + edges.embed_fwd_s + edges.embed_bwd_s + edges.head_fwd_s + edges.head_bwd_s
    accumulate = 8.0 * parameters / hbm
    optimizer = 40.0 * parameters / hbm + 0.003
    assert b.breakdown.optimizer == pytest.approx(optimizer, rel=1e-12)
    assert b.time_s == pytest.approx(4 * (pass_s + accumulate) + optimizer, rel=1e-12)
    assert sum(b.breakdown) == b.breakdown.compute + b.breakdown.optimizer


def test_the_memory_of_one_gpu():
    (model, _, _, stack), layer, edges = priced(POINT)
    memory = stage_memory(model, stack, POINT, layer, layer, edges, 0)
    parameters, sbh = 4 * 784 + 8 + 2 * 100 * 8, 128
    assert memory.weights == 2 * parameters and memory.gradients == 4 * parameters and memory.optimizer == 12 * parameters
    assert memory.activations == 4 * (34 * sbh + 2560) + sbh  # four layers, and the dropout mask behind the embedding
    assert memory.logits == 10 * 16 * 100
    assert memory.reserve == 2e9
    assert memory_total(memory) == pytest.approx(sum(memory))


def test_an_even_pipeline_has_the_textbook_bubble():
    """(P - 1) / m of the ideal time, a v-th of it with v chunks; ends without embedding or head."""
    model = TINY._replace(vocab=0, layers=8)
    for v in (1, 2):
        point = POINT._replace(pipeline=4, micro_batches=8, chunks=v)
        stack = MEGATRON_2021._replace(p2p_exposed=0.0, grad_accum_bytes=0.0)
        records, layer, _ = priced(point, model, stack)
        b = price_iteration(*records, point, layer, layer, as_record(EdgeCost(*(0.0,) * len(EdgeCost._fields)))).breakdown
        assert b.pipeline_bubble == pytest.approx(b.compute * 3 / 8 / v, rel=1e-9)


def test_sharding_stages_move_the_bytes_their_paper_says():
    """ZeRO (arXiv 1910.02054), section 7: 2 N elements for stages 0 to 2, 3 N for stage 3 per micro-batch, all exposed here."""
    stage = StageTime(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e9, 0.0)
    point = POINT._replace(data=8)
    one = all_gather_s(EIGHT_H100, H100, 2e9, 1, 8)  # 1e9 parameters of two bytes
    stages = [point._replace(zero=z) for z in range(4)]
    seconds = [data_parallel_s(MEGATRON_2021, p, stage, *gradient_sync_s(EIGHT_H100, H100, MEGATRON_2021, p, stage)) for p in stages]
    assert seconds == pytest.approx([2 * one, 2 * one, 2 * one, 3 * one], rel=1e-12)


def test_every_split_adds_up():
    for layers in range(1, 130):
        for P in range(1, min(layers, 40) + 1):
            for split in (0, 1, 2):
                first, last = split_layers(layers, P, split)
                if first == -2:
                    continue
                if first == -1:
                    assert layers % P == 0
                    continue
                middle, rest = divmod(layers - first - last, max(1, P - 2))
                assert rest == 0 and last >= 1 and first >= last
                assert P == 2 or middle >= first
