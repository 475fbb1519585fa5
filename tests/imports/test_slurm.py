"""Slurm files, host lists, and combinations of sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.importers import slurm
from autotune.importers.hostlist import expand
from autotune.importers.run import Request, import_cluster

FOLDER = Path(__file__).parent / "hosts"


def test_pods_of_a_tree() -> None:
    result = import_cluster(Request(slurm_topology=str(FOLDER / "slurm_topology_rail_pods.conf"), gpu="H100"))
    assert result.cluster.gpus == 128 and len(result.cluster.launch.nodes) == 16
    assert any("4 leaf switches of 4, 2 tier(s)" in n for n in result.draft.notes)
    assert any("cannot express" in u for u in result.draft.unknown)


def test_link_speeds_give_oversubscription_and_uneven_pods_are_reported() -> None:
    result = import_cluster(Request(slurm_topology=str(FOLDER / "slurm_topology_oversubscribed.conf"), instance="p5.48xlarge"))
    assert result.cluster.network.oversubscription == 4  # 16 hosts x 400 over one link of 1600
    assert result.cluster.gpus == 31 * 8
    assert any(n.startswith("uneven") and "leaf1 16" in n for n in result.draft.notes)


def test_a_node_without_a_switch_is_reported() -> None:
    path = str(FOLDER / "slurm_topology_oversubscribed.conf")
    result = import_cluster(Request(slurm_topology=path, instance="p5.48xlarge", hostlist="a[01-30],b[01-02]"))
    assert any("b02" in n and "no switch" in n for n in result.draft.notes)
    assert result.cluster.launch.nodes[-1] == "b02" and result.cluster.gpus == 256


def test_blocks_of_a_rack_are_the_domain() -> None:
    result = import_cluster(Request(slurm_topology=str(FOLDER / "slurm_topology_nvl72_blocks.yaml"), gpu="GB200"))
    assert (result.cluster.gpus, result.cluster.gpus_per_node, result.cluster.hb_domain.size) == (144, 4, 72)


def test_blocks_of_other_gpus_are_only_pods() -> None:
    result = import_cluster(Request(slurm_topology=str(FOLDER / "slurm_topology_nvl72_blocks.yaml"), gpu="H100"))
    assert result.cluster.hb_domain.size == 8


def test_yaml_tree() -> None:
    data = [{"topology": "t", "tree": {"switches": [{"switch": "top", "children": "s[1-2]"}, {"switch": "s1", "nodes": "n[1-2]"},
                                                    {"switch": "s2", "nodes": "n[3-4]"}]}}]
    found = slurm.topology_from_yaml(data)
    assert (found.kind, found.tiers, found.nodes) == ("tree", 2, ["n1", "n2", "n3", "n4"])


def test_block_conf() -> None:
    found = slurm.parse_topology_conf("BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n")
    assert found.kind == "block" and found.block_sizes == [4, 8] and len(found.nodes) == 8


def test_three_tiers_and_continued_lines() -> None:
    text = "SwitchName=a Nodes=n1,\\\nn2\nSwitchName=b Switches=a # comment\nSwitchName=c Switches=b\n"
    found = slurm.parse_topology_conf(text)
    assert (found.tiers, found.nodes) == (3, ["n1", "n2"])


@pytest.mark.parametrize(("text", "line", "words"), [
    ("", 1, "no SwitchName"),
    ("hello world\n", 1, "not Key=Value"),
    ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", 2, "defined twice"),
    ("SwitchName=a Switches=nowhere\n", 1, "not defined"),
    ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", 1, "above itself"),
    ("SwitchName=a Nodes=n[1-\n", 1, "not closed"),
    ("SwitchName=a Nodes=n1 Colour=red\n", 1, "unknown key"),
    ("SwitchName=a Nodes=n1 LinkSpeed=fast\n", 1, "LinkSpeed"),
    ("\n\nNodes=n1\n", 3, "neither SwitchName"),
])
def test_bad_topology_conf(text: str, line: int, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        slurm.parse_topology_conf(text, "topology.conf")
    assert (caught.value.problems[0].file, caught.value.problems[0].line) == ("topology.conf", line)


@pytest.mark.parametrize("data", [None, {}, [], [1], [{"topology": "x", "block": {"blocks": 3}}],
                                  [{"topology": "x", "block": {"blocks": [{"block": "b", "nodes": "n1"}], "block_sizes": ["a"]}}],
                                  [{"topology": "x", "tree": {"switches": [{"nodes": "n1"}]}}],
                                  [{"topology": "x", "tree": {"switches": [{"switch": "a", "children": "b"}]}}]])
def test_bad_topology_yaml(data: object) -> None:
    with pytest.raises(InputError):
        slurm.topology_from_yaml(data, "topology.yaml")


SCONTROL = """NodeName=gpu001 Arch=x86_64 CoresPerSocket=56
   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.50
   Gres=gpu:nvidia_h100_80gb_hbm3:8(S:0-1)
   NodeAddr=gpu001 NodeHostName=gpu001 Version=24.05.1
   State=IDLE ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   CfgTRES=cpu=224,mem=2000G,billing=224,gres/gpu=8

