"""The preflight script's own judgement, on recorded tool output."""

from __future__ import annotations

from typing import Any

import pytest

from autotune.emit.preflight import script

from .conftest import make_cluster, make_model, make_plan

TOPOLOGY = """\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tNV18\tNV18\tPIX\tNODE\tSYS\tSYS\t0-55\t0\tN/A
GPU1\tNV18\t X \tNV18\tNV18\tNODE\tPIX\tSYS\tSYS\t0-55\t0\tN/A
GPU2\tNV18\tNV18\t X \tNV18\tSYS\tSYS\tPIX\tNODE\t56-111\t1\tN/A
GPU3\tNV18\tNV18\tNV18\t X \tSYS\tSYS\tNODE\tPIX\t56-111\t1\tN/A
NIC0\tPIX\tNODE\tSYS\tSYS\t X \tNODE\tSYS\tSYS\t\t\t
NIC1\tNODE\tPIX\tSYS\tSYS\tNODE\t X \tSYS\tSYS\t\t\t
NIC2\tSYS\tSYS\tPIX\tNODE\tSYS\tSYS\t X \tNODE\t\t\t
NIC3\tSYS\tSYS\tNODE\tPIX\tSYS\tSYS\tNODE\t X \t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
  NIC2: mlx5_10
  NIC3: mlx5_11
"""


@pytest.fixture
def preflight() -> dict[str, Any]:
    model = make_model(num_experts=8, moe_ffn_hidden_size=1024)
    plan = make_plan(tensor_parallel=2, pipeline_parallel=2, data_parallel=2, context_parallel=2, expert_parallel=4, stage_layers=(16, 16),
                     hb_domain_size=4)  # fmt: skip
    space: dict[str, Any] = {"__name__": "preflight"}
    exec(compile(script(model, make_cluster(16, gpus_per_node=4), plan), "preflight.py", "exec"), space)
    return space


def test_a_good_host_has_no_problems(preflight: dict[str, Any]) -> None:
    devices, links = preflight["parse_topology"](TOPOLOGY)
    assert devices == ["GPU0", "GPU1", "GPU2", "GPU3", "mlx5_0", "mlx5_1", "mlx5_10", "mlx5_11"]
    assert preflight["domain_problems"](links, 4, 4) == []
    assert preflight["nic_problems"](links, devices, 4, ["mlx5_0", "mlx5_1", "mlx5_10", "mlx5_11"]) == []
    assert preflight["nic_problems"](links, devices, 4, []) == []


def test_a_missing_nvlink_is_found(preflight: dict[str, Any]) -> None:
    _, links = preflight["parse_topology"](TOPOLOGY.replace("GPU1\tNV18", "GPU1\tSYS").replace(" X \tNV18", " X \tSYS", 1))
    assert preflight["domain_problems"](links, 4, 4) == ["GPU0 and GPU1 belong to one high-bandwidth domain but are joined by SYS"]
    assert preflight["domain_problems"](links, 4, 1) == []


def test_swapped_rails_are_found(preflight: dict[str, Any]) -> None:
    devices, links = preflight["parse_topology"](TOPOLOGY)
    found = preflight["nic_problems"](links, devices, 4, ["mlx5_1", "mlx5_0", "mlx5_10", "mlx5_11"])
    assert found[0] == "GPU0 should use mlx5_1 (its rail), but mlx5_0 is nearer" and len(found) == 2
    assert "mlx5_9 is not on this host" in preflight["nic_problems"](links, devices, 4, ["mlx5_9", "mlx5_1", "mlx5_10", "mlx5_11"])[0]
    swapped = TOPOLOGY.replace("NIC0: mlx5_0", "NIC0: mlx5_12")
    devices, links = preflight["parse_topology"](swapped)
    assert "GPU order is not rail order" in preflight["nic_problems"](links, devices, 4, [])[0]


def test_ranks_must_fill_hosts_in_blocks(preflight: dict[str, Any]) -> None:
    good = [f"h{i // 4}" for i in range(16)]
    assert preflight["placement_problems"](good) == []
    assert "ranks 0 to 3 should share a host" in preflight["placement_problems"](["h1", "h0", *good[2:]])[0]
    assert "run on 3" in preflight["placement_problems"]([*good[:12], *["h0"] * 4])[0]


def test_groups_are_those_of_the_rank_map(preflight: dict[str, Any]) -> None:
    groups = preflight["group_lists"]()
    assert groups["tp"][0] == [0, 1] and groups["cp"][0] == [0, 2] and groups["dp"][0] == [0, 4] and groups["pp"][0] == [0, 8]
    assert groups["ep"][0] == [0, 1, 2, 3] and groups["edp"][0] == [0, 4] and groups["dp x cp"][0] == [0, 2, 4, 6]
    assert preflight["rail_groups"]()[1] == [1, 5, 9, 13]
