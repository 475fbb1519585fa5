"""The published sets, as the accuracy table reports them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from autotune.validate.rows import Row

RECIPES = ("nemo-24.07", "nemo-24.05", "bridge-25.09", "bridge-25.11", "dgxc-v24.11.1", "mlm-llama-fp8", "nemo-launcher-a100")
SLOW_SETS = 0.10  # residual scale of sets in which many runs are slow for reasons outside the plan


class PublishedSet(NamedTuple):
    """Rows reported together. `scale`: errors well above it count as outliers in a fit."""

    name: str
    title: str
    holds: Callable[[Row], bool]
    scale: float = 0.03
    heavy: bool = False  # Cauchy instead of soft-L1
    by_cell: bool = False  # also leave out one (hidden, micro-batch, tensor) cell at a time


def _from(*prefixes: str) -> Callable[[Row], bool]:
    return lambda row: row.prefix in prefixes and row.tier in ("A", "B")


def _recipe(moe: bool, fp8: bool | None) -> Callable[[Row], bool]:
    def holds(row: Row) -> bool:
        kind = fp8 is None or ("fp8" in row.precision) == fp8
        return row.prefix in RECIPES and row.tier in ("A", "B") and bool(row.moe_experts) == moe and kind

    return holds


SETS: tuple[PublishedSet, ...] = (
    PublishedSet("korthikanti22", "Korthikanti et al. 2022, table 5", _from("korthikanti22-t5")),
    PublishedSet("narayanan21", "Narayanan et al. 2021, table 1", _from("narayanan21-t1")),
    PublishedSet("megatron-jan21", "Megatron-LM README of January 2021", _from("megatron-jan21")),
    PublishedSet("megatron-2020", "Megatron-LM README of 2020", _from("megatron-2020")),
    PublishedSet("vtrain-multi", "vTrain, several nodes", _from("vtrain-multi")),
    PublishedSet("vtrain-single", "vTrain, one node (composed from profiled pieces)", _from("vtrain-single"), by_cell=True),
    PublishedSet("bigscience", "BigScience chronicles", lambda r: r.prefix == "bigscience" and r.tier == "A"),
    PublishedSet("internevo", "InternEvo performance page", _from("internevo-tgs", "internevo-flops")),
    PublishedSet(
        "playbook-busy", "Ultra-Scale Playbook, MFU of 0.20 and more", lambda r: r.prefix == "playbook" and (r.mfu or 0.0) >= 0.2
    ),
    PublishedSet("playbook", "Ultra-Scale Playbook, all rows", _from("playbook"), SLOW_SETS, True),
    PublishedSet("mosaic", "MosaicML LLM Foundry (FSDP)", _from("mosaic")),
    PublishedSet("recipes-bf16", "NVIDIA recipes, dense, 16 bits", _recipe(False, False)),
    PublishedSet("recipes-fp8", "NVIDIA recipes, dense, fp8", _recipe(False, True)),
    PublishedSet("recipes-moe", "NVIDIA recipes, experts", _recipe(True, None)),
    PublishedSet("simumax", "SimuMax B200", _from("simumax-b200")),
    PublishedSet(
        "torchtitan", "torchtitan", _from("titan-a100", "titan-1d", "titan-2d", "titan-405b-2d", "titan-cp", "titan-3d", "titan-4d")
    ),
    PublishedSet("mlperf", "MLPerf Training GPT-3, derived step times", _from("mlperf-v3.0", "mlperf-v3.1", "mlperf-v4.0")),
)
