"""From specs to SI units: conversions, calibration, refusals, and stack profiles with their provenance."""

import pytest

from autotune import catalogue, constants
from autotune.catalogue import find_gpu
from autotune.constants import (
    gpu_constants,
    hb_rates,
    model_constants,
    network_constants,
    nic_rates,
    stack_constants,
    stack_entries,
)
from autotune.errors import InputError
from autotune.load import load_cluster, load_model
from autotune.specs import Calibration, HbDomainSpec, NetworkSpec, Range
from autotune.yaml_lines import parse
from costmodels.types import Stack


def test_units_of_a_gpu():
    g = gpu_constants(find_gpu("A100-80GB-SXM"))
    assert (g.peak_flops, g.peak16_flops, g.hbm_Bps, g.memory_bytes) == (312e12, 312e12, 2039e9, 80 * 2**30)
    assert (g.gemm_eff, g.gemm16_eff, g.nvlink_eff) == (0.78, 0.78, 0.78)


def test_fp8_has_its_own_peak_and_efficiency():
    g = gpu_constants(find_gpu("B200"), "fp8")
    assert (g.peak_flops, g.peak16_flops) == (4500e12, 2250e12) and (g.gemm_eff, g.gemm16_eff) == (0.62, 0.68)


def test_fp16_uses_its_own_rate():
    gpu = find_gpu("A100").model_copy(update={"fp16_TFLOPS": 100.0})
    assert gpu_constants(gpu, "fp16").peak_flops == 100e12 and gpu_constants(gpu, "bf16").peak_flops == 312e12


@pytest.mark.parametrize("name", ["A100-80GB-SXM", "V100-32GB-SXM", "MI250X-GCD"])
def test_fp8_is_refused_where_there_is_none(name):
    with pytest.raises(InputError, match=f"{name} has no fp8"):
        gpu_constants(find_gpu(name), "fp8")
    with pytest.raises(InputError, match="precision must be one of"):
        gpu_constants(find_gpu(name), "fp4")


def test_calibration_replaces_efficiencies():
    fitted = Calibration(
        gemm_efficiency=0.6, hbm_efficiency=0.7, nvlink_efficiency=0.5, attention_forward_efficiency=0.3
    )
    g = gpu_constants(find_gpu("H100"), "bf16", fitted)
    assert (g.gemm_eff, g.hbm_eff, g.nvlink_eff, g.attn_fwd_eff) == (0.6, 0.7, 0.5, 0.3)
    assert g.attn_bwd_eff == find_gpu("H100").attention_backward_efficiency
    assert gpu_constants(find_gpu("H100"), "fp8", fitted).gemm_eff == pytest.approx(0.74 * 0.6 / 0.71)


def test_network_units_and_overrides():
    cluster = load_cluster("h100-rail-1024")
    n = network_constants(cluster, 1024, 8, 450e9, 50e9)
    assert (n.gpus, n.hb_size, n.hb_Bps, n.nic_Bps, n.any_to_any, n.nvls) == (1024, 8, 450e9, 50e9, 0, 1)
    assert network_constants(cluster, 1024, 8, 450e9, 50e9, "rail-optimized").any_to_any == 1
    slow = cluster.model_copy(update={"network": NetworkSpec(fabric="rail-only", nic_efficiency=0.5, latency_us=7)})
    changed = network_constants(slow, 1024, 8, 450e9, 50e9)
    assert changed.nic_eff == 0.5 and changed.latency_s == pytest.approx(7e-6)
    fitted = slow.model_copy(update={"calibration": Calibration(nic_efficiency=0.9)})
    assert network_constants(fitted, 1024, 8, 450e9, 50e9).nic_eff == 0.9


def test_a_network_that_cannot_be_built_is_bad_input():
    with pytest.raises(InputError):
        network_constants(load_cluster("h100-rail-1024"), 1 << 20, 1, 450e9, 50e9)


def test_amd_meshes_are_meshes():
    assert network_constants(load_cluster("mi300x-1024"), 1024, 8, 448e9, 50e9).mesh == 1


