"""Cluster files: what is accepted, and that every fault is named with its line and key, all at once."""

import os

import pytest

from autotune import catalogue
from autotune.cluster_checks import gpu_of, hb_sizes
from autotune.errors import InputError
from autotune.load import load_calibration, load_cluster
from autotune.specs import MAX_GPUS, Range

GOOD = """name: a100-1024
gpu: A100-80GB-SXM
gpus: 1024
hb_domain: {size: 8}
network: {fabric: rail-only, nic_Gbps: 200, switch_radix: 64}
stack: megatron-core
"""


@pytest.fixture
def cluster(tmp_path):
    def load(text):
        path = tmp_path / "c.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_cluster(path)

    return load


@pytest.fixture
def faults(cluster):
    def found(text):
        with pytest.raises(InputError) as caught:
            cluster(text)
        assert caught.value.exit_code == 2
        assert all(p.file for p in caught.value.problems)
        return caught.value.problems

    return found


def test_good_cluster(cluster):
    spec = cluster(GOOD)
    assert (spec.gpus, spec.hb_domain.size, spec.network.nic_Gbps) == (1024, 8, 200.0)


def test_shortest_cluster(cluster):
    spec = cluster("name: x\ngpu: gb200\ngpus: 144\n")
    assert gpu_of(spec).name == "GB200-186GB" and hb_sizes(spec, 144) == [72]


def test_a_cluster_smaller_than_the_nvlink_domain(cluster):
    assert hb_sizes(cluster("name: x\ngpu: GB200\ngpus: 8\n"), 8) == [8]


def test_axes(cluster):
    spec = cluster(
        "name: x\ngpu: H100\ngpus: [512, 1024, 512]\nhb_domain: {size: [8, 256], bandwidth_GBps: {min: 100, max: 900}}\n"
        "network: {nic_Gbps: [200, 4e2, '800']}\n"
    )
    assert spec.gpus == [512, 1024], "a value listed twice counts once"
    assert isinstance(spec.hb_domain.bandwidth_GBps, Range) and spec.network.nic_Gbps == [200.0, 400.0, 800.0]


