"""Checkpoint arithmetic, published failure figures, and what failures cost on each kind of fabric."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.failures import COUNTS, TOTAL, Job, Recovery, Site, expected_goodput, failure_classes
from costmodels.goodput import (
    best_spares,
    best_useful_fraction,
    daly_interval_s,
    first_order_useful_fraction,
    mtbf_s,
    node_mtbf_s,
    poisson_tail,
    straggler_factor,
    useful_fraction,
    young_interval_s,
)

HOUR = 3600.0


def test_llama3_rate():
    """arXiv 2407.21783 section 3.3.4: 419 unexpected interruptions in 54 days on 16,384 GPUs."""
    assert sum(COUNTS.values()) == TOTAL == 419
    rate = TOTAL / (16384 * 54)
    assert rate == pytest.approx(4.7e-4, rel=0.01)
    assert mtbf_s(16384, rate) / HOUR == pytest.approx(3.09, abs=0.01)


@pytest.mark.parametrize(("gpus", "hours", "tolerance"), [(16384, 1.8, 0.02), (131072, 0.23, 0.03)])
def test_projections_of_the_research_cluster(gpus, hours, tolerance):
    """arXiv 2410.21680 as quoted second-hand: 6.50 failures per 1,000 node-days."""
    assert node_mtbf_s(gpus, 8, 6.5e-3) / HOUR == pytest.approx(hours, rel=tolerance)


@pytest.mark.parametrize(("gpus", "measured_hours"), [(1024, 7.9), (8, 47.7 * 24)])
def test_the_rule_does_not_hold_for_small_jobs(gpus, measured_hours):
    assert node_mtbf_s(gpus, 8, 6.5e-3) / HOUR > 2 * measured_hours


@pytest.mark.parametrize(("checkpoint", "restart", "minutes", "useful"), [(30, 600, 13.6, 0.87), (5, 300, 5.6, 0.94)])
def test_young_daly_check_values(checkpoint, restart, minutes, useful):
    mean = 3.1 * HOUR
    interval = young_interval_s(checkpoint, mean)
    assert interval / 60 == pytest.approx(minutes, abs=0.06)
    assert first_order_useful_fraction(interval, checkpoint, restart, mean) == pytest.approx(useful, abs=0.005)
    assert useful_fraction(interval, checkpoint, restart, mean) == pytest.approx(useful, abs=0.01)


@given(st.floats(1, 600), st.floats(0, 3600), st.floats(60, 1e6))
@settings(deadline=None)
def test_useful_fraction_is_a_fraction_and_dalys_interval_is_good(checkpoint, restart, mean):
    best = best_useful_fraction(checkpoint, restart, mean)
    assert 0 <= best <= 1
    interval = daly_interval_s(checkpoint, mean)
    if checkpoint < mean / 2:  # Daly's series is for checkpoints well below the time between failures
        for factor in (0.5, 2.0):
            assert best >= useful_fraction(interval * factor, checkpoint, restart, mean) - 1e-9


def test_useful_fraction_against_a_simulated_run():
    """A job that fails at random times, replayed: independent of the formula."""
    interval, checkpoint, restart, mean = 1000.0, 60.0, 300.0, 8000.0
    rng = random.Random(1)
    clock = done = 0.0
    failure = rng.expovariate(1 / mean)
    while done < 4e7:
        start = clock
        while failure < start + interval + checkpoint:
            start = failure + restart
            failure += rng.expovariate(1 / mean)
            while failure < start:  # failed again while restarting
                start = failure + restart
                failure += rng.expovariate(1 / mean)
        clock = start + interval + checkpoint
        done += interval
    assert done / clock == pytest.approx(useful_fraction(interval, checkpoint, restart, mean), rel=0.01)


@pytest.mark.parametrize("function", [young_interval_s, daly_interval_s, poisson_tail, straggler_factor])
def test_compiled_equals_plain_python(function):
    arguments = (3.5, 7) if function is poisson_tail else (0.5, 10000.0)
    assert function(*arguments) == function.py_func(*arguments)


def test_stragglers_grow_with_the_logarithm():
    assert straggler_factor(0.005, 1) == 1
    assert straggler_factor(0.01, 1024) - 1 == pytest.approx(0.01 * math.sqrt(2 * math.log(1024)))
    sample = random.Random(2)
    slowest = sum(max(sample.gauss(1, 0.01) for _ in range(1024)) for _ in range(200)) / 200
    assert slowest == pytest.approx(straggler_factor(0.01, 1024), abs=0.006)


@given(st.floats(0.01, 50), st.floats(1e-4, 0.2))
@settings(max_examples=40, deadline=None)
def test_best_spares_is_the_minimum(mean, share):
    def loss(n):
        return n * share + poisson_tail(mean, n)

    chosen = best_spares(mean, share)
    assert loss(chosen) <= min(loss(n) for n in range(int(mean) * 3 + 30)) + 1e-12


SMALL = dict(gpus=4608, hb_size=72, gpus_per_node=4, rail_wired=True, dual_homed=False, leaves=144, nvswitches=18)
CLOS = Site(any_to_any=True, optical=False, **SMALL)
RAIL = Site(any_to_any=False, optical=False, **SMALL)
OPTICAL = Site(any_to_any=False, optical=True, **SMALL)
BOUND = Job(data_parallel=2, domain_bound=True, network_share=0.1, inner_gpus=8)


def actions(site, job, name):
    return {r.action for c in failure_classes(site, job, Recovery()) if c.name == name for r in c.responses}


def test_what_each_fabric_can_do_about_a_lone_gpu():
    assert "swap within the domain" in actions(CLOS, BOUND, "gpu")
    assert "swap within the domain, detour at half rate" in actions(RAIL, BOUND, "gpu")
    assert "swap within the domain, optical re-patch" in actions(OPTICAL, BOUND, "gpu")
    free = BOUND._replace(domain_bound=False)
    assert "swap a GPU" in actions(CLOS, free, "gpu")
    assert "swap within the rail" in actions(RAIL, free, "gpu")
    assert "swap a GPU" not in actions(CLOS, BOUND, "gpu")
    for site in (CLOS, RAIL, OPTICAL):
        assert {"migrate the domain", "shrink data parallelism"} <= actions(site, BOUND, "gpu")


def test_only_migration_helps_a_domain_without_its_switch():
    assert actions(RAIL, BOUND._replace(data_parallel=1), "nvswitch") == {"migrate the domain", "wait for the repair"}


def test_a_clos_is_never_worse_and_equal_when_domains_are_servers():
    for job in (BOUND, BOUND._replace(data_parallel=64), BOUND._replace(domain_bound=False)):
        assert expected_goodput(CLOS, job, Recovery()).goodput >= expected_goodput(RAIL, job, Recovery()).goodput - 1e-9
    server = dict(SMALL, gpus=16384, hb_size=8, gpus_per_node=8, leaves=512, nvswitches=4)
    clos, rail = Site(any_to_any=True, optical=False, **server), Site(any_to_any=False, optical=False, **server)
    assert expected_goodput(clos, BOUND, Recovery()) == expected_goodput(rail, BOUND, Recovery())


def test_dual_homing_turns_network_failures_into_slowdowns():
    dual = CLOS._replace(dual_homed=True)
    stops = {c.name: c.stops_job for c in failure_classes(dual, BOUND, Recovery())}
    assert not stops["link"] and not stops["leaf"] and stops["gpu"]
    assert expected_goodput(dual, BOUND, Recovery()).mtbf_s > expected_goodput(CLOS, BOUND, Recovery()).mtbf_s


def test_no_failures_no_loss():
    perfect = expected_goodput(CLOS, BOUND, Recovery(interruptions_per_gpu_day=0))
    assert (perfect.goodput, perfect.spare_gpus, perfect.mtbf_s) == (1, 0, math.inf)


@given(st.floats(1e-6, 5e-3), st.floats(1.05, 4))
@settings(max_examples=30, deadline=None)
def test_more_failures_or_slower_restarts_never_help(rate, factor):
    for site in (CLOS, RAIL):
        base = Recovery(interruptions_per_gpu_day=rate)
        worse = base._replace(restart_s=base.restart_s * factor, checkpoint_s=base.checkpoint_s * factor)
        assert expected_goodput(site, BOUND, worse).useful_fraction <= expected_goodput(site, BOUND, base).useful_fraction
        more = base._replace(interruptions_per_gpu_day=rate * factor)
        assert expected_goodput(site, BOUND, more).mtbf_s < expected_goodput(site, BOUND, base).mtbf_s


def test_goodput_is_the_product_of_its_factors_and_losses_of_classes():
    got = expected_goodput(RAIL, BOUND, Recovery())
    assert got.goodput == pytest.approx(got.useful_fraction * got.in_service)
    lost = math.prod(1 - c.chosen.loss for c in failure_classes(RAIL, BOUND, Recovery()))
    assert got.in_service == pytest.approx(lost)
    for c in failure_classes(RAIL, BOUND, Recovery()):
        assert 0 <= c.chosen.loss <= 1
        assert c.chosen.loss <= min(r.loss for r in c.responses) + 1e-12  # sharing spares only helps
