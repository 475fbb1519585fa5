"""One hardware setting: the values of every axis that a cluster file may leave open, and the kernel's view of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import log2
from typing import Any

from autotune.cluster_checks import gpu_counts, gpu_of, hb_sizes
from autotune.constants import (
    GB,
    GIB,
    gbps_to_Bps,
    gpu_constants,
    hb_rates,
    model_constants,
    network_constants,
    nic_rates,
    stack_constants,
)
from autotune.output import note
from autotune.specs import Calibration, ClusterSpec, ModelSpec, Range
from autotune.training_state import training_stack
from costmodels.records import as_record
from searchspaces.kernel import Hardware
from searchspaces.rules import TargetRules

DEFAULT_BATCH_TOKENS = 1 << 22
AXES = ("gpus", "hb_domain_size", "hb_bandwidth_GBps", "nic_Gbps", "fabric", "global_batch_size")


@dataclass(frozen=True)
class Setting:
    """A point of the co-design space. Rates in the files' units, since they are what people name."""

    gpus: int
    hb_domain_size: int
    hb_bandwidth_GBps: float
    nic_Gbps: float
    fabric: str
    global_batch_size: int


def calibration_of(cluster: ClusterSpec) -> Calibration | None:
    """The cluster's fitted constants, if it has any."""
    return cluster.calibration if isinstance(cluster.calibration, Calibration) else None


def setting_axes(cluster: ClusterSpec, model: ModelSpec) -> dict[str, Any]:
    """Values of every axis: a list, or a `Range` where the file gives a continuous one. HB sizes that fit no GPU count are out."""
    batches = model.training.global_batch_size
    if batches is None:
        batches = default_batch(model.seq_length)
        note(f"training.global_batch_size is not given: planning for {batches} sequences, about 4 million tokens per batch")
    counts = gpu_counts(cluster)
    hb = hb_rates(cluster)
    nic = nic_rates(cluster)
    return {
        "gpus": counts,
        "hb_domain_size": sorted({k for n in counts for k in hb_sizes(cluster, n)}),
        "hb_bandwidth_GBps": hb if isinstance(hb, Range) else [r / GB for r in hb],
        "nic_Gbps": nic if isinstance(nic, Range) else [r * 8 / GB for r in nic],
        "fabric": [cluster.network.fabric],
        "global_batch_size": batches if isinstance(batches, list) else [batches],
    }


def default_batch(seq_length: int) -> int:
    """A power of two of sequences with about 4 million tokens, as dense models of tens of billions of parameters are trained.

    >>> default_batch(8192), default_batch(4096), default_batch(10_000_000)
    (512, 1024, 1)
    """
    return 1 << max(0, round(log2(DEFAULT_BATCH_TOKENS / seq_length)))


def is_single(axes: dict[str, Any]) -> bool:
    """Whether the axes describe exactly one setting."""
    return all(isinstance(values, list) and len(values) == 1 for values in axes.values())


def grid(axes: dict[str, Any]) -> list[Setting] | None:
    """All settings of discrete axes (a range with a step is discrete); None when an axis is continuous.

    Combinations whose HB domain does not divide the GPU count are left out.
    """
    lists = []
    for name in AXES:
        values = axes[name]
        if isinstance(values, Range):
            if values.step is None:
                return None
            n = int((values.max - values.min) / values.step + 1e-9) + 1
            values = [values.min + i * values.step for i in range(n)]
        lists.append(values)
    return [Setting(*combo) for combo in product(*lists) if combo[0] % combo[1] == 0]


def hardware(cluster: ClusterSpec, model: ModelSpec, setting: Setting, rules: TargetRules) -> Hardware:
    """The kernel's inputs for one setting."""
    calibration = calibration_of(cluster)
    gpu = gpu_constants(gpu_of(cluster), model.training.precision, calibration)
    net = network_constants(
        cluster, setting.gpus, setting.hb_domain_size, setting.hb_bandwidth_GBps * GB, gbps_to_Bps(setting.nic_Gbps), setting.fabric
    )
    limit = gpu.memory_bytes - (cluster.memory_reserve_GiB or 0.0) * GIB
    return Hardware(
        as_record(model_constants(model)),
        as_record(gpu),
        as_record(net),
        as_record(training_stack(stack_constants(cluster.stack, calibration), model)),
        rules,
        setting.gpus,
        setting.global_batch_size,
        limit,
    )


def target_rules(target: str) -> TargetRules:
    """What the search space of a launch target contains."""
    from autotune.emit import CAPABILITIES, find_target

    c = CAPABILITIES[find_target(target).name] if target in CAPABILITIES else None
    if c is None:
        find_target(target)
        return TargetRules()
    return TargetRules(
        tensor=c["tp"],
        pipeline=c["pp"],
        context=c["context"],
        expert=c["moe"],
        mla=c["mla"],
        expert_tensor=c["expert_tensor"],
        interleave=c["interleave"],
        fill=c["m_at_least_p"],
        uneven=c["uneven_stages"],
        sequence_parallel=c["sequence_parallel"],
        selective=c["selective_recompute"],
        partial_recompute=c["partial_recompute"],
        order=c["data_outside_pipeline"],
        max_zero=c["max_zero"],
        max_zero_pipeline=c["max_zero_with_pp"],
        moe_needs_sp=c["moe_tp_needs_sp"],
        interleave_min_pipeline=c["interleave_min_pp"],
        kv_copies=c["kv_copies"],
        zero_1=c["zero_1"],
        zero_0_groups=c["zero_0_with_groups"],
        max_zero_expert=c["max_zero_with_ep"],
        expert_pipeline=c["pp_with_ep"],
    )