def test_rates_default_to_the_gpu_and_convert_bits():
    cluster = load_cluster("h100-rail-1024")
    bare = cluster.model_copy(update={"hb_domain": HbDomainSpec(), "network": NetworkSpec()})
    assert hb_rates(bare) == [450e9] and nic_rates(bare) == [50e9]
    listed = cluster.model_copy(update={"network": NetworkSpec(nic_Gbps=[200, 800])})
    assert nic_rates(listed) == [25e9, 100e9]
    ranged = cluster.model_copy(update={"hb_domain": HbDomainSpec(bandwidth_GBps=Range(min=1, max=2))})
    assert hb_rates(ranged) == Range(min=1, max=2)


def test_model_numbers():
    gpt = model_constants(load_model("gpt-175b"))
    assert (gpt.learned_positions, gpt.tied, gpt.bias, gpt.norm_vectors, gpt.gated, gpt.experts) == (
        2048,
        1,
        1,
        2.0,
        0,
        0,
    )
    opt = model_constants(load_model("opt-175b"))
    assert opt.learned_positions == 2050
    deepseek = model_constants(load_model("deepseek-v3"))
    assert (deepseek.mla, deepseek.experts, deepseek.topk, deepseek.dense_first, deepseek.mtp) == (1, 256, 8, 3, 1)
    assert (deepseek.router_bias, deepseek.route_groups, deepseek.route_topk_groups) == (1, 8, 4)
    qwen = model_constants(load_model("qwen3-30b-a3b"))
    assert qwen.qk_norm == 2 * 128 and qwen.head_dim == 128
    assert model_constants(load_model("mistral-7b")).window == 4096


@pytest.mark.parametrize("name", catalogue.names("stacks"))
def test_stacks_are_complete_and_sourced(name):
    stack = stack_constants(name)
    assert all(isinstance(v, (int, float)) for v in stack)
    assert constants.stack_description(name)
    for key, entry in stack_entries(name).items():
        assert entry["source"] and "unit" in entry, key


def test_calibration_replaces_launch_and_fixed_costs():
    stack = stack_constants("megatron-core", Calibration(launch_us=100, iteration_overhead_s=0.5))
    assert stack.launch_s == pytest.approx(1e-4) and stack.iteration_s == 0.5
    assert stack_constants("megatron-core")._replace(launch_s=stack.launch_s, iteration_s=0.5) == stack


@pytest.fixture
def stack_files(monkeypatch):
    """Stack files of the test's own, in place of the shipped ones."""

    def use(**texts):
        monkeypatch.setattr(catalogue, "names", lambda kind: sorted(texts))
        monkeypatch.setattr(catalogue, "document", lambda kind, name: parse(texts[name], f"stack {name}"))
        constants._stack_file.cache_clear()

    yield use
    constants._stack_file.cache_clear()


def entries(skip=(), **values):
    lines = [
        f"{key}: {{value: {values.get(key, 1)}, unit: none, source: test}}" for key in Stack._fields if key not in skip
    ]
    return "description: d\n" + "\n".join(lines)


def test_a_stack_inherits_from_its_base(stack_files):
    stack_files(base=entries(), child="base: base\ndescription: c\nlaunch_s: {value: 7, unit: s, source: here}\n")
    stack = stack_constants("child")
    assert stack.launch_s == 7.0 and stack.dropout == 1
    assert (
        stack_entries("child")["launch_s"]["stack"] == "child" and stack_entries("child")["dropout"]["stack"] == "base"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (entries(skip=("dropout",)), "lacks dropout"),
        (entries() + "\ndropuot: {value: 1, unit: none, source: x}", "is no constant of a stack"),
        (entries(skip=("dropout",)) + "\ndropout: 3", "needs value, unit and source"),
        (entries(skip=("dropout",)) + "\ndropout: {value: 3, unit: none}", "needs value, unit and source"),
        (entries(dropout="many"), "must be a number"),
        ("base: it\n" + entries(), "based on itself"),
        ("base: gone\n" + entries(), "unknown stack 'gone'"),
        ("[]", "must be a mapping"),
    ],
)  # fmt: skip
def test_broken_stack_files_are_refused(stack_files, text, words):
    stack_files(it=text)
    with pytest.raises(InputError, match=words):
        stack_constants("it")
