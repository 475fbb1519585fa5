"""Allocations with and without holes against a brute-force check of every pair."""

from __future__ import annotations

import random

import pytest

from autotune.errors import InputError
from autotune.tenancy import allocated_gpus, expand_hostlist, node_indexes, relays_kept


def brute(allocated, groups, hb_size):
    """Every ordered pair: same domain, same rail, or a group member in the sender's domain on the receiver's rail."""
    direct = relayed = 0
    broken = set()
    for index, ranks in enumerate(groups):
        gpus = [allocated[r] for r in ranks]
        for a in gpus:
            for b in gpus:
                if a == b:
                    continue
                if a // hb_size == b // hb_size or a % hb_size == b % hb_size:
                    direct += 1
                elif (a // hb_size) * hb_size + b % hb_size in gpus:
                    relayed += 1
                else:
                    broken.add(index)
    return direct, relayed, broken


def test_against_brute_force():
    rng = random.Random(3)
    for _ in range(200):
        hb = rng.choice([2, 4, 8])
        allocated = sorted(rng.sample(range(hb * 6), rng.randint(4, hb * 6)))
        groups = [rng.sample(range(len(allocated)), rng.randint(1, len(allocated))) for _ in range(3)]
        got = relays_kept(allocated, groups, hb)
        direct, relayed, broken = brute(allocated, groups, hb)
        assert (got.direct_pairs, got.relayed_pairs) == (direct, relayed)
        assert {x.group for x in got.lost} == broken
        assert got.kept == (not broken)


def test_whole_domains_keep_everything_and_a_hole_does_not():
    """NVL72-like: domains of two nodes of four GPUs. Experts over 16 GPUs need every relay of both domains."""
    whole = allocated_gpus([0, 1, 2, 3], 4)
    assert relays_kept(whole, [range(16)], 8).kept
    holed = allocated_gpus([0, 1, 2, 5], 4)
    got = relays_kept(holed, [range(16)], 8)
    assert not got.kept
    assert got.lost[0].group == 0


def test_a_hole_shifts_ranks_off_their_rail():
    holed = allocated_gpus([0, 3], 4)  # the second node starts on rail 4 of its domain
    assert not relays_kept(holed, [[0, 4]], 8).kept
    assert relays_kept(allocated_gpus([0, 2], 4), [[0, 4]], 8).kept


def test_hostlists():
    nodes = expand_hostlist("gpu[001-004]")
    assert nodes == ["gpu001", "gpu002", "gpu003", "gpu004"]
    assert node_indexes("gpu[001,003-004]", nodes) == [0, 2, 3]
    assert expand_hostlist("rack[1-2]-n, x") == ["rack1-n", "rack2-n", "x"]


@pytest.mark.parametrize("text", ["gpu[1-", "gpu[a-b]", "gpu[3-1]", "gpu]1[", "g[1-9999999]"])
def test_bad_hostlists(text):
    with pytest.raises(InputError):
        expand_hostlist(text)


def test_unknown_node():
    with pytest.raises(InputError, match="gpu9"):
        node_indexes("gpu9", ["gpu1"])


def test_rank_outside_the_allocation():
    with pytest.raises(ValueError, match="rank 5"):
        relays_kept([0, 1], [[5]], 2)
