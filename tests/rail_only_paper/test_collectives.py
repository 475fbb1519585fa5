"""Collectives on an x by y grid: identities, and an explicit run of the hierarchical algorithms as oracle."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import rail_only_paper as paper

HB_BPS, NIC_BPS = 450e9, 50e9
members = st.integers(1, 64)
domains = st.integers(1, 64)


def run_all_gather(x: int, y: int) -> tuple[int, int]:
    """Blocks each GPU receives (through its NIC, inside its domain) when every GPU starts with its own block.

    First every GPU gathers the blocks of its rail, then each domain shares what its GPUs hold.
    """
    gpus = list(itertools.product(range(y), range(x)))
    held = {gpu: {gpu} for gpu in gpus}
    along_rail = {(d, r): {(other, r) for other in range(y)} - held[(d, r)] for d, r in gpus}
    for gpu, blocks in along_rail.items():
        held[gpu] |= blocks
    after_rail = {gpu: set(blocks) for gpu, blocks in held.items()}
    in_domain = {(d, r): set().union(*(after_rail[(d, q)] for q in range(x))) - after_rail[(d, r)] for d, r in gpus}
    assert all(held[gpu] | in_domain[gpu] == set(gpus) for gpu in gpus)
    return len(along_rail[(0, 0)]), len(in_domain[(0, 0)])


@pytest.mark.parametrize(("x", "y"), [(1, 1), (1, 4), (8, 1), (8, 4), (3, 5)])
def test_all_gather_moves_the_blocks_of_an_explicit_run(x: int, y: int) -> None:
    block = 1e6
    through_nic, inside = run_all_gather(x, y)
    expected = through_nic * block / NIC_BPS + inside * block / HB_BPS
    assert paper.all_gather_s(x * y * block, x, y, HB_BPS, NIC_BPS) == pytest.approx(expected, rel=1e-12)
    if x * y > 1:
        assert paper.nic_byte_share(x, y) == pytest.approx(through_nic / (through_nic + inside), rel=1e-12)


@given(x=members, y=domains, ratio=st.floats(1, 40))
def test_ratio_to_one_domain(x: int, y: int, ratio: float) -> None:
    if x * y == 1:
        return
    hierarchical = paper.all_gather_s(1e9, x, y, ratio * NIC_BPS, NIC_BPS)
    one_domain = paper.all_gather_s(1e9, x * y, 1, ratio * NIC_BPS, NIC_BPS)
    assert hierarchical / one_domain == pytest.approx(paper.all_gather_ratio(x, y, ratio), rel=1e-9)
    assert paper.all_gather_ratio(x, y, ratio) <= 1 + (ratio - 1) / x + 1e-12


def test_large_domains_approach_the_ideal() -> None:
    ratios = [paper.all_gather_ratio(x, 16, 9) for x in (1, 8, 64, 512, 4096)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 1.002


@given(x=st.integers(2, 64), y=st.integers(2, 64))
def test_the_rail_comes_first(x: int, y: int) -> None:
    """Sharing inside the domain first would send whole domains' blocks over the rail: x times the NIC time."""
    wrong = (x - 1) * 1e9 / (x * y * HB_BPS) + (y - 1) * 1e9 / (y * NIC_BPS)
    nic_only = paper.all_gather_s(1e9, x, y, float("inf"), NIC_BPS)
    assert (y - 1) * 1e9 / (y * NIC_BPS) == pytest.approx(x * nic_only, rel=1e-12)
    assert paper.all_gather_s(1e9, x, y, HB_BPS, NIC_BPS) < wrong


@given(x=members, y=domains)
def test_all_reduce_is_two_all_gathers(x: int, y: int) -> None:
    gather = paper.all_gather_s(3e9, x, y, HB_BPS, NIC_BPS)
    assert paper.all_reduce_s(3e9, x, y, HB_BPS, NIC_BPS) == 2 * gather
    assert (gather == 0) == (x * y == 1)


def all_to_all_bytes(hb_size: int, domains: int, block: float) -> tuple[float, float, float]:
    """Bytes the busiest GPU sends (NIC on a Clos, NIC on rail-only, inside on rail-only) when each sends each a block.

    On rail-only a block for another domain first goes to the local GPU on the destination's rail.
    """
    gpus = list(itertools.product(range(domains), range(hb_size)))
    clos_nic = dict.fromkeys(gpus, 0.0)
    rail_nic, inside = dict.fromkeys(gpus, 0.0), dict.fromkeys(gpus, 0.0)
    for source, target in itertools.product(gpus, gpus):
        if source[0] == target[0]:
            if source != target:
                inside[source] += block
            continue
        clos_nic[source] += block
        relay = (source[0], target[1])
        if relay != source:
            inside[source] += block
        rail_nic[relay] += block
    return max(clos_nic.values()), max(rail_nic.values()), max(inside.values())


@pytest.mark.parametrize(("hb_size", "domains"), [(2, 3), (4, 4), (8, 2)])
def test_all_to_all_moves_the_bytes_of_an_explicit_run(hb_size: int, domains: int) -> None:
    gpus, block = hb_size * domains, 1e6
    clos_nic, rail_nic, inside = all_to_all_bytes(hb_size, domains, block)
    clos = paper.all_to_all_s(gpus * block, gpus, hb_size, HB_BPS, NIC_BPS, False)
    rail = paper.all_to_all_s(gpus * block, gpus, hb_size, HB_BPS, NIC_BPS, True)
    assert clos == pytest.approx(clos_nic / NIC_BPS, rel=1e-12)
    assert rail == pytest.approx(rail_nic / NIC_BPS + inside / HB_BPS, rel=1e-12)
    assert rail / clos - 1 == pytest.approx(paper.all_to_all_slow_down(hb_size, domains, HB_BPS, NIC_BPS), rel=1e-9)


@pytest.mark.parametrize("k", [2, 8, 72, 256])
def test_slow_down_is_the_bandwidth_ratio_when_domains_equal_rails(k: int) -> None:
    assert paper.all_to_all_slow_down(k, k, 300e9, 25e9) == pytest.approx(1 / 12, rel=1e-12)


def test_slow_down_of_small_clusters() -> None:
    assert paper.all_to_all_slow_down(8, 16, HB_BPS, NIC_BPS) == pytest.approx(0.104, abs=5e-4)
    assert paper.all_to_all_slow_down(8, 4, HB_BPS, NIC_BPS) == pytest.approx(0.130, abs=5e-4)
