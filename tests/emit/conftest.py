"""Specs shared by the emission tests."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.plan import Plan
from autotune.specs import ClusterSpec, GpuSpec, ModelSpec


def make_cluster(gpus: int = 64, **fields: Any) -> ClusterSpec:
    gpu = fields.pop("gpu", None) or GpuSpec(name="H100-80GB-SXM", memory_GiB=80, hbm_GBps=3350, bf16_TFLOPS=989, scale_up_GBps=450)
    fields.setdefault("network", {"fabric": "rail-only"})
    return ClusterSpec(name="test-cluster", gpu=gpu, gpus=gpus, **fields)


def make_model(**fields: Any) -> ModelSpec:
    base: dict[str, Any] = {
        "name": "llama-like", "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_query_groups": 8,
        "ffn_hidden_size": 11008, "swiglu": True, "vocab_size": 32000, "seq_length": 4096, "normalization": "RMSNorm",
        "add_bias_linear": False, "untie_embeddings_and_output_weights": True,
    }  # fmt: skip
    return ModelSpec(**{**base, **fields})


def make_plan(**fields: Any) -> Plan:
    base: dict[str, Any] = {
        "tensor_parallel": 4, "pipeline_parallel": 4, "data_parallel": 4, "global_batch_size": 64, "sequence_parallel": True,
        "stage_layers": (8, 8, 8, 8), "fabric": "rail-only",
    }  # fmt: skip
    return Plan(**{**base, **fields})


@pytest.fixture
def cluster() -> ClusterSpec:
    return make_cluster()


@pytest.fixture
def model() -> ModelSpec:
    return make_model()


@pytest.fixture
def plan() -> Plan:
    return make_plan()
