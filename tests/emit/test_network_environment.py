"""The environment of a launch: what is set on which network and GPU."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.emit.job import layout
from autotune.emit.nccl import environment
from autotune.specs import GpuSpec

from .conftest import make_cluster, make_plan

# Documented variables of NCCL 2.30, RCCL, PyTorch and CUDA; anything else would do nothing.
KNOWN = {
    "NCCL_CROSS_NIC", "NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL", "NCCL_NET_MERGE_POLICY", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME", "CUDA_DEVICE_MAX_CONNECTIONS", "GPU_MAX_HW_QUEUES", "PYTORCH_CUDA_ALLOC_CONF", "OMP_NUM_THREADS",
}  # fmt: skip
AMD = GpuSpec(name="MI300X", vendor="AMD", memory_GiB=192, hbm_GBps=5300, bf16_TFLOPS=1307, scale_up_GBps=448)


def variables(fabric: str = "rail-only", gpus: int = 64, connections: int | None = 1, **cluster: Any) -> dict[str, str]:
    spec = make_cluster(gpus, network={"fabric": fabric}, **cluster)
    plan = make_plan(fabric=fabric, data_parallel=gpus // 16, global_batch_size=gpus)
    found = environment(spec, plan, layout(spec, plan), connections)
    assert all(v.why for v in found)
    return {v.name: v.value for v in found}


def test_rail_only_names_the_rails() -> None:
    found = variables(launch={"ib_hca": [f"mlx5_{i}" for i in range(8)], "socket_interface": "eno1"})
    assert found["NCCL_CROSS_NIC"] == "0" and found["NCCL_PXN_DISABLE"] == "0" and found["NCCL_P2P_PXN_LEVEL"] == "2"
    assert found["NCCL_NET_MERGE_POLICY"] == "RAIL"
    assert found["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7"
    assert found["NCCL_SOCKET_IFNAME"] == "eno1"


def test_a_fat_tree_is_left_to_nccl() -> None:
    assert not {k for k in variables("fat-tree") if k.startswith("NCCL_")} - {"NCCL_SOCKET_IFNAME"}


def test_one_domain_needs_no_network() -> None:
    spec = make_cluster(8)
    plan = make_plan(tensor_parallel=8, pipeline_parallel=1, data_parallel=1, stage_layers=(32,), global_batch_size=4)
    assert not [v for v in environment(spec, plan, layout(spec, plan), 1) if v.name.startswith("NCCL")]


def test_rccl_differs() -> None:
    found = variables(gpu=AMD)
    assert found["NCCL_PXN_DISABLE"] == "0"  # RCCL's default is 1
    assert "NCCL_NET_MERGE_POLICY" not in found and "NCCL_P2P_PXN_LEVEL" not in found
    assert found["GPU_MAX_HW_QUEUES"] == "2"


@pytest.mark.parametrize("fabric", ["rail-only", "rail-optimized", "fat-tree", "multi-plane"])
@pytest.mark.parametrize("gpu", [None, AMD])
def test_no_invented_variables(fabric: str, gpu: GpuSpec | None) -> None:
    assert set(variables(fabric, gpu=gpu)) <= KNOWN
