"""The catalogue: names, aliases, plausible figures, provenance."""

import pytest

from autotune import catalogue
from autotune.catalogue import find_gpu, gpus
from autotune.errors import InputError


def test_enough_of_everything():
    assert len(gpus()) >= 20 and len(catalogue.names("models")) >= 20 and len(catalogue.names("clusters")) >= 10
    with pytest.raises(ValueError, match="kind must be one of"):
        catalogue.names("planets")


def test_names_and_aliases_are_unique():
    seen = {}
    for gpu in gpus():
        for name in (gpu.name, *gpu.aliases):
            assert seen.setdefault(catalogue._plain(name), gpu.name) == gpu.name, f"{name} means two GPUs"
            assert find_gpu(name) is gpu


# As nvidia-smi prints them, and as measurement tables, cloud pages and people write them.
@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-80GB-SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB-SXM"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("Tesla V100-SXM2-32GB", "V100-32GB-SXM"),
        ("NVIDIA H200", "H200-141GB-SXM"),
        ("H200-SXM-141GB", "H200-141GB-SXM"),
        ("NVIDIA H800", "H800-80GB-SXM"),
        ("NVIDIA H20", "H20-96GB-SXM"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("NVIDIA B200", "B200-180GB-SXM"),
        ("B200-SXM", "B200-180GB-SXM"),
        ("NVIDIA GB200", "GB200-186GB"),
        ("GB300", "GB300-288GB"),
        ("H100-96GB-HBM2e", "H100-96GB-HBM2e"),
        ("NVIDIA L40S", "L40S-48GB"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090-24GB"),
        ("rtx 5090", "RTX-5090-32GB"),
        ("MI300X", "MI300X-192GB"),
        ("AMD Instinct MI325X", "MI325X-256GB"),
        ("MI250X-GCD", "MI250X-GCD"),
    ],
)  # fmt: skip
def test_spellings(written, name):
    assert find_gpu(written).name == name


@pytest.mark.parametrize("name", ["A1000", "H10", "", "x" * 10_000, "GPU"])
def test_unknown_gpus_are_refused(name):
    with pytest.raises(InputError, match="unknown GPU"):
        find_gpu(name)


# Dense peak from units x operations per clock x clock, published by the vendors.
PEAKS = {
    "A100-80GB-SXM": 432 * 256 * 2 * 1.41e9,
    "H100-80GB-SXM": 528 * 512 * 2 * 1.83e9,
    "MI300X-192GB": 304 * 2048 * 2.1e9,
    "MI355X-288GB": 256 * 4096 * 2.4e9,
    "MI250X-GCD": 110 * 1024 * 1.7e9,
    "RTX-4090-24GB": 512 * 64 * 2 * 2.52e9,
}
# NVLink links x GB/s of one link in one direction.
NVLINK = {
    "V100-32GB-SXM": 6 * 25, "A100-80GB-SXM": 12 * 25, "A800-80GB-SXM": 8 * 25, "H100-80GB-SXM": 18 * 25,
    "H800-80GB-SXM": 8 * 25, "B200-180GB-SXM": 18 * 50, "GB200-186GB": 18 * 50, "MI300X-192GB": 7 * 64,
}  # fmt: skip


@pytest.mark.parametrize(("name", "peak"), PEAKS.items())
def test_peaks_follow_from_the_architecture(name, peak):
    assert find_gpu(name).bf16_TFLOPS == pytest.approx(peak / 1e12, rel=0.005)


@pytest.mark.parametrize(("name", "rate"), NVLINK.items())
def test_scale_up_is_one_direction(name, rate):
    assert find_gpu(name).scale_up_GBps == rate


@pytest.mark.parametrize("gpu", gpus(), ids=lambda g: g.name)
def test_figures_are_plausible_and_sourced(gpu):
    needed = {
        "data_sheet",
        "memory_GiB",
        "gemm_efficiency",
        "hbm_efficiency",
        "attention_efficiency",
        "nvlink_efficiency",
    }
    needed |= {"fp8_gemm_efficiency"} if gpu.fp8_TFLOPS else set()
    assert set(gpu.sources) == needed and all(gpu.sources.values())
    if gpu.fp8_TFLOPS:
        assert gpu.fp8_TFLOPS == pytest.approx(2 * gpu.bf16_TFLOPS, rel=0.02)
    assert 0.4 <= gpu.gemm_efficiency <= 0.9 and 0.3 <= gpu.attention_forward_efficiency <= 0.7
    assert gpu.attention_backward_efficiency < gpu.attention_forward_efficiency
    assert 50 < gpu.bf16_TFLOPS * 1e3 / gpu.hbm_GBps < 500 or gpu.name.startswith("H20-"), (
        "FLOP per byte of a real part"
    )


def test_memory_is_what_the_driver_reports():
    """nvidia-smi totals in MiB, not the GB of the data sheet."""
    for name, mib in {"H100": 81559, "GB200": 189471, "L40S": 46068, "H200": 143771, "B300": 275040}.items():
        assert find_gpu(name).memory_GiB == pytest.approx(mib / 1024, abs=0.01)
