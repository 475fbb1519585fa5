"""Where a process group lies: how many members share an HB domain, how far the rest are, and whether rails suffice.

Ranks fill domains in order: rank r is GPU r, in domain r // K on rail r % K. A group is given by its stride q and size n
(consecutive members are q ranks apart), which describes every group of Megatron's rank orders.
"""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.types import Network

IN_DOMAIN = 0
ONE_RAIL = 1
WHOLE_DOMAINS = 2
UNREACHABLE = 3
CLASS_NAMES = ("in-domain", "one-rail", "whole-domains", "illegal")


@jit
def members_in_domain(K: int, stride: int, size: int) -> int:
    """Members of one group inside one HB domain (of the best-filled domain).

    >>> [members_in_domain(8, 1, 4), members_in_domain(8, 2, 16), members_in_domain(8, 8, 16), members_in_domain(8, 1, 64)]
    [4, 4, 1, 8]
    """
    if stride >= K:
        return 1
    return min(size, max(1, K // stride))


@jit
def reach_class(K: int, stride: int, size: int) -> int:
    """How a group lies on rails: 0 inside one domain, 1 on one rail, 2 equal rails in every domain, 3 neither.

    In class 2 each domain holds members on the same rails, so a hierarchical collective stays on rails and every
    sender has a relay (NCCL PXN) for every destination rail. Class 3 needs links that a rail-only fabric lacks.

    >>> [reach_class(8, 1, 8), reach_class(8, 8, 4), reach_class(8, 2, 16), reach_class(8, 3, 4), reach_class(8, 1, 12)]
    [0, 1, 2, 3, 3]
    """
    if size <= 1:
        return IN_DOMAIN
    if stride < K and K % (stride * size) == 0:
        return IN_DOMAIN
    if stride % K == 0:
        return ONE_RAIL
    if stride < K and K % stride == 0 and (stride * size) % K == 0:
        return WHOLE_DOMAINS
    return UNREACHABLE


@jit
def reach_class_2(K: int, inner_stride: int, inner_size: int, outer_stride: int, outer_size: int) -> int:
    """The class of a group that is a grid of two strides (data parallel with context parallel when pipeline lies between).

    >>> reach_class_2(8, 2, 4, 16, 4), reach_class_2(8, 4, 2, 16, 2), reach_class_2(8, 2, 2, 4, 2)
    (2, 2, 0)
    """
    if inner_size <= 1:
        return reach_class(K, outer_stride, outer_size)
    if outer_size <= 1:
        return reach_class(K, inner_stride, inner_size)
    if outer_stride == inner_stride * inner_size:
        return reach_class(K, inner_stride, inner_size * outer_size)
    inner = reach_class(K, inner_stride, inner_size)
    outer = reach_class(K, outer_stride, outer_size)
    if inner == UNREACHABLE or outer == UNREACHABLE:
        return UNREACHABLE
    return inner if inner == outer else WHOLE_DOMAINS


@jit
def nic_share(net: Network, span: int) -> float:
    """Bytes/s per GPU toward members up to `span` ranks away, all GPUs sending: the slowest tier crossed.

    >>> from costmodels.types import Network
    >>> net = Network(4096, 8, 450e9, 1e-6, 0, 0, 50e9, 1.0, 4e-6, 1e-6, 1, 256, 2048, 50e9, 7e9)
    >>> nic_share(net, 128), nic_share(net, 4096)
    (50000000000.0, 7000000000.0)
    """
    rate = net.nic_Bps
    if span > net.leaf_gpus:
        rate = min(rate, net.pod_Bps)
    if span > net.pod_gpus:
        rate = min(rate, net.core_Bps)
    return rate * net.nic_eff


@jit
def nic_latency_s(net: Network, span: int) -> float:
    """Seconds per network step toward members up to `span` ranks away."""
    tiers = 0.0
    if span > net.leaf_gpus:
        tiers += 1.0
    if span > net.pod_gpus:
        tiers += 1.0
    return net.latency_s + tiers * net.hop_latency_s


@jit
def domain_rate(net: Network, members: int, eff: float) -> float:
    """Bytes/s per GPU inside a domain for a group of `members`; on a mesh only the links to members count.

    >>> from costmodels.types import Network
    >>> mesh = Network(8, 8, 448e9, 1e-6, 1, 0, 50e9, 1.0, 4e-6, 1e-6, 1, 256, 2048, 50e9, 7e9)
    >>> round(domain_rate(mesh, 2, 1.0) / 1e9)
    64
    """
    if net.mesh and members < net.hb_size:
        return net.hb_Bps * eff * (members - 1) / max(1, net.hb_size - 1)
    return net.hb_Bps * eff
