"""What a plan waits for beyond work and bytes: the busiest expert rank, host-driven collectives, stalled transfers."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.constants import model_constants, network_constants
from autotune.load import load_cluster, load_model
from costmodels.examples import EIGHT_H100, H100, MEGATRON_2021, POINT, TINY
from costmodels.iteration import FULL, stalls_s
from costmodels.layer import busiest_share, tensor_comm_s

EXPERTS = TINY._replace(experts=64, load_variation=0.2)


@pytest.mark.parametrize("ranks", [4, 8, 32, 64])
def test_the_busiest_rank_is_the_largest_of_random_loads(ranks):
    rng = np.random.default_rng(7)
    loads = rng.normal(1.0, EXPERTS.load_variation, size=(4000, ranks, EXPERTS.experts // ranks)).mean(axis=2)
    expected = loads.max(axis=1).mean()
    assert busiest_share(EXPERTS, ranks) - 1 == pytest.approx(expected - 1, rel=0.65)  # sqrt(2 ln E) is the large-E limit
    assert busiest_share(EXPERTS, ranks) >= expected


def test_one_rank_has_the_mean_load_and_fewer_experts_per_rank_are_less_even():
    assert busiest_share(EXPERTS, 1) == 1.0 and busiest_share(EXPERTS._replace(load_variation=0.0), 64) == 1.0
    shares = [busiest_share(EXPERTS, e) for e in (2, 8, 64)]
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1.577, abs=1e-3)  # 0.2 sqrt(2 ln 64)


def test_padded_experts_do_equal_work_and_forced_balance_can_be_asked_for():
    spec = load_model("mixtral-8x7b")
    assert model_constants(spec).load_variation == 0.2
    assert model_constants(spec.model_copy(update={"moe_capacity_factor": 1.25})).load_variation == 0.0
    assert model_constants(spec.model_copy(update={"moe_load_variation": 0.0})).load_variation == 0.0
    assert model_constants(load_model("llama-3-8b")).load_variation == 0.0


@pytest.mark.parametrize("split", [0, 1])
def test_a_gap_is_paid_by_each_further_rank_whatever_the_size(split):
    slow = MEGATRON_2021._replace(tensor_gap_s=1e-3)
    for ranks, gap in ((1, 0.0), (2, 1e-3), (8, 7e-3)):
        for nbytes in (1e3, 1e9):
            base = tensor_comm_s(EIGHT_H100, H100, MEGATRON_2021, nbytes, ranks, split, 2.0)
            got = tensor_comm_s(EIGHT_H100, H100, slow, nbytes, ranks, split, 2.0)
            assert [g - b for g, b in zip(got, base, strict=True)] == pytest.approx([gap, gap], rel=1e-9, abs=1e-15)


def test_near_full_pipelines_wait_at_each_transfer():
    stack = MEGATRON_2021._replace(full_hop_s=0.25)
    full, near = 0.99 * H100.memory_bytes, FULL * H100.memory_bytes
    two, four = (POINT._replace(pipeline=p, micro_batches=8) for p in (2, 4))
    assert stalls_s(H100, EIGHT_H100, stack, POINT._replace(micro_batches=8), full) == 0.0  # no pipeline, no transfer
    assert stalls_s(H100, EIGHT_H100, stack, two, near) == 0.0
    assert stalls_s(H100, EIGHT_H100, stack, two, full) == pytest.approx(0.25 * 2 * 9)
    assert stalls_s(H100, EIGHT_H100, stack, four, full) == pytest.approx(0.25 * 4 * 11)
    assert stalls_s(H100, EIGHT_H100, stack, four._replace(chunks=2), full) == pytest.approx(2 * 0.25 * 4 * 11)


def test_a_stall_of_the_cluster_file_reaches_transfers_that_leave_the_domain():
    cluster = load_cluster("h100-rail-1024")
    stalling = cluster.model_copy(update={"network": cluster.network.model_copy(update={"pipeline_stall_ms": 230.0})})
    net = network_constants(stalling, 1024, 8, 450e9, 50e9)
    assert net.hop_stall_s == pytest.approx(0.23) and network_constants(cluster, 1024, 8, 450e9, 50e9).hop_stall_s == 0.0
    point = POINT._replace(pipeline=4, micro_batches=8)
    assert stalls_s(H100, net, MEGATRON_2021, point, 0.0) == pytest.approx(0.23 * 4 * 11)
    assert stalls_s(H100, net._replace(gpus=8), MEGATRON_2021, point, 0.0) == 0.0
