"""Predicted against measured: operator timings, collectives and step times, as functions of the constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.calibration.gpu_table import GpuTable
from autotune.calibration.nccl import Collective
from autotune.specs import Calibration, ClusterSpec
from autotune.validate.mapping import Scenario
from autotune.validate.rows import Row
from costmodels.types import Stack

Array = NDArray[np.float64]
Model = Callable[[Calibration], Array]
KERNELS_PER_PASS = 100  # kernels and Python calls of one eager layer and pass, counted on transformer layers without CUDA graphs
LARGE_GEMM = 2048  # smaller sides are not what the efficiency of large products describes


def step_time_residuals(rows: Sequence[Row], readings: Sequence[Scenario], stack_of: Callable[[str], Stack]) -> Model:
    """ln(predicted / measured) of step times, with constants of the calibration put in."""
    from autotune.constants import gpu_constants
    from autotune.validate.compiled import prepare, price

    measured = np.log(np.array([row.time_s for row in rows], dtype=float))
    prepared = [prepare(s) for s in readings]

    def model(calibration: Calibration) -> Array:
        times = []
        for s, p in zip(readings, prepared, strict=True):
            whole = merged(s.cluster, calibration).calibration
            assert isinstance(whole, Calibration)
            gpu = gpu_constants(gpu_spec(s.cluster), s.model.training.precision, whole)
            stack = stack_of(p.stack)
            if whole.launch_us is not None:
                stack = stack._replace(launch_s=whole.launch_us * 1e-6)
            if whole.iteration_overhead_s is not None:
                stack = stack._replace(iteration_s=whole.iteration_overhead_s)
            net = p.net._replace(nic_eff=whole.nic_efficiency or p.net.nic_eff)
            times.append(price(p.model, gpu, net, stack, p.point).time_s)
        return np.asarray(np.log(times) - measured)

    return model


def merged(cluster: ClusterSpec, calibration: Calibration) -> ClusterSpec:
    """The cluster with a calibration; what it leaves open keeps the value the cluster had."""
    before = cluster.calibration if isinstance(cluster.calibration, Calibration) else Calibration()
    known = {**before.model_dump(exclude_none=True), **calibration.model_dump(exclude_none=True)}
    return cluster.model_copy(update={"calibration": Calibration(**known)})


def table_residuals(table: GpuTable, cluster: ClusterSpec) -> Model:
    """Matrix products, attention and element-wise kernels of one GPU, and collectives inside its domain."""
    from autotune.constants import gpu_constants

    spec = gpu_spec(cluster)
    gemms = [g for g in table.gemm if min(g["m"], g["n"], g["k"]) >= LARGE_GEMM]
    inside = [Collective(c["collective"], c["ranks"], c["ranks"], c["nbytes"], c["seconds"]) for c in table.collectives]
    collective = collective_residuals(inside, cluster) if inside else None

    def model(calibration: Calibration) -> Array:
        from costmodels.attention import fused_attention_s
        from costmodels.gemm import gemm_s

        by_type = {kind: gpu_constants(spec, kind, calibration) for kind in {g["dtype"] for g in gemms} | {"bf16"}}
        out = []
        for g in gemms:
            gpu = by_type[g["dtype"]]
            rate, hbm = gpu.gemm_eff * gpu.peak_flops, gpu.hbm_eff * gpu.hbm_Bps
            size = 1.0 if g["dtype"] == "fp8" else 2.0
            t = gemm_s(float(g["m"]), float(g["n"]), float(g["k"]), rate, gpu.sms, hbm, size, gpu.k_prologue)
            out.append(math.log(t / g["seconds"]))
        gpu = by_type["bf16"]
        for a in table.attention:
            d = float(a["head_dim"])
            both = fused_attention_s(gpu, 1.0, float(a["batch"]), float(a["seq"]), 1.0, float(a["heads"]), d, d, 0.0)
            out.append(math.log(both[a["direction"] == "backward"] / a["seconds"]))
        out += [math.log(e["nbytes"] / (gpu.hbm_eff * gpu.hbm_Bps) / e["seconds"]) for e in table.elementwise]
        parts = [np.array(out)]
        if collective:
            parts.append(collective(calibration))
        return np.concatenate(parts)

    return model


def collective_residuals(timings: Sequence[Collective], cluster: ClusterSpec) -> Model:
    """Collectives over the first `ranks` GPUs of the cluster."""
    from autotune.constants import gpu_constants, network_constants

    spec = gpu_spec(cluster)
    domains = [hb_size(cluster, c) for c in timings]
    sizes = [(max(c.ranks, domain), domain) for c, domain in zip(timings, domains, strict=True)]  # a network for each

    def model(calibration: Calibration) -> Array:
        gpu = gpu_constants(spec, "bf16", calibration)
        hb_Bps, nic_Bps = bandwidths(cluster)
        calibrated = cluster.model_copy(update={"calibration": calibration})
        networks = {size: network_constants(calibrated, *size, hb_Bps, nic_Bps) for size in set(sizes)}
        out = [math.log(_collective_s(networks[size], gpu, c) / c.time_s) for size, c in zip(sizes, timings, strict=True)]
        return np.array(out)

    return model


def _collective_s(net: Any, gpu: Any, c: Collective) -> float:
    from costmodels.collectives import all_gather_s, all_reduce_s, all_to_all_s, point_to_point_s

    if c.name == "all_reduce":
        return float(all_reduce_s(net, gpu, c.nbytes, 1, c.ranks))
    if c.name == "alltoall":
        return float(all_to_all_s(net, gpu, c.nbytes, 1, c.ranks, 1.0))
    if c.name == "sendrecv":
        return float(point_to_point_s(net, gpu, c.nbytes, 1 if c.ranks <= c.ranks_per_node else c.ranks_per_node))
    return float(all_gather_s(net, gpu, c.nbytes, 1, c.ranks))


def gpu_spec(cluster: ClusterSpec) -> Any:
    """The cluster's accelerator."""
    from autotune.catalogue import find_gpu

    return find_gpu(cluster.gpu) if isinstance(cluster.gpu, str) else cluster.gpu


def hb_size(cluster: ClusterSpec, c: Collective) -> int:
    """GPUs of one domain as the measurement saw it."""
    size = cluster.hb_domain.size
    whole = size if isinstance(size, int) else gpu_spec(cluster).scale_up_domain
    return int(max(1, min(whole, c.ranks))) if c.ranks_per_node < c.ranks else max(whole, c.ranks)


def bandwidths(cluster: ClusterSpec) -> tuple[float, float]:
    """(domain, NIC) bytes/s per GPU, one direction. A sweep's first value is used."""
    spec = gpu_spec(cluster)
    hb, nic = cluster.hb_domain.bandwidth_GBps, cluster.network.nic_Gbps
    hb = hb[0] if isinstance(hb, list) else hb
    nic = nic[0] if isinstance(nic, list) else nic
    return float(hb if isinstance(hb, (int, float)) else spec.scale_up_GBps) * 1e9, float(
        nic if isinstance(nic, (int, float)) else spec.nic_Gbps
    ) * 1e9 / 8


def launch_residuals(table: GpuTable) -> Model:
    """CPU time to issue one layer's kernels, from the time to issue one small kernel."""
    per_kernel = sorted(row["seconds"] / row["kernels"] for row in table.launch)
    expected_us = KERNELS_PER_PASS * per_kernel[len(per_kernel) // 2] * 1e6

    def model(calibration: Calibration) -> Array:
        return np.array([math.log(max(calibration.launch_us or 0.0, 1.0) / expected_us)])

    return model
