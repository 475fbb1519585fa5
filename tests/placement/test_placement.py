"""Groups and their classes against nested loops, and against the kernel's own closed forms."""

import brute_groups
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from costmodels.examples import POINT
from costmodels.groups import unreachable_group
from costmodels.topology import CLASS_NAMES, reach_class
from searchspaces import placement
from searchspaces.groups import KINDS, coordinates, group_shape, members, ranks

degree = st.sampled_from([1, 2, 3, 4, 6, 8])


@st.composite
def points(draw, most=384):
    T, C, D, P = draw(degree), draw(st.sampled_from([1, 1, 2, 4])), draw(degree), draw(st.sampled_from([1, 2, 3, 4]))
    stage = T * C * D
    assume(stage * P <= most)
    X = draw(st.sampled_from([d for d in range(1, stage + 1) if stage % d == 0 and d <= 8]))
    E = draw(st.sampled_from([d for d in range(1, stage // X + 1) if (stage // X) % d == 0 and d <= 32]))
    return POINT._replace(
        tensor=T, context=C, data=D, pipeline=P, expert=E, expert_tensor=X, order=draw(st.sampled_from([0, 1]))
    )


@settings(max_examples=120, deadline=None)
@given(points(), st.sampled_from(KINDS))
def test_groups_are_the_ranks_that_agree_on_every_other_axis(point, kind):
    assert members(point, kind).tolist() == brute_groups.groups(point, kind)


@settings(max_examples=120, deadline=None)
@given(points(), st.sampled_from(KINDS))
def test_groups_of_one_kind_are_one_set_of_offsets(point, kind):
    """What lets `autotune.traffic` tell groups apart by their first rank alone."""
    groups = members(point, kind)
    assert (groups - groups[:, :1] == groups[0] - groups[0, 0]).all()


@settings(max_examples=120, deadline=None)
@given(points(), st.sampled_from(KINDS), st.sampled_from([1, 2, 4, 6, 8, 16, 72]))
def test_classes_follow_the_definition(point, kind, K):
    groups = members(point, kind)
    got = [CLASS_NAMES[c] for c in placement.classify(groups, K)]
    assert got == [brute_groups.class_of(g, K) for g in groups.tolist()]
    counts = placement.class_counts(point, K, kind)
    assert sum(counts.values()) == len(groups) and all(counts[c] == got.count(c) for c in counts)


@settings(max_examples=200, deadline=None)
@given(points(), st.sampled_from([2, 4, 8, 16]), st.sampled_from(["tensor", "context", "expert", "expert-tensor", "expert-data", "pipeline"]))
def test_the_kernels_closed_form_never_passes_what_is_illegal(point, K, kind):
    """`reach_class` judges by stride and size alone; on jobs of whole domains it must match the worst real group."""
    assume(ranks(point) % K == 0)
    shape = group_shape(point, kind)
    assume(shape.size > 1)
    assert CLASS_NAMES[reach_class(K, shape.axes[0].stride, shape.size)] == placement.worst_class(point, K, kind)


@settings(max_examples=200, deadline=None)
@given(points(), st.sampled_from([2, 4, 8, 16]), st.booleans(), st.booleans())
@example(POINT._replace(tensor=1, pipeline=2, data=6, expert=1, expert_tensor=6, chunks=1, order=1), 4, True, False)
def test_the_kernels_rail_check_agrees_with_the_real_groups(point, K, experts, tied):
    from costmodels.examples import EIGHT_H100

    assume(ranks(point) % K == 0)
    net = EIGHT_H100._replace(gpus=ranks(point), hb_size=K, any_to_any=0)
    illegal = placement.illegal_kinds(point, K, tied=tied, experts=experts)
    assert bool(unreachable_group(net, point, int(experts) * 8, int(tied))) == bool(illegal), illegal


@settings(max_examples=60, deadline=None)
@given(points())
def test_coordinates_rebuild_the_rank(point):
    # Megatron refuses grids whose pipeline groups differ (pipeline inside data, other inner sizes)
    assume(point.order == 0 or point.expert * point.expert_tensor == point.tensor * point.context)
    place = coordinates(point)
    for names, kinds in ((("tp", "cp", "dp", "pp"), ("tensor", "context", "data", "pipeline")), (("etp", "ep", "edp", "pp"), ())):
        seen = set(zip(*(place[n].tolist() for n in names), strict=True))
        assert len(seen) == ranks(point)
        for kind in kinds:
            for row in members(point, kind):
                fixed = [n for n in names if n not in {"tensor": "tp", "context": "cp", "pipeline": "pp", "data": "cpdp"}[kind]]
                assert all(len(set(place[n][row].tolist())) == 1 for n in fixed)


def test_published_example_of_a_32768_gpu_job():
    """T = 8, P = 16, D = 256 on domains of 256: tensor inside, pipeline on one rail, data in 8 domains of 32 members."""
    point = POINT._replace(tensor=8, pipeline=16, data=256)
    assert placement.class_counts(point, 256, "tensor") == {"in-domain": 4096}
    assert placement.class_counts(point, 256, "pipeline") == {"one-rail": 2048}
    assert placement.class_counts(point, 256, "data") == {"whole-domains": 128}
    assert placement.class_counts(point, 8, "data") == {"one-rail": 128}


def test_bad_inputs_say_what_is_wrong():
    with pytest.raises(ValueError, match="does not divide the 6 ranks"):
        members(POINT._replace(tensor=6, expert=4), "expert")
    with pytest.raises(ValueError, match="unknown kind"):
        members(POINT, "zigzag")


def test_domains_and_rails():
    domain, rail = placement.domain_and_rail(np.arange(24), 8)
    assert domain.tolist() == [r // 8 for r in range(24)] and rail.tolist() == [r % 8 for r in range(24)]
