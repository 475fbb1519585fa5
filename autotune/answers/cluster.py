"""Oddities of a cluster file that are legal but deserve a word."""

from __future__ import annotations

from autotune.cluster_checks import gpu_counts, gpu_of, hb_sizes
from autotune.specs import ClusterSpec


def cluster_warnings(cluster: ClusterSpec) -> list[str]:
    """What a planner should know before trusting the network figures. Empty for a regular cluster.

    >>> from autotune.load import load_cluster
    >>> cluster_warnings(load_cluster("h100-rail-1024"))
    []
    """
    found = []
    size = min(hb_sizes(cluster, gpu_counts(cluster)[0]))
    per_node = cluster.gpus_per_node or min(8, size)
    nics = len(cluster.launch.ib_hca)
    if nics and nics != per_node:
        rail_only = "rail-only" in cluster.network.fabric
        rate = (cluster.network.nic_Gbps if isinstance(cluster.network.nic_Gbps, (int, float)) else None) or gpu_of(cluster).nic_Gbps
        text = f"a node has {nics} NICs for {per_node} GPUs: {rate:g} Gb/s per GPU assumes one each; give network.nic_Gbps {rate * nics / per_node:g}"
        if rail_only:
            text += "; with a rail per GPU some rails have no NIC, and rings must cross rails that are not joined"
        elif nics % 2:
            text += "; with an odd number NCCL's rings cross rails"
        found.append(text)
    return found