NodeName=gpu002 Arch=x86_64 CoresPerSocket=56
   Gres=gpu:nvidia_h100_80gb_hbm3:8(S:0-1)
   State=DOWN+DRAIN ThreadsPerCore=2
   CfgTRES=cpu=224,gres/gpu=8

NodeName=login1 Arch=x86_64 CoresPerSocket=16
   Gres=(null)
   State=IDLE
"""


def test_scontrol(tmp_path: Path) -> None:
    found = slurm.parse_scontrol(SCONTROL)
    assert (found.nodes, found.gpus_per_node, found.product) == (["gpu001", "gpu002"], 8, "nvidia_h100_80gb_hbm3")
    assert "gpu002" in found.notes[0]
    path = tmp_path / "nodes.txt"
    path.write_text(SCONTROL)
    cluster = import_cluster(Request(scontrol=str(path))).cluster
    assert (cluster.gpu, cluster.gpus, cluster.gpus_per_node) == ("H100-80GB-SXM", 16, 8)


def test_scontrol_on_one_line_and_without_type() -> None:
    found = slurm.parse_scontrol("NodeName=n1 State=IDLE Gres=(null) CfgTRES=cpu=1,gres/gpu=4,gres/gpu:a100=4\n")
    assert (found.gpus_per_node, found.product) == (4, "a100")


@pytest.mark.parametrize("text", ["", "Node x not found", "NodeName=a State=IDLE Gres=(null)\n"])
def test_bad_scontrol(text: str) -> None:
    with pytest.raises(InputError):
        slurm.parse_scontrol(text, "nodes.txt")


@pytest.mark.parametrize(("text", "hosts"), [
    ("node[001-004,7]", ["node001", "node002", "node003", "node004", "node7"]),
    ("a,b,a", ["a", "b"]),
    ("n[8-10]", ["n8", "n9", "n10"]),
    ("r[1-2]n[01-02]-ib", ["r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"]),
    ("n[1-9:4]", ["n1", "n5", "n9"]),
    (" x1 , x2\n", ["x1", "x2"]),
])
def test_host_lists(text: str, hosts: list[str]) -> None:
    assert expand(text) == hosts


@pytest.mark.parametrize("text", ["", ",", "n[", "n]", "n[1-", "n[[1]]", "n[a-b]", "n[5-1]", "n[1-999999999]", "n[1-9:0]",
                                  "n[1-999][1-999][1-999]", "n;rm", "n[]", "n[1,,2]", "n$(x)"])
def test_bad_host_lists(text: str) -> None:
    with pytest.raises(InputError):
        expand(text, key="--hostlist")


@given(st.integers(0, 200), st.integers(0, 60), st.integers(1, 4))
def test_a_range_has_its_length_and_padding(first: int, more: int, width: int) -> None:
    hosts = expand(f"n[{first:0{width}d}-{first + more}]")
    assert len(hosts) == more + 1 and hosts[0] == f"n{first:0{width}d}"
