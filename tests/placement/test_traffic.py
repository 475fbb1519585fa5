"""Bytes between GPUs against the brute-force pairs of small jobs, hand-worked volumes, and size limits."""

import json
import resource
import subprocess
import sys
from collections import defaultdict

import brute_groups
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_placement import points

from autotune.traffic import (
    Job,
    idle_pairs_share,
    kind_groups,
    matrix,
    pair_list,
    rail_report,
    summary,
    volumes_by_stage,
)
from costmodels.examples import MEGATRON_2021, POINT, TINY
from searchspaces.groups import coordinates, ranks

MOE = TINY._replace(layers=12, hidden=64, heads=8, kv_heads=8, experts=192, topk=4, expert_ffn=32, moe_every=2, dense_first=1, tied=1)


def brute_pairs(job):
    """{kind: {(source, target): bytes}} of a small job."""
    volumes = volumes_by_stage(job)
    stage = coordinates(job.point)["pp"]
    copies = min(1.0, job.model.route_topk_groups / job.model.topk) if job.model.route_topk_groups else 1.0
    found = {}
    for kind in brute_groups.AXES:
        pairs = defaultdict(float)
        for group in brute_groups.groups(job.point, kind):
            payload = getattr(volumes[stage[group[0]]], kind.replace("-", "_"))
            if len(group) > 1:
                for pair, nbytes in brute_groups.pairs(kind, group, payload, job.hb_size, job.point.chunks, copies).items():
                    pairs[pair] += nbytes
        pairs = {p: b for p, b in pairs.items() if b > 0}
        if pairs:
            found[kind] = pairs
    return found


@st.composite
def jobs(draw):
    point = draw(points(96))
    point = point._replace(
        micro_batches=draw(st.integers(1, 5)), chunks=draw(st.sampled_from([1, 2])) if point.pipeline > 1 else 1,
        seq_parallel=draw(st.integers(0, 1)), zero=draw(st.integers(0, 3)), recompute=draw(st.sampled_from([0, 2])), recompute_layers=1,
    )  # fmt: skip
    model = MOE._replace(route_topk_groups=draw(st.sampled_from([0, 1])), mtp=draw(st.integers(0, 1)))
    cuts = sorted(draw(st.lists(st.integers(0, 12), min_size=point.pipeline - 1, max_size=point.pipeline - 1)))
    layers = tuple(b - a for a, b in zip([0, *cuts], [*cuts, 12], strict=True))
    return Job(model, MEGATRON_2021, point, draw(st.sampled_from([1, 2, 4, 8, 6])), layers)


@settings(max_examples=80, deadline=None)
@given(jobs())
def test_pairs_and_totals_against_brute_force(job):
    expected = brute_pairs(job)
    got = defaultdict(dict)
    for kind, source, target, nbytes in pair_list(job):
        got[kind][source, target] = nbytes
    assert {k: set(v) for k, v in got.items()} == {k: set(v) for k, v in expected.items()}
    for kind, pairs in expected.items():
        assert got[kind] == pytest.approx(pairs, rel=1e-9)

    report, K = summary(job), job.hb_size
    classes = {k: {tuple(g): brute_groups.class_of(g, K) for g in brute_groups.groups(job.point, k)} for k in expected}
    rails = np.zeros(K)
    for kind, pairs in expected.items():
        relayable = {r for g, c in classes[kind].items() if c == "whole-domains" for r in g}
        direct = relayed = crossing = 0.0
        for (a, b), nbytes in pairs.items():
            if a // K == b // K:
                direct += nbytes
            elif a % K == b % K:
                direct += nbytes
                rails[b % K] += nbytes
            elif a in relayable:
                relayed += nbytes
                rails[b % K] += nbytes
            else:
                crossing += nbytes
        k = report["kinds"][kind]
        assert (k["direct"], k["relayed"], k["crossing"]) == pytest.approx((direct, relayed, crossing), rel=1e-9)
        assert k["bytes"] == pytest.approx(direct + relayed + crossing)
    assert list(report["rails"].values()) == pytest.approx(rails.tolist(), rel=1e-9)
    n = ranks(job.point)
    active = len(set().union(*expected.values())) if expected else 0
    assert idle_pairs_share(job) == pytest.approx(1 - active / (n * (n - 1)) if n > 1 else 1.0)
    assert matrix(job).sum() == pytest.approx(report["bytes"])