@pytest.mark.parametrize("text", ["1024.0", "1.024e3", "'1024'", "0x400"])
def test_whole_numbers_in_other_spellings(cluster, text):
    assert cluster(GOOD.replace("gpus: 1024", f"gpus: {text}")).gpus == 1024


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "words"),
    [
        ("gpus: 1024", "gpus: -8", 3, "gpus", "at least 1"),
        ("gpus: 1024", "gpus: 0", 3, "gpus", "at least 1"),
        ("gpus: 1024", "gpus: 96.5", 3, "gpus", "whole number, got 96.5"),
        ("gpus: 1024", "gpus: true", 3, "gpus", "must be a number, got true"),
        ("gpus: 1024", "gpus:", 3, "gpus", "whole number"),
        ("gpus: 1024", "gpus: many", 3, "gpus", "whole number, got 'many'"),
        ("gpus: 1024", "gpus: 1000000000", 3, "gpus", "1,048,576 (the largest cluster supported)"),
        ("gpus: 1024", "gpus: 1001", 3, "gpus", "not a multiple of hb_domain.size 8; nearest: 1000 or 1008"),
        ("gpus: 1024", "gpus: 4", 3, "gpus", "nearest: 8"),
        ("gpus: 1024", "gpus: [1024, 1001]", 3, "gpus[1]", "not a multiple"),
        ("gpus: 1024", "gpus: []", 3, "gpus", "must not be empty"),
        ("gpus: 1024", "gpus: {a: 1}", 3, "gpus", "whole number or a list, got a mapping"),
        ("gpus: 1024", "gpus: .nan", 3, "gpus", "gpus"),
        ("gpus: 1024", "gpus: .inf", 3, "gpus", "gpus"),
        ("gpus: 1024", "gpuz: 1024", 3, "gpuz", "did you mean 'gpus'?"),
        ("A100-80GB-SXM", "A1000", 2, "gpu", "unknown GPU 'A1000' (did you mean"),
        ("A100-80GB-SXM", "5", 2, "gpu", "text"),
        ("A100-80GB-SXM", "[A100]", 2, "gpu", "text"),
        ("size: 8", "size: [8, 7]", 4, "hb_domain.size[1]", "divides none of the GPU counts"),
        ("size: 8", "sise: 8", 4, "hb_domain.sise", "did you mean 'size'?"),
        ("rail-only", "rail_only", 5, "network.fabric", "did you mean 'rail-only'?"),
        ("nic_Gbps: 200", "nic_Gbps: -1", 5, "network.nic_Gbps", "above 0"),
        ("nic_Gbps: 200", "nic_gbps: 200", 5, "network.nic_gbps", "did you mean 'nic_Gbps'?"),
        ("nic_Gbps: 200", "nic_Gbps: .inf", 5, "network.nic_Gbps", "finite"),
        ("nic_Gbps: 200", "nic_Gbps: {min: 9, max: 1}", 5, "network.nic_Gbps", "max must not be below min"),
        ("nic_Gbps: 200", "nic_Gbps: {min: 1, max: 9000, step: 1e-6}", 5, "network.nic_Gbps", "1,000 points"),
        ("switch_radix: 64", "switch_radix: 1", 5, "network.switch_radix", "at least 2"),
        ("switch_radix: 64", "oversubscription: 0.5", 5, "network.oversubscription", "at least 1"),
        ("switch_radix: 64", "options: {no_such: 1}", 5, "network", "no option 'no_such'"),
        ("megatron-core", "megatron-cor", 6, "stack", "unknown stack 'megatron-cor'"),
        ("name: a100-1024", "name: ''", 1, "name", "must not be empty"),
        ("name: a100-1024\n", "", 1, "name", "is required"),
        ("stack: megatron-core", "fabric: rail-only", 6, "fabric", "it belongs at 'network.fabric'"),
        ("stack: megatron-core", "prices: {price_set: deepsek}", 6, "prices.price_set", "did you mean 'deepseek'?"),
        ("stack: megatron-core", "gpus_per_node: 5", 6, "gpus_per_node", "neither divides"),
    ],
)  # fmt: skip
def test_each_fault_is_named(faults, old, new, line, key, words):
    assert old in GOOD
    (problem,) = faults(GOOD.replace(old, new))
    assert (problem.line, problem.key) == (line, key)
    assert words in problem.message or words in str(problem)


def test_all_faults_at_once(faults):
    found = faults("name: x\ngpu: {name: g, memory_GB: 3}\ngpus: -1\nhb_domain: 5\nnetwork: {nic_Gbps: fast}\nfoo: 1\n")
    keys = {p.key for p in found}
    assert keys >= {"gpu.memory_GB", "gpu.hbm_GBps", "gpus", "hb_domain", "network.nic_Gbps", "foo"}
    assert [p.line for p in found] == sorted(p.line for p in found)


@pytest.mark.parametrize(
    "text",
    [
        "", "   \n", "# nothing\n", "[1,2", "- a\n", "gpus: 8", "just text", "42", "a: &a [*a]\n", "\0", "name: x\0y",
        b"\xff\xfen\x00a\x00", b"\xc3\x28", "a: b: c", "\t", "{", "}", "---\n---\n", "a: 1\n---\nb: 2\n", "%TAG ! x\n",
        "name: !!python/object/apply:os.system ['true']", "null", "true", '{"name": "x", "gpus": 8', "gpus: 8\ngpus: 16\n", "? [a]\n: 1",
    ],
)  # fmt: skip
def test_hopeless_files_are_refused(faults, text):
    assert faults(text)


def test_huge_files_are_refused(tmp_path):
    path = tmp_path / "huge.yaml"
    path.write_text("name: x\n#" + "x" * (9 << 20))
    with pytest.raises(InputError, match="at most 8 MiB"):
        load_cluster(path)


