"""`autotune traffic --hosts`: does an allocation keep the relays a plan needs."""

from __future__ import annotations

import pytest

from autotune.errors import InputError
from autotune.load import load_cluster, load_model
from autotune.plan import Plan
from autotune.tenancy import plan_relays
from autotune.traffic import job_of

PLAN = Plan(
    tensor_parallel=4, data_parallel=4, global_batch_size=16, stage_layers=(32,), sequence_parallel=True, fabric="rail-only"
)


@pytest.fixture
def job():
    return job_of(load_cluster("h100-rail-1024"), load_model("llama-3-8b"), PLAN)


def test_whole_nodes_keep_every_relay(job) -> None:
    assert plan_relays(job, "n[003,007]", "n[001-128]", 8)["kept"]


def test_half_nodes_leave_rails_without_a_local_gpu(job) -> None:
    # Hosts of four GPUs: two halves of different domains on different rails cannot reach one another.
    found = plan_relays(job, "h[001,004,005,008]", "h[001-256]", 4)
    assert not found["kept"]
    assert found["kinds"]["tensor"]["kept"] and not found["kinds"]["data"]["kept"]


def test_too_small_an_allocation_is_refused(job) -> None:
    with pytest.raises(InputError, match="holds 8 GPUs, the plan needs 16"):
        plan_relays(job, "n001", "n[001-128]", 8)