def test_shares_groups_and_tiers_add_up():
    job = Job(MOE, MEGATRON_2021, POINT._replace(tensor=4, data=16, pipeline=2, expert=16, micro_batches=4, zero=1), 8)
    report = summary(job)
    assert sum(k["share"] for k in report["kinds"].values()) == pytest.approx(1)
    assert sum(g["bytes"] for g in report["groups"]) == pytest.approx(report["bytes"])
    relayed = sum(k["relayed"] for k in report["kinds"].values())
    assert sum(report["tiers"].values()) == pytest.approx(report["bytes"] + relayed)  # a relayed byte travels twice
    assert report["tiers"]["rail"] == pytest.approx(sum(report["rails"].values()))


def test_dense_all_reduce_by_hand():
    """TINY on 4 replicas, ZeRO 0: 4 x 784 + 800 + 8 + 800 = 4,744 parameters, 2 bytes, 2 x 3/4 of it from each of 4 GPUs."""
    [(kind, *_)] = {(k, s) for k, s, _, _ in pair_list(Job(TINY, MEGATRON_2021, POINT._replace(data=4), 8)) if s == 0}
    assert kind == "data"
    assert summary(Job(TINY, MEGATRON_2021, POINT._replace(data=4), 8))["bytes"] == 4 * 2 * 0.75 * 2 * 4744


def test_pipeline_bytes_by_hand():
    """16 tokens x 8 x 2 bytes = 256; 3 micro-batches, 2 stages, both ways; two chunks cross 3 boundaries instead of 1."""
    point = POINT._replace(pipeline=2, micro_batches=3)
    flat = summary(Job(TINY, MEGATRON_2021, point, 8))["kinds"]["pipeline"]["bytes"]
    assert flat == 2 * 3 * 256
    assert summary(Job(TINY, MEGATRON_2021, point._replace(chunks=2), 8))["kinds"]["pipeline"]["bytes"] == 3 * flat


def test_rail_report_names_what_needs_other_links():
    clean = rail_report(TINY, MEGATRON_2021, POINT._replace(tensor=8, data=8), 8)
    assert clean["compatible"] and clean["cross_rail_bytes"] == 0
    crossed = rail_report(TINY, MEGATRON_2021, POINT._replace(tensor=2, context=3, data=4), 8)
    assert not crossed["compatible"] and crossed["cross_rail_bytes"] > 0
    assert {g["kind"] for g in crossed["groups"] if g["class"] == "illegal"} == {"context"}
    relayed = rail_report(MOE, MEGATRON_2021, POINT._replace(tensor=1, data=32, expert=32, zero=1), 8)
    assert relayed["compatible"] and relayed["relayed_bytes"] > 0


def test_layers_that_do_not_add_up_are_refused():
    with pytest.raises(ValueError, match="do not share out 4 layers over 2 stages"):
        volumes_by_stage(Job(TINY, MEGATRON_2021, POINT._replace(pipeline=2), 8, (3, 2)))


def test_kinds_without_bytes_or_members_are_left_out():
    job = Job(TINY, MEGATRON_2021, POINT._replace(tensor=2, data=2, expert=2), 8)
    assert [item.kind for item in kind_groups(job)] == ["tensor", "data"]


BIG = """
import json, resource, time
from autotune.traffic import Job, idle_pairs_share, matrix, rail_report, summary
from costmodels.examples import MEGATRON_2021, POINT, TINY
model = TINY._replace(layers=64, experts=256, topk=8, expert_ffn=32, tied=1)
point = POINT._replace(tensor=8, pipeline=16, data=256, expert=256, micro_batches=32, chunks=2, zero=1, seq_parallel=1)
job = Job(model, MEGATRON_2021, point, 8)
start = time.process_time()
rail_report(*job[:4])
report = time.process_time() - start
found = summary(job)
found["idle"], found["sum"] = idle_pairs_share(job), float(matrix(job).sum())
found["report_s"], found["seconds"] = report, time.process_time() - start
found["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps(found))
"""


def test_32768_ranks_within_ten_seconds_and_two_gigabytes():
    found = json.loads(subprocess.run([sys.executable, "-c", BIG], capture_output=True, text=True, check=True).stdout)
    assert found["gpus"] == 32768 and found["sum"] == pytest.approx(found["bytes"])
    assert found["seconds"] < 10 and found["report_s"] < 5  # both hold the compiler's start-up
    assert found["peak_bytes"] < 2e9
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
