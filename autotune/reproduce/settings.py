"""Models, clusters and strategies the reproduction runs on, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from costmodels.rail_only_paper import PaperModel, PaperOptions, PaperStrategy, PaperSystem

# The four GPTs of Narayanan et al., SC'21 (arXiv 2104.04473), Table 1: layers, hidden, heads; s = 2048, V = 51,200.
GPT_146B = PaperModel(80, 12288, 96, 2048, 51200, 145.6e9)
GPT_310B = PaperModel(96, 16384, 128, 2048, 51200, 310.1e9)
GPT_530B = PaperModel(105, 20480, 128, 2048, 51200, 529.6e9)
GPT_1T = PaperModel(128, 25600, 160, 2048, 51200, 1008e9)


@dataclass(frozen=True)
class Run:
    """A measured training run on DGX A100: its split, batch and hardware FLOPs utilisation in percent of 312 TFLOP/s."""

    name: str
    model: PaperModel
    tensor: int
    pipeline: int
    data: int
    batch: int
    measured_hfu_percent: float

    @property
    def gpus(self) -> int:
        """GPUs of the run: p t d.

        >>> [run.gpus for run in MEGATRON_RUNS]
        [1536, 1920, 2520, 3072]
        """
        return self.tensor * self.pipeline * self.data

    def strategy(self, chunks: int) -> PaperStrategy:
        """The run's split with this many chunks per stage; 0 means one layer per chunk."""
        return PaperStrategy(self.tensor, self.pipeline, self.data, chunks or self.model.layers // self.pipeline, 1)


# SC'21 Table 1: t, p, GPUs / (t p), batch, and percent of peak.
MEGATRON_RUNS = (
    Run("GPT-146B", GPT_146B, 8, 8, 24, 2304, 47.0),
    Run("GPT-310B", GPT_310B, 8, 16, 15, 2160, 50.0),
    Run("GPT-530B", GPT_530B, 8, 35, 9, 2520, 52.0),
    Run("GPT-1T", GPT_1T, 8, 64, 6, 3072, 52.0),
)

# How the paper's traffic figures count, as far as they can be told: stage-to-stage tensors are not split over t.
TRAFFIC_OPTIONS = PaperOptions(pipeline_sharded=0)

# GPT-1T on 16 domains of 256 GH200. Degrees and batch are inferred from the published traffic mix.
GH200_RUN = Run("GPT-1T on GH200", GPT_1T, 8, 8, 64, 256, float("nan"))
GH200_CHUNKS = 16
GH200_HB_SIZE = 256

# One-direction bandwidth per GPU, bytes/s: NVLink 3 and 4, 200 and 400 Gb/s NICs.
A100_HB_BPS, A100_NIC_BPS, A100_FLOPS = 300e9, 25e9, 312e12
H100_HB_BPS, H100_NIC_BPS, H100_FLOPS = 450e9, 50e9, 989e12

# Kernel efficiency at which GPT-1T on 3,072 A100 gets the measured 52%.
A100_EFFICIENCY = 0.605

# Setting R1. GPUs, batches and efficiency are inferred: one plausible choice that gives M1-M4, M6 and M7 together.
R1_GPUS = 32768
R1_EFFICIENCY = 0.5
R1_MODELS = {"GPT-146B": (GPT_146B, 1024), "GPT-1T": (GPT_1T, 4096)}
R1_OPTIONS = PaperOptions()

TABLE_II_HB_SIZE = 256
TABLE_II_ROWS = tuple((gpus, radix) for gpus in (32768, 65536) for radix in (64, 128, 256))
INFERRED_PORT_W = 17.5  # with it every printed power figure rounds as printed; the footnote says 18


def a100_system(gpus: int) -> PaperSystem:
    """DGX A100 nodes: 8 GPUs a domain."""
    return PaperSystem(gpus, 8, A100_HB_BPS, A100_NIC_BPS, A100_FLOPS, A100_EFFICIENCY)


def r1_system(hb_size: int, hb_factor: float = 1.0, nic_factor: float = 1.0) -> PaperSystem:
    """The cluster of setting R1 with this domain size and its bandwidths multiplied.

    >>> r1_system(256).gpus // r1_system(256).hb_size
    128
    """
    return PaperSystem(R1_GPUS, hb_size, H100_HB_BPS * hb_factor, H100_NIC_BPS * nic_factor, H100_FLOPS, R1_EFFICIENCY)
