"""Every fixture machine imports with the right GPU, domain, rails, NICs and bandwidth, and the file loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune import catalogue
from autotune.errors import InputError
from autotune.importers import nccl_xml, nvidia_smi
from autotune.importers.facts import Host
from autotune.importers.gpu_names import match
from autotune.importers.instances import find_instance
from autotune.importers.nearest import domain, rails
from autotune.importers.run import Imported, Request, import_cluster

FOLDER = Path(__file__).parent / "hosts"

# file, GPU given on the command line, then expected: GPU, domain size, domain GB/s, NICs used, rails, Gbit/s per GPU
SMI = [
    ("topo_2gpu_nv2", "RTX-3090", "RTX-3090-24GB", 2, 28.125, 0, 0, None),
    ("topo_2gpu_phb", "RTX-4090", "RTX-4090-24GB", 2, "pcie", 0, 0, None),
    ("topo_2x5090_phb", "RTX-5090", "RTX-5090-32GB", 2, "pcie", 0, 0, None),
    ("topo_4x4090_pcie", "RTX-4090", "RTX-4090-24GB", 4, "pcie", 1, 1, None),
    ("topo_8hopper_4nic_shared", "H100", "H100-80GB-SXM", 8, 450, 4, 4, 200),
    ("topo_a100_8gpu_nv12", None, "A100-80GB-SXM", 8, 300, 0, 0, 200),
    ("topo_dgx2_16gpu_10nic", None, "V100-32GB-SXM", 16, 150, 8, 8, 50),
    ("topo_dgx_a100_8gpu_12nic", "A100-40GB", "A100-40GB-SXM", 8, 300, 8, 8, 200),
    ("topo_h100_8gpu_12nic", None, "H100-80GB-SXM", 8, 450, 8, 8, 400),
    ("topo_h100_8gpu_nv18", None, "H100-80GB-SXM", 8, 450, 0, 0, 400),
    ("topo_h800_8gpu_9nic", None, "H800-80GB-SXM", 8, 200, 8, 8, 400),
]


@pytest.mark.parametrize(("file", "given", "gpu", "size", "GBps", "nics", "count", "Gbps"), SMI, ids=[s[0] for s in SMI])
def test_nvidia_smi(file: str, given: str | None, gpu: str, size: int, GBps: float | str, nics: int, count: int, Gbps: float | None) -> None:
    result = import_cluster(Request(smi_topo=str(FOLDER / f"{file}.txt"), gpu=given, nodes=4))
    cluster = result.cluster
    assert (cluster.gpu, cluster.hb_domain.size) == (gpu, size)
    entry = catalogue.find_gpu(gpu)
    assert cluster.hb_domain.bandwidth_GBps == (entry.pcie_GBps if GBps == "pcie" else GBps)
    assert (result.draft.host["nics"] or 0, result.draft.host.get("rails", 0)) == (nics, count)
    if Gbps is not None:
        assert cluster.network.nic_Gbps == Gbps
    assert cluster.gpus == 4 * cluster.gpus_per_node


def report(file: str, **options: object) -> dict:
    return import_cluster(Request(smi_topo=str(FOLDER / f"{file}.txt"), **options)).draft.host  # type: ignore[arg-type]


def test_nic_order_is_not_gpu_order() -> None:
    assert report("topo_h800_8gpu_9nic")["gpu_to_nic"] == [2, 4, 6, 8, 1, 3, 5, 7]
    assert report("topo_h800_8gpu_9nic")["unused_nics"] == ["NIC0"]


def test_storage_nics_in_between_are_left_out() -> None:
    assert report("topo_h100_8gpu_12nic")["gpu_to_nic"] == [0, 3, 4, 5, 6, 9, 10, 11]
    assert report("topo_h100_8gpu_12nic")["unused_nics"] == ["NIC1", "NIC2", "NIC7", "NIC8"]


def test_two_gpus_and_two_nics_behind_one_switch_get_one_each() -> None:
    assert report("topo_dgx_a100_8gpu_12nic")["gpu_to_nic"] == [0, 1, 2, 3, 6, 7, 8, 9]


def test_shared_nics_halve_the_rate() -> None:
    host = report("topo_8hopper_4nic_shared", nodes=2)
    assert host["gpu_to_nic"] == [0, 1, 2, 3, 0, 1, 2, 3] and host["gpus_per_nic"] == 2


def test_device_names_become_the_hca_list_in_rail_order() -> None:
    result = import_cluster(Request(smi_topo=str(FOLDER / "topo_dgx2_16gpu_10nic.txt")))
    assert result.cluster.launch.ib_hca == [f"mlx5_{i}" for i in range(8)]
    assert result.draft.host["unused_nics"] == ["mlx5_8", "mlx5_9"]


def test_the_legend_gives_device_names() -> None:
    text = (FOLDER / "topo_h800_8gpu_9nic.txt").read_text() + "\nNIC Legend:\n\n" + "".join(f"  NIC{i}: mlx5_bond_{i}\n" for i in range(9))
    host = nvidia_smi.parse_topology(text)
    assert [n.device for n in host.nics][2] == "mlx5_bond_2"


def test_colours_and_spaces_do_not_matter() -> None:
    text = (FOLDER / "topo_dgx_a100_8gpu_12nic.txt").read_text()
    plain = nvidia_smi.parse_topology(text)
    coloured = nvidia_smi.parse_topology(text.replace("\tGPU0\tGPU1", "\t\x1b[4mGPU0\tGPU1", 1).replace("NUMA Affinity", "NUMA Affinity\tGPU NUMA ID\x1b[0m", 1))
    spaced = nvidia_smi.parse_topology(text.replace("\t", "    "))
    assert plain.near == coloured.near == spaced.near and plain.links == spaced.links


def test_a_dead_nic_warns_and_derates() -> None:
    lines = (FOLDER / "topo_h800_8gpu_9nic.txt").read_text().splitlines()
    header = next(i for i, t in enumerate(lines) if "NIC8" in t)
    rows = [t.split("\t") for t in lines[header:]]
    column = rows[0].index("NIC8")
    text = "\n".join("\t".join(r[:column] + r[column + 1 :]) for r in rows if r[0] != "NIC8")
    host = nvidia_smi.parse_topology(text)
    found = rails(host.near)
    assert found.count == 7 and max(found.sharers(n) for n in found.used) == 2


def test_several_nics_per_gpu() -> None:
    near = [["PIX" if n // 4 == g else "SYS" for n in range(8)] for g in range(2)]
    found = rails(near)
    assert found.gpu_to_nics == [[0, 1, 2, 3], [4, 5, 6, 7]] and found.count == 2


def test_hybrid_cube_mesh_is_one_domain() -> None:
    """DGX-1: eight V100 with six links each and no switch."""
    quad = [[0, 1, 1, 2], [1, 0, 2, 1], [1, 2, 0, 2], [2, 1, 2, 0]]
    links = [[0] * 8 for _ in range(8)]
    for base in (0, 4):
        for a in range(4):
            for b in range(4):
                links[base + a][base + b] = quad[a][b]
    for a in range(4):
        links[a][a + 4] = links[a + 4][a] = 1
    found = domain(Host("", 8, links=links))
    assert (found.size, found.kind, found.links) == (8, "ring", 6)


def test_one_tray_of_a_rack_scale_domain(tmp_path: Path) -> None:
    path = tmp_path / "tray.txt"
    rows = ["\t".join([f"GPU{a}", *(" X " if a == b else "NV18" for b in range(4))]) for a in range(4)]
    path.write_text("\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\n" + "\n".join(rows))
    cluster = import_cluster(Request(smi_topo=str(path), gpu="GB200", nodes=36)).cluster
    assert (cluster.gpus, cluster.hb_domain.size, cluster.hb_domain.bandwidth_GBps) == (144, 72, 900)


def test_bridged_pairs_make_domains_of_two() -> None:
    links = [[0, 4, 0, 0], [4, 0, 0, 0], [0, 0, 0, 4], [0, 0, 4, 0]]
    assert domain(Host("", 4, links=links)).size == 2


NCCL = [
    ("nccl_topo_aws_p4d_24xlarge", None, "A100-40GB-SXM", 8, 8, 4, 50),
    ("nccl_topo_azure_nc48ads_a100_v4", None, "A100-80GB-PCIe", 2, 2, 1, 50),
    ("nccl_topo_dgx_a100_fragment", None, "A100-40GB-SXM", 8, 8, 1, 200),
    ("nccl_graph_8gpu_2nic", "A100", "A100-80GB-SXM", 8, 8, 2, 50),
]


@pytest.mark.parametrize(("file", "given", "gpu", "per_node", "size", "nics", "Gbps"), NCCL, ids=[n[0] for n in NCCL])
def test_nccl(file: str, given: str | None, gpu: str, per_node: int, size: int, nics: int, Gbps: float) -> None:
    result = import_cluster(Request(nccl_topo=str(FOLDER / f"{file}.xml"), gpu=given))
    cluster = result.cluster
    assert (cluster.gpu, cluster.gpus_per_node, cluster.hb_domain.size) == (gpu, per_node, size)
    assert (result.draft.host["nics"], cluster.network.nic_Gbps) == (nics, Gbps)
    assert cluster.hb_domain.bandwidth_GBps == 300


def test_p4d_pairs_share_a_card() -> None:
    host = nccl_xml.parse((FOLDER / "nccl_topo_aws_p4d_24xlarge.xml").read_text())
    assert rails(host.near).gpu_to_nics == [[0], [0], [1], [1], [2], [2], [3], [3]]


def test_matrix_and_nccl_rates_combine() -> None:
    result = import_cluster(Request(smi_topo=str(FOLDER / "topo_dgx2_16gpu_10nic.txt"), gpu="V100", nic_Gbps=40))
    assert result.cluster.network.nic_Gbps == 40


def test_what_a_file_cannot_tell_is_said() -> None:
    result = import_cluster(Request(nccl_topo=str(FOLDER / "nccl_topo_dgx_a100_fragment.xml")))
    assert any("part of" in u for u in result.draft.unknown) and result.cluster.launch.ib_hca == []
    assert all(line.why for line in result.draft.lines)


def test_every_line_of_the_file_carries_a_comment() -> None:
    result = import_cluster(Request(smi_topo=str(FOLDER / "topo_h800_8gpu_9nic.txt"), nodes=16))
    for line in result.text.splitlines():
        assert "#" in line or line.endswith(":")
    assert "(!)" in result.text and "GUESSED" in result.text


@pytest.mark.parametrize(("instance", "gpu", "per_node", "size", "Gbps"), [
    ("p4d.24xlarge", "A100-40GB-SXM", 8, 8, 50),
    ("aws-p5.48xlarge", "H100-80GB-SXM", 8, 8, 400),
    ("p5en.48xlarge", "H200-141GB-SXM", 8, 8, 400),
    ("Standard_ND96isr_H100_v5", "H100-80GB-SXM", 8, 8, 400),
    ("azure-nc48ads-a100-v4", "A100-80GB-PCIe", 2, 2, 50),
    ("a3-highgpu-8g", "H100-80GB-SXM", 8, 8, 100),
    ("a3-megagpu-8g", "H100-80GB-SXM", 8, 8, 200),
    ("dgx-b300", "B300-288GB-SXM", 8, 8, 800),
    ("jean-zay-a100", "A100-80GB-SXM", 8, 8, 50),
    ("gb200-nvl72", "GB200-186GB", 4, 72, 400),
])
def test_instances(instance: str, gpu: str, per_node: int, size: int, Gbps: float) -> None:
    cluster = import_cluster(Request(instance=instance, count=72)).cluster
    assert (cluster.gpu, cluster.gpus_per_node, cluster.hb_domain.size, cluster.network.nic_Gbps) == (gpu, per_node, size, Gbps)
    assert cluster.gpus == 72 * per_node


def test_every_instance_of_the_catalogue_imports() -> None:
    assert len(catalogue.instances()) >= 20
    for name, entry in catalogue.instances().items():
        result: Imported = import_cluster(Request(instance=name, count=18))
        instance = find_instance(name)
        assert result.cluster.gpu == catalogue.find_gpu(entry["gpu"]).name
        assert result.cluster.hb_domain.size == entry["hb_domain_size"]
        assert instance.evidence and (instance.sources or instance.evidence == "constructed")
        if entry.get("nic_port_Gbps"):
            assert instance.nic_Gbps == pytest.approx(entry["nics"] * entry["nic_port_Gbps"] / entry["gpus"])


def test_a_cut_up_rack_falls_back_to_a_domain_that_divides() -> None:
    result = import_cluster(Request(instance="gb200-nvl72", count=20))
    assert result.cluster.gpus == 80 and result.cluster.hb_domain.size == 8
    assert any("whole number of domains" in n for n in result.draft.notes)


def test_unknown_instance_suggests() -> None:
    with pytest.raises(InputError, match="did you mean 'p5.48xlarge'"):
        find_instance("p5.48xlrge")


PRODUCTS = [
    ("Tesla V100-SXM2-16GB", "V100-16GB-SXM"), ("Tesla V100-SXM2-32GB", "V100-32GB-SXM"), ("NVIDIA A100-SXM4-40GB", "A100-40GB-SXM"),
    ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"), ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"), ("NVIDIA A800-SXM4-80GB", "A800-80GB-SXM"),
    ("NVIDIA H100 80GB HBM3", "H100-80GB-SXM"), ("NVIDIA H100 PCIe", "H100-80GB-PCIe"), ("NVIDIA H100 NVL", "H100-94GB-NVL"),
    ("NVIDIA H800", "H800-80GB-SXM"), ("NVIDIA H20", "H20-96GB-SXM"), ("NVIDIA H200", "H200-141GB-SXM"),
    ("NVIDIA GH200 480GB", "GH200-96GB"), ("NVIDIA B200", "B200-180GB-SXM"), ("NVIDIA GB200", "GB200-186GB"), ("NVIDIA L40S", "L40S-48GB"),
    ("NVIDIA A10", "A10-24GB"), ("NVIDIA GeForce RTX 3090", "RTX-3090-24GB"), ("NVIDIA GeForce RTX 4090", "RTX-4090-24GB"),
    ("NVIDIA GeForce RTX 5090", "RTX-5090-32GB"), ("nvidia_h100_80gb_hbm3", "H100-80GB-SXM"), ("h100", "H100-80GB-SXM"),
]


@pytest.mark.parametrize(("product", "gpu"), PRODUCTS, ids=[p[0] for p in PRODUCTS])
def test_product_names(product: str, gpu: str) -> None:
    assert match(product)[0].name == gpu


def test_memory_tells_variants_apart() -> None:
    assert match("A100", 40536)[0].name.startswith("A100-40GB")
    assert "driver reports" in match("NVIDIA L40S", 24000)[1]


QUERIES = [
    ("name, memory.total [MiB]\nNVIDIA H100 80GB HBM3, 81559 MiB\nNVIDIA H100 80GB HBM3, 81559 MiB\n", 2, 81559),
    ("index, name, memory.total\n0, NVIDIA H100 80GB HBM3, 81559\n", 1, 81559),
    ("NVIDIA H100 80GB HBM3, 81559 MiB\n", 1, 81559),
    ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bb)\n", 2, 0),
    ("==============NVSMI LOG==============\nGPU 00000000:07:00.0\n    Product Name                    : NVIDIA H100 80GB HBM3\n"
     "    FB Memory Usage\n        Total                       : 81559 MiB\n    BAR1 Memory Usage\n        Total        : 131072 MiB\n", 1, 81559),
]


@pytest.mark.parametrize(("text", "gpus", "memory"), QUERIES)
def test_queries(text: str, gpus: int, memory: float) -> None:
    host = nvidia_smi.parse_query(text)
    assert (host.gpus, host.product, host.memory_MiB) == (gpus, "NVIDIA H100 80GB HBM3", memory)


def test_query_beats_the_guess(tmp_path: Path) -> None:
    query = tmp_path / "q.csv"
    query.write_text("name\n" + "NVIDIA H200\n" * 8)
    result = import_cluster(Request(smi_topo=str(FOLDER / "topo_h100_8gpu_nv18.txt"), smi_query=str(query)))
    assert result.cluster.gpu == "H200-141GB-SXM"


def test_files_of_different_machines_are_refused(tmp_path: Path) -> None:
    query = tmp_path / "q.csv"
    query.write_text("name\nNVIDIA H200\n")
    with pytest.raises(InputError, match="different numbers of GPUs"):
        import_cluster(Request(smi_topo=str(FOLDER / "topo_h100_8gpu_nv18.txt"), smi_query=str(query)))
