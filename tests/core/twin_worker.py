"""Prices seeded random points and scores a small lattice, and saves every number: run compiled and interpreted.

`python twin_worker.py OUT.npz`; with NUMBA_DISABLE_JIT=1 each formula is its own plain Python function.
"""

from __future__ import annotations

import sys

import numpy as np
from brute import price_key
from cases import cluster_spec, hardware_of, lattice_of, model_spec, random_points

from autotune.cells import CellSearch
from autotune.evaluate import point_stage_memory, price_point
from costmodels.groups import unreachable_group
from costmodels.layer import LayerKey
from costmodels.pipeline import one_f_one_b
from searchspaces.legality import point_reason

HARDWARE = [
    ("dense", {"stack": "megatron-2022", "gpu": "A100-80GB-SXM", "nic": 200.0}, {}),
    ("gpt2", {"stack": "megatron-2021", "gpu": "V100-32GB-SXM"}, {"precision": "fp16"}),
    ("dense", {"stack": "nanotron", "hb": 4}, {"hidden_size": 1024, "ffn_hidden_size": 2048}),
    ("gqa", {"stack": "megatron-deepspeed-vtrain", "hb": 4}, {}),
    ("gqa", {"fabric": "rail-only", "gpus": 32}, {"precision": "fp8"}),
    ("moe", {"fabric": "fat-tree", "network": {"oversubscription": 4.0, "switch_radix": 16}, "gpus": 64}, {}),
    ("mla", {"fabric": "rail-only", "gpu": "H800-80GB-SXM"}, {}),
    ("alternating", {"gpu": "MI300X-192GB", "stack": "torchtitan", "gpus": 24}, {"num_layers": 12}),
]


def point_numbers(kind: str, cluster: dict, model: dict, legal: int, seed: int) -> list[float]:
    """Legality of random points of one case, and level-1 prices, iteration and memory of the first `legal` legal ones."""
    c, m = cluster_spec(**cluster), model_spec(kind, **model)
    hw, lattice = hardware_of(c, m), lattice_of(c, m)
    numbers: list[float] = []
    for cell, index in random_points(lattice, 250 * legal, seed):
        point = lattice.point(cell, index)
        mode = int(lattice.axes.recompute[lattice.decode(index)[5]])
        reason = point_reason(hw.model, hw.rules, hw.gpus, hw.batch, *cell, mode, point)
        numbers += [reason, unreachable_group(hw.net, point, hw.model.experts, hw.model.tied)]
        if reason:
            continue
        key = LayerKey(cell.tensor, cell.context, cell.expert, point.expert_tensor, point.micro_batch, point.seq_parallel)
        prices = price_key(hw, key)
        iteration = price_point(hw, point, *prices)
        numbers += [x for row in prices for x in row.tolist()] + [iteration.time_s, *iteration.breakdown]
        for stage in range(point.pipeline):
            numbers += list(point_stage_memory(hw, point, *prices, stage))
        legal -= 1
        if legal == 0:
            break
    return numbers


def pipeline_numbers(count: int, seed: int) -> list[float]:
    """The 1F1B closed form on random instances."""
    rng = np.random.default_rng(seed)
    numbers: list[float] = []
    for _ in range(count):
        P, v = int(rng.integers(1, 9)), int(rng.integers(1, 4))
        m = int(rng.integers(1, 33)) if v == 1 else P * int(rng.integers(1, 5))
        numbers += list(one_f_one_b(P, v if P > 1 else 1, m, *(float(x) for x in rng.uniform(0.1, 2.0, 6)), float(rng.choice([0.0, 0.05]))))
    return numbers


def lattice_numbers() -> dict[str, list[float]]:
    """Bounds, counts, best and closest miss of all cells of two small lattices, one with a memory limit that bites."""
    small = {"micro_batch_size": [1, 2], "virtual_stages": [1, 2], "recompute": ["none", "full"], "zero_stage": [0, 1]}
    cases = [
        (cluster_spec(8, "rail-only", hb=4, memory_reserve_GiB=75.0), model_spec("gqa", 8, search=small)),
        (cluster_spec(8, hb=4), model_spec("moe", 8, search={**small, "recompute": "selective", "context_parallel": 1})),
    ]
    found: dict[str, list[float]] = {"bounds": [], "best": [], "miss": [], "counts": []}
    for c, m in cases:
        cells = CellSearch.prepare(hardware_of(c, m), lattice_of(c, m), 1)
        found["bounds"] += cells.bounds.tolist()
        for r in cells.score(list(range(len(cells.cells))), 1):
            found["best"] += [r.time_s, r.best_index]
            found["miss"] += [r.over_bytes, r.over_index]
            found["counts"] += list(r.counts)
    return found


if __name__ == "__main__":
    arrays = {f"points {seed} {case[0]}": point_numbers(*case, 60, seed) for seed, case in enumerate(HARDWARE)}
    arrays |= {"pipeline": pipeline_numbers(300, 7)} | lattice_numbers()
    np.savez(sys.argv[1], **{k: np.array(v, dtype=np.float64) for k, v in arrays.items()})
