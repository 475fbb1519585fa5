"""The strategy search against a plain enumeration, and the iteration model's limits."""

from __future__ import annotations

import inspect
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.reproduce.settings import R1_GPUS
from autotune.reproduce.strategies import SearchLimits, best_strategy
from autotune.reproduce.time_values import r1_best
from costmodels import rail_only_cost, rail_only_paper, rail_only_traffic
from costmodels.rail_only_paper import PaperModel, PaperOptions, PaperStrategy, PaperSystem

GPT = PaperModel(24, 2048, 16, 2048, 51200, 1.3e9)


def enumerate_strategies(model: PaperModel, gpus: int, batch: int) -> list[PaperStrategy]:
    found = []
    for i, p in itertools.product(range(model.heads.bit_length()), range(1, model.layers + 1)):
        t = 2**i
        if model.layers % p or gpus % (t * p) or batch % (gpus // (t * p)):
            continue
        d = gpus // (t * p)
        for b, v in itertools.product(range(1, batch // d + 1), range(1, model.layers // p + 1)):
            if (batch // d) % b == 0 and (model.layers // p) % v == 0 and (p > 1 or v == 1):
                found.append(PaperStrategy(t, p, d, v, b))
    return found


@settings(max_examples=25, deadline=None)
@given(
    gpus=st.sampled_from([1, 8, 48, 64, 256]),
    hb_size=st.sampled_from([1, 4, 8, 64]),
    batch=st.sampled_from([48, 64, 256]),
    steady=st.integers(0, 1),
)
def test_search_equals_plain_enumeration(gpus: int, hb_size: int, batch: int, steady: int) -> None:
    system, options = PaperSystem(gpus, hb_size, 450e9, 50e9, 989e12, 0.5), PaperOptions(pipeline_in_steady=steady)
    every = enumerate_strategies(GPT, gpus, batch)
    best = best_strategy(GPT, system, batch, options, SearchLimits())
    assert best.priced == len(every)
    times = [rail_only_paper.iteration_time_s(GPT, system, strategy, batch, options) for strategy in every]
    assert best.time_s == pytest.approx(min(times, default=float("inf")), rel=1e-11)
    assert best.strategy in every or not every


@pytest.mark.parametrize("limits", [SearchLimits(largest_tensor=8), SearchLimits(interleave=0), SearchLimits(whole_rounds=1)])
def test_limits_hold_and_never_help(limits: SearchLimits) -> None:
    free, limited = r1_best("GPT-146B", 1), r1_best("GPT-146B", 1, limits=limits)
    assert limited.priced < free.priced
    assert limited.time_s >= free.time_s
    if limits.largest_tensor:
        assert limited.strategy.tensor <= limits.largest_tensor
    if limits.interleave == 0:
        assert limited.strategy.chunks == 1
    if limits.whole_rounds == 1:
        assert rail_only_paper.micro_batches(1024, limited.strategy) % limited.strategy.pipeline == 0


def test_nothing_divides() -> None:
    best = best_strategy(GPT, PaperSystem(7, 1, 450e9, 50e9, 989e12, 0.5), 5, PaperOptions(), SearchLimits())
    assert best.priced == 0
    assert best.time_s == float("inf")


# Iteration seconds and winners (t, p, d, v) under setting R1.
R1_TIMES = {
    "GPT-146B": {1: 0.583, 8: 0.331, 32: 0.272, 64: 0.252, 256: 0.233, 1024: 0.225, R1_GPUS: 0.223},
    "GPT-1T": {1: 7.459, 8: 5.519, 32: 5.101, 64: 4.961, 256: 4.856, 1024: 4.830, R1_GPUS: 4.820},
}
R1_WINNERS = {
    ("GPT-146B", 8): (16, 16, 128, 5),
    ("GPT-146B", 256): (16, 4, 512, 20),
    ("GPT-1T", 8): (16, 16, 128, 8),
    ("GPT-1T", 256): (8, 8, 512, 16),
}


@pytest.mark.parametrize("name", R1_TIMES)
def test_iteration_times_under_r1(name: str) -> None:
    assert {k: round(r1_best(name, k).time_s, 3) for k in R1_TIMES[name]} == pytest.approx(R1_TIMES[name], abs=6e-4)


@pytest.mark.parametrize(("name", "hb_size"), R1_WINNERS)
def test_winners_under_r1(name: str, hb_size: int) -> None:
    strategy = r1_best(name, hb_size).strategy
    assert (strategy.tensor, strategy.pipeline, strategy.data, strategy.chunks) == R1_WINNERS[name, hb_size]
    assert strategy.micro_batch == 1


@pytest.mark.parametrize("name", R1_TIMES)
def test_larger_domains_and_faster_links_never_hurt(name: str) -> None:
    times = [r1_best(name, 2**i).time_s for i in range(16)]
    assert all(after <= before for before, after in itertools.pairwise(times))
    assert r1_best(name, 8, hb_factor=2).time_s <= times[3]
    assert r1_best(name, 8, nic_factor=2).time_s <= times[3]


def test_parts_sum_to_the_time() -> None:
    system, strategy = PaperSystem(64, 8, 450e9, 50e9, 989e12, 0.5), PaperStrategy(4, 4, 4, 2, 1)
    parts = rail_only_paper.iteration_time(GPT, system, strategy, 64, PaperOptions())
    assert rail_only_paper.iteration_time_s(GPT, system, strategy, 64, PaperOptions()) == sum(parts)


def test_one_gpu_only_computes() -> None:
    system, strategy = PaperSystem(1, 1, 450e9, 50e9, 989e12, 0.5), PaperStrategy(1, 1, 1, 1, 1)
    parts = rail_only_paper.iteration_time(GPT, system, strategy, 4, PaperOptions())
    assert (parts.bubble, parts.sync) == (0, 0)
    assert rail_only_paper.hardware_utilisation(GPT, system, strategy, 4, PaperOptions()) == pytest.approx(0.5, rel=1e-12)


def sample_arguments(function) -> list:
    """Values for a function's parameters by name."""
    known = {
        "model": GPT, "system": PaperSystem(96, 8, 450e9, 50e9, 989e12, 0.47), "strategy": PaperStrategy(4, 6, 4, 2, 2),
        "options": PaperOptions(), "batch": 96, "flops_factor": 72.0, "full_bytes": 3.7e9, "x": 8.0, "y": 3.0,
        "hb_Bps": 450e9, "nic_Bps": 50e9, "message_bytes": 1.1e7, "same_domain": False, "bandwidth_ratio": 9.0,
        "gpu_bytes": 7.3e8, "gpus": 96, "hb_size": 8, "rail_only": True, "domains": 12.0, "micro_batch": 2,
        "element_bytes": 2.0, "layers": 12, "hidden": 2048, "tokens_per_gpu": 8192.0, "shared_parameters": 1.3e9,
        "capacity": 1.25, "tensor_mesh": 1, "tiers": 3, "radix": 64, "endpoints": 5000, "switches": 1536,
        "transceivers": 131072, "port_usd": 694.0, "transceiver_usd": 199.0, "port_w": 18.0, "transceiver_w": 9.0,
    }  # fmt: skip
    return [known[name] for name in inspect.signature(function.py_func).parameters]


FORMULAS = [
    value
    for module in (rail_only_paper, rail_only_traffic, rail_only_cost)
    for value in vars(module).values()
    if hasattr(value, "py_func") and value.py_func.__module__ == module.__name__
]


@pytest.mark.parametrize("function", FORMULAS, ids=lambda f: f.py_func.__name__)
def test_compiled_equals_python(function) -> None:
    arguments = sample_arguments(function)
    compiled, plain = function(*arguments), function.py_func(*arguments)
    if isinstance(compiled, rail_only_traffic.PaperEdges):
        assert all((a == b).all() for a, b in zip(compiled, plain, strict=True))
    else:
        assert compiled == plain


def test_search_compiled_equals_python() -> None:
    arguments = (GPT, PaperSystem(64, 8, 450e9, 50e9, 989e12, 0.5), 64, PaperOptions(), SearchLimits())
    assert best_strategy(*arguments) == best_strategy.py_func(*arguments)
