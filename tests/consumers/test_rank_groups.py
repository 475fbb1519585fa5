"""Process groups of `searchspaces.groups` against megatron-core's own rank generator, group by group."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from worker import PYTHON, Worker, available

from costmodels.examples import POINT
from costmodels.types import Point
from searchspaces.groups import KINDS, ORDERS, members, ranks

pytestmark = pytest.mark.consumers


@pytest.fixture(scope="module")
def generator() -> Iterator[Worker]:
    """The real rank generator."""
    if not available():
        reason = f"{PYTHON} is missing: run scripts/setup_consumers.sh"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    worker = Worker("rank_worker.py")
    yield worker
    worker.close()


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def draw(rng: random.Random) -> Point:
    """A random configuration whose expert grid divides a stage; half of the pp-before-dp ones are ones Megatron refuses."""
    while True:
        T, C, D, P = (rng.choice([1, 2, 3, 4, 6, 8]) for _ in range(4))
        stage = T * C * D
        if stage * P > 768:
            continue
        X = rng.choice(divisors(stage))
        E = rng.choice(divisors(stage // X))
        order = rng.randint(0, 1)
        if order == 1 and rng.random() < 0.5:
            X, E = rng.choice([(T, C), (1, T * C), (T * C, 1)])
        return POINT._replace(tensor=T, context=C, data=D, pipeline=P, expert=E, expert_tensor=X, order=order)


def test_every_group_of_300_random_configurations(generator: Worker) -> None:
    assert generator.versions["megatron_core"].startswith("0.19.")
    rng = random.Random(20261130)
    compared = refused = 0
    while compared < 300:
        point = draw(rng)
        answer = generator.ask(
            world=ranks(point), tp=point.tensor, cp=point.context, pp=point.pipeline, ep=point.expert, etp=point.expert_tensor,
            order=ORDERS[point.order],
        )  # fmt: skip
        if "refused" in answer:
            assert point.order == 1 and point.pipeline > 1
            assert point.expert * point.expert_tensor != point.tensor * point.context
            refused += 1
            continue
        for kind in KINDS:
            real = sorted(sorted(group) for group in answer["groups"][kind])
            assert members(point, kind).tolist() == real, (kind, point)
        compared += 1
    assert refused > 20
