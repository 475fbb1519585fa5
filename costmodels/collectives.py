"""Time of collectives on an (x members in the domain) by (y domains) grid.

Volumes: hierarchical ring, Rail-only paper (arXiv 2307.12169) section on collectives; the inter-domain part runs on rails by
construction. Time adds a start-up per step and a sqrt ramp: t = alpha + f S / B + gamma sqrt(S), which halves the error of
alpha-beta fits on nccl-tests tables of nine systems.
"""

from __future__ import annotations

from math import sqrt

from costmodels._jit import jit
from costmodels.topology import domain_rate, members_in_domain, nic_latency_s, nic_share
from costmodels.types import Gpu, Network

BASE_S = 12.5e-6  # fixed cost of an all-reduce inside a domain; half for all-gather or reduce-scatter
STEP_S = 1.5625e-6  # per member (25 us x n / 16)
ROOT_S = 1.8e-8  # s per sqrt(byte) of an all-reduce
NIC_STEP_S = 1.0e-5  # software cost per network step of a ring, on top of the wire latency
NVLS_GAIN = 1.3  # NVLink SHARP: all-reduce busbw 480 against a ring's 365 GB/s on 8 H100


@jit
def all_gather_s(net: Network, gpu: Gpu, full_bytes: float, stride: int, size: int) -> float:
    """Seconds of an all-gather (equally a reduce-scatter) whose gathered tensor is `full_bytes`.

    Phase 1 on the rail: (y-1) D / (x y C_S); phase 2 in the domain: (x-1) D / (x C_F).

    >>> from costmodels.examples import EIGHT_H100, H100
    >>> all_gather_s(EIGHT_H100, H100, 1e9, 1, 1)
    0.0
    >>> t = all_gather_s(EIGHT_H100, H100, 1e9, 1, 8)
    >>> 0 < t - 7/8 * 1e9 / (0.8 * 450e9) < 6e-4
    True
    """
    if size <= 1 or full_bytes <= 0.0:
        return 0.0
    x = members_in_domain(net.hb_size, stride, size)
    y = (size + x - 1) // x
    t = 0.0
    if x > 1:
        t += (x - 1.0) * full_bytes / (x * domain_rate(net, x, gpu.nvlink_eff))
        t += 0.5 * (BASE_S + STEP_S * x + ROOT_S * sqrt(full_bytes))
    if y > 1:
        span = stride * size
        t += (y - 1.0) * full_bytes / (x * y * nic_share(net, span))
        t += (y - 1.0) * (NIC_STEP_S + nic_latency_s(net, span))
    return t


@jit
def all_reduce_s(net: Network, gpu: Gpu, nbytes: float, stride: int, size: int) -> float:
    """Seconds of an all-reduce of a tensor of `nbytes`: reduce-scatter, then all-gather; in-network reduction if there is.

    >>> from costmodels.examples import EIGHT_H100, H100
    >>> t = all_reduce_s(EIGHT_H100, H100, 1e9, 1, 8)
    >>> t == 2 * all_gather_s(EIGHT_H100, H100, 1e9, 1, 8)
    True
    """
    if size <= 1 or nbytes <= 0.0:
        return 0.0
    x = members_in_domain(net.hb_size, stride, size)
    t = 2.0 * all_gather_s(net, gpu, nbytes, stride, size)
    if net.nvls and x > 4:
        wire = 2.0 * (x - 1.0) * nbytes / (x * domain_rate(net, x, gpu.nvlink_eff))
        t -= wire * (1.0 - 1.0 / NVLS_GAIN)
    return t


@jit
def point_to_point_s(net: Network, gpu: Gpu, nbytes: float, stride: int) -> float:
    """Seconds to send `nbytes` to the rank `stride` away: over the domain if it holds both ends, else over one NIC.

    >>> from costmodels.examples import EIGHT_H100, H100
    >>> point_to_point_s(EIGHT_H100, H100, 50e6, 8) > point_to_point_s(EIGHT_H100, H100, 50e6, 1)
    True
    """
    if nbytes <= 0.0:
        return 0.0
    if stride < net.hb_size:
        return 6.6e-6 + nbytes / domain_rate(net, 2, gpu.nvlink_eff)
    return 1.4e-5 + nic_latency_s(net, 2 * stride) + nbytes / nic_share(net, 2 * stride)


@jit
def all_to_all_s(net: Network, gpu: Gpu, sent_bytes: float, stride: int, size: int, nic_copies: float) -> float:
    """Seconds of a balanced all-to-all in which each GPU holds `sent_bytes` in all (its own share included).

    Off-domain bytes use one NIC per GPU; on a fabric that joins only equal rails they first hop to the local GPU of the
    destination's rail (NCCL PXN), adding (x-1)/x of them to NVLink. `nic_copies` <= 1 scales the off-domain bytes when
    routing is node-limited and copies are made behind the network.

    >>> from costmodels.examples import EIGHT_H100, H100
    >>> rail = EIGHT_H100._replace(gpus=64, any_to_any=0)
    >>> clos = rail._replace(any_to_any=1)
    >>> slow = all_to_all_s(rail, H100, 1e9, 1, 64, 1.0) / all_to_all_s(clos, H100, 1e9, 1, 64, 1.0)
    >>> 1.05 < slow < 1.2
    True
    """
    if size <= 1 or sent_bytes <= 0.0:
        return 0.0
    x = members_in_domain(net.hb_size, stride, size)
    rate = domain_rate(net, x, gpu.nvlink_eff)
    inside = (x - 1.0) / size * sent_bytes
    outside = (size - x) / size * sent_bytes * nic_copies
    t = BASE_S + 0.5 * STEP_S * size + ROOT_S * sqrt(sent_bytes)
    if x > 1:
        if net.any_to_any == 0:
            inside += (x - 1.0) / x * outside
        t += inside / rate
    if outside > 0.0:
        span = stride * size
        t += outside / nic_share(net, span) + nic_latency_s(net, span)
    return t
