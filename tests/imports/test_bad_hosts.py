"""Damaged, hostile and mutated machine files: always an InputError with the file, never a hang or a traceback."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.importers import nccl_xml, nvidia_smi, slurm
from autotune.importers.hostlist import expand
from autotune.importers.run import Request, import_cluster

FOLDER = Path(__file__).parent / "hosts"
TOPO = (FOLDER / "topo_h800_8gpu_9nic.txt").read_text()
XML = (FOLDER / "nccl_topo_aws_p4d_24xlarge.xml").read_text()


@pytest.mark.parametrize(("text", "words"), [
    ("", "not the output"),
    ("Failed to initialize NVML: Driver/library version mismatch\n", "not the output"),
    ("GPU0\tGPU1\n", "row of GPU0 is missing"),
    ("\tGPU0\tGPU1\nGPU0\t X \tNV4\n", "row of GPU1 is missing"),
    ("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\n", "1 of 2 entries"),
    ("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV2\t X \n", "sees"),
    ("\tGPU0\tGPU1\nGPU0\t X \tFOO\nGPU1\tFOO\t X \n", "none of X"),
    ("\tGPU0\tGPU0\nGPU0\t X \tNV4\n", "repeated"),
    ("\tGPU0\nGPU0\t X \nGPU0\t X \n", "second row"),
    ("\t" + "\t".join(f"GPU{i}" for i in range(3000)), "1024 columns"),
])
def test_bad_matrices(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        nvidia_smi.parse_topology(text, "topo.txt")
    problem = caught.value.problems[0]
    assert problem.file == "topo.txt" and problem.line >= 1


@pytest.mark.parametrize("text", ["", "\n\n", "hello", "a,b\n1,2\n", "GPU 0: something"])
def test_bad_queries(text: str) -> None:
    with pytest.raises(InputError):
        nvidia_smi.parse_query(text, "query.csv")


BOMB = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">]><system version="1">&d;</system>"""
EXTERNAL = '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><system version="1">&x;</system>'


@pytest.mark.parametrize(("text", "words"), [
    ("", "empty"),
    (XML[: len(XML) // 2], "not valid XML"),
    ("<system>", "not valid XML"),
    ("{}", "not valid XML"),
    ("<html></html>", "neither"),
    ("<system version='1'></system>", "no GPU"),
    ("<graphs version='1'></graphs>", "no <graph>"),
    ("<graphs><graph><channel/></graph></graphs>", "no GPU"),
    (BOMB, "entities"),
    (EXTERNAL, "entities"),
    ("<system>" + "<cpu>" * 5000 + "</cpu>" * 5000 + "</system>", "deep"),
])
def test_bad_xml(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        nccl_xml.parse(text, "topo.xml")
    assert caught.value.problems[0].file == "topo.xml"


def test_truncated_xml_names_the_line() -> None:
    with pytest.raises(InputError) as caught:
        nccl_xml.parse(XML[: len(XML) // 2], "topo.xml")
    assert caught.value.problems[0].line > 5


def test_a_huge_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "huge.xml"
    path.write_bytes(b"<system>" + b" " * (9 << 20) + b"</system>")
    with pytest.raises(InputError, match="MiB"):
        import_cluster(Request(nccl_topo=str(path)))


def test_no_nvlink_and_no_gpu_name_asks_for_the_gpu() -> None:
    with pytest.raises(InputError, match="--gpu"):
        import_cluster(Request(smi_topo=str(FOLDER / "topo_2gpu_phb.txt")))


def test_unknown_product_asks_for_the_gpu(tmp_path: Path) -> None:
    query = tmp_path / "q.csv"
    query.write_text("name\nNVIDIA Q9000\n")
    with pytest.raises(InputError, match="--gpu"):
        import_cluster(Request(smi_query=str(query)))


def test_nothing_given() -> None:
    with pytest.raises(InputError, match="nothing to import"):
        import_cluster(Request())


def test_too_many_gpus() -> None:
    with pytest.raises(InputError, match="more than"):
        import_cluster(Request(instance="p5.48xlarge", count=10**7))


def test_a_fabric_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="fabric"):
        import_cluster(Request(instance="p5.48xlarge", count=4, fabric="magic"))


SMALL = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
TEXTS = {p.name: p.read_text() for p in sorted(FOLDER.iterdir())}
PARSERS = {".txt": nvidia_smi.parse_topology, ".xml": nccl_xml.parse, ".conf": slurm.parse_topology_conf}
JUNK = st.one_of(st.text(max_size=8), st.sampled_from(["NV18", "GPU0", "\t", "\n", "<", '"', "Nodes=", "[1-9]", "0x03", "999999999999", "\x1b[4m", "\0"]))


@SMALL
@given(name=st.sampled_from([n for n in TEXTS if not n.endswith(".yaml")]), edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), JUNK), min_size=1, max_size=5))
def test_mutated_files_parse_or_are_refused(name: str, edits: list[tuple[float, int, str]]) -> None:
    text = TEXTS[name]
    for where, cut, junk in edits:
        at = int(where * len(text))
        text = text[:at] + junk + text[at + cut :]
    start = time.perf_counter()
    try:
        PARSERS[Path(name).suffix](text, name)
    except InputError as error:
        assert error.problems
    assert time.perf_counter() - start < 2


@SMALL
@given(st.text(max_size=60) | st.from_regex(r"[a-z]{1,3}(\[[0-9]{1,3}(-[0-9]{1,4})?(,[0-9]{1,3})?\]){0,3}(,[a-z0-9\[\]-]{0,6})?", fullmatch=True))
def test_any_host_list(text: str) -> None:
    try:
        assert expand(text)
    except InputError as error:
        assert error.problems


@SMALL
@given(st.text(max_size=200), st.sampled_from([nvidia_smi.parse_query, slurm.parse_scontrol, nccl_xml.parse, nvidia_smi.parse_topology]))
def test_any_text(text: str, parser) -> None:  # type: ignore[no-untyped-def]
    try:
        parser(text, "x")
    except InputError as error:
        assert error.problems


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from([n for n in TEXTS if n.startswith("topo")]), labels=st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15), st.integers(0, 18)), max_size=6), nodes=st.integers(1, 40))
def test_odd_link_matrices_still_load(tmp_path_factory: pytest.TempPathFactory, name: str, labels: list[tuple[int, int, int]], nodes: int) -> None:
    lines = TEXTS[name].splitlines()
    cells = [line.split("\t") for line in lines]
    header = next(i for i, c in enumerate(cells) if len(c) > 1 and c[1] == "GPU0")
    count = sum(c.startswith("GPU") for c in cells[header])
    for a, b, n in labels:
        a, b = a % count, b % count
        if a != b:
            cells[header + 1 + a][1 + b] = cells[header + 1 + b][1 + a] = f"NV{n}" if n else "SYS"
    path = tmp_path_factory.mktemp("topo") / "t.txt"
    path.write_text("\n".join("\t".join(c) for c in cells))
    result = import_cluster(Request(smi_topo=str(path), gpu="A100", nodes=nodes))
    assert result.cluster.gpus == nodes * count and result.cluster.gpus % result.cluster.hb_domain.size == 0
