"""A search stored in PostgreSQL can be interrupted, resumed and read by other workers."""

from __future__ import annotations

import os
import uuid

import pytest

from autotune.search import SearchOptions, search
from autotune.specs import ClusterSpec, HbDomainSpec, ModelSpec, NetworkSpec, TrainingSpec

URL = os.environ.get("AUTOTUNE_TEST_POSTGRES", "")

CLUSTER = ClusterSpec(
    name="c", gpu="A100-80GB-SXM", gpus=16, hb_domain=HbDomainSpec(size=8, bandwidth_GBps=None), network=NetworkSpec(fabric="rail-only")
)
MODEL = ModelSpec(
    name="m", num_layers=8, hidden_size=1024, num_attention_heads=16, vocab_size=32000, seq_length=1024,
    training=TrainingSpec(global_batch_size=32),
)  # fmt: skip


@pytest.fixture
def url() -> str:
    if not URL:
        if os.environ.get("CI") == "true":
            pytest.fail("CI must give AUTOTUNE_TEST_POSTGRES")
        pytest.skip("AUTOTUNE_TEST_POSTGRES is not set")
    return URL


def test_resumed_search_equals_an_uninterrupted_one(url: str) -> None:
    name = f"test-{uuid.uuid4()}"
    search(CLUSTER, MODEL, SearchOptions(storage=url, study_name=name, trials=3))
    resumed = search(CLUSTER, MODEL, SearchOptions(storage=url, study_name=name, resume=True))
    fresh = search(CLUSTER, MODEL)
    assert [p.plan for p in resumed.plans] == [p.plan for p in fresh.plans]
    assert resumed.report["rejected"] == fresh.report["rejected"]
    assert resumed.report["exhaustive"]


def test_a_study_of_other_inputs_is_refused(url: str) -> None:
    from autotune.errors import InputError

    name = f"test-{uuid.uuid4()}"
    search(CLUSTER, MODEL, SearchOptions(storage=url, study_name=name, trials=2))
    other = MODEL.model_copy(update={"num_layers": 12})
    with pytest.raises(InputError, match="other inputs"):
        search(CLUSTER, other, SearchOptions(storage=url, study_name=name, resume=True))
