"""Stages that are not alike: time and memory of an iteration follow from the heaviest, whichever it is."""

from __future__ import annotations

from dataclasses import replace

import brute
import pytest
from cases import cluster_spec, hardware_of, lattice_of, model_spec, random_points

from autotune.evaluate import price_point
from costmodels.iteration import peak_memory, price_stages, stage_peak
from costmodels.layer import LayerKey
from costmodels.stages import stage_time, stage_total
from searchspaces.legality import point_reason

UNLIKE = [
    ("mla", {"num_layers": 12, "first_k_dense": 3}, 16),
    ("alternating", {"num_layers": 8}, 24),
    ("alternating", {"num_layers": 18, "first_k_dense": 1}, 24),
    ("gqa", {"num_layers": 13}, 16),
]


def legal_points(kind, changes, gpus, count):
    cluster, model = cluster_spec(gpus), model_spec(kind, 64, **changes)
    hw, lattice = hardware_of(cluster, model), lattice_of(cluster, model)
    lattice = replace(lattice, cells=tuple(c for c in lattice.cells if c.pipeline > 2))
    for cell, index in random_points(lattice, 60_000, 3):
        point = lattice.point(cell, index)
        mode = int(lattice.axes.recompute[lattice.decode(index)[5]])
        if point_reason(hw.model, hw.rules, hw.gpus, hw.batch, *cell, mode, point) == 0:
            key = LayerKey(point.tensor, point.context, point.expert, point.expert_tensor, point.micro_batch, point.seq_parallel)
            yield hw, point, brute.price_key(hw, key)
            count -= 1
            if count == 0:
                return


@pytest.mark.parametrize(("kind", "changes", "gpus"), UNLIKE)
def test_memory_is_that_of_the_fullest_of_all_stages(kind, changes, gpus):
    for hw, point, prices in legal_points(kind, changes, gpus, 40):
        stages = price_stages(hw.model, hw.gpu, hw.stack, point, *prices)
        peak = peak_memory(hw.model, hw.stack, point, *prices, stages)
        assert peak == pytest.approx(brute.peak_bytes(hw, point, prices), rel=1e-12)


@pytest.mark.parametrize(("kind", "changes", "gpus"), UNLIKE)
def test_no_stage_works_longer_than_the_iteration_allows(kind, changes, gpus):
    for hw, point, prices in legal_points(kind, changes, gpus, 40):
        times = [stage_total(stage_time(hw.model, hw.gpu, hw.stack, point, *prices, s)) for s in range(point.pipeline)]
        b = price_point(hw, point, *prices).breakdown
        steady = b.compute + b.recompute + b.tensor_comm + b.context_comm + b.expert_comm + b.overhead - hw.stack.iteration_s
        assert steady >= point.micro_batches * max(times) * (1 - 1e-12)


def test_a_stage_peak_counts_states_reserve_and_fragmentation():
    from costmodels.examples import MEGATRON_2021, POINT

    stack = MEGATRON_2021._replace(fragmentation=0.1)
    # 2 + 4 + 12 bytes for each of 1e9 parameters, 2e9 reserve, 5e9 dynamic with a tenth lost
    assert stage_peak(stack, POINT, 1e9, 0.0, 5e9, 0.0, 0.0) == pytest.approx(18e9 + 2e9 + 5.5e9)