def test_what_is_not_a_file(tmp_path):
    pipe, link = tmp_path / "pipe.yaml", tmp_path / "link.yaml"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "gone.yaml")
    for path, words in [
        (tmp_path, "folder"),
        (pipe, "not a regular file"),
        (link, "which does not exist"),
        ("/dev/zero", "not a regular"),
    ]:
        with pytest.raises(InputError, match=words):
            load_cluster(path)
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    with pytest.raises(InputError):
        load_cluster(loop)
    with pytest.raises(InputError):
        load_cluster("x" * 5000)
    with pytest.raises(InputError):
        load_cluster("a\0b.yaml")


def test_a_link_to_a_good_file_is_followed(tmp_path):
    (tmp_path / "c.yaml").write_text(GOOD)
    (tmp_path / "link.yaml").symlink_to(tmp_path / "c.yaml")
    assert load_cluster(tmp_path / "link.yaml").gpus == 1024


def test_standard_input(monkeypatch):
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert load_cluster("-").gpus == 1024
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="closed"):
        load_cluster("-")
    with open("/dev/null") as closed:
        pass
    monkeypatch.setattr(sys, "stdin", closed)
    with pytest.raises(InputError, match="cannot be read"):
        load_cluster("-")


def test_a_mistyped_file_name_gets_a_hint(tmp_path):
    (tmp_path / "cluster.yaml").write_text(GOOD)
    with pytest.raises(InputError, match=r"no such file \(did you mean 'cluster.yaml'\?\)"):
        load_cluster(tmp_path / "clutser.yaml")


def test_a_mistyped_preset_gets_a_hint():
    with pytest.raises(InputError, match=r"did you mean 'h100-rail-1024'"):
        load_cluster("h100-rails-1024")


@pytest.mark.parametrize("name", catalogue.names("clusters"))
def test_presets_load(name):
    spec = load_cluster(name)
    assert spec.name == name and spec.source and spec.description
    assert hb_sizes(spec, spec.gpus)


def test_the_largest_cluster_loads(cluster):
    text = GOOD.replace("gpus: 1024", f"gpus: {MAX_GPUS}").replace("size: 8", "size: 64")
    assert cluster(text).gpus == MAX_GPUS


def test_a_network_that_cannot_be_built_is_refused(faults):
    (problem,) = faults(GOOD.replace("gpus: 1024", f"gpus: {MAX_GPUS}"))
    assert problem.key == "network" and "tiers of 64-port switches" in problem.message


def test_custom_gpu(cluster):
    text = "name: x\ngpus: 8\ngpu: {name: g, memory_GiB: 9, hbm_GBps: 1e3, bf16_TFLOPS: 100, scale_up_GBps: 50}\n"
    assert gpu_of(cluster(text)).hbm_GBps == 1000.0


def test_calibration_beside_the_cluster(tmp_path):
    (tmp_path / "cal.yaml").write_text("calibration:\n  gemm_efficiency: 0.65\n  nic_efficiency: 0.9\n")
    (tmp_path / "c.yaml").write_text(GOOD + "calibration: cal.yaml\n")
    assert load_cluster(tmp_path / "c.yaml").calibration.gemm_efficiency == 0.65
    (tmp_path / "c.yaml").write_text(GOOD + "calibration: missing.yaml\n")
    with pytest.raises(InputError, match="missing.yaml"):
        load_cluster(tmp_path / "c.yaml")


def test_calibration_faults_have_lines(tmp_path):
    (tmp_path / "cal.yaml").write_text("calibration:\n  gemm_efficiency: 7\n  gem: 1\n")
    with pytest.raises(InputError) as caught:
        load_calibration(tmp_path / "cal.yaml")
    assert [(p.line, p.key) for p in caught.value.problems] == [(2, "gemm_efficiency"), (3, "gem")]
