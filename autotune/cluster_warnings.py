"""Oddities of a cluster file that are legal but deserve a word."""

from __future__ import annotations

from autotune.check_cluster import node_size
from autotune.cluster_checks import gpu_of
from autotune.specs import ClusterSpec


def cluster_warnings(cluster: ClusterSpec) -> list[str]:
    """What a planner should know before trusting the network figures, a line each. Empty for a regular cluster.

    A rate per GPU that the file states, other than the accelerator's usual NIC, is taken to count shared NICs already.

    >>> from autotune.load import load_cluster
    >>> cluster = load_cluster("h100-rail-1024")
    >>> cluster_warnings(cluster)
    []
    >>> four = cluster.launch.model_copy(update={"ib_hca": ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]})
    >>> cluster_warnings(cluster.model_copy(update={"launch": four}))[0][:31]
    'a node has 4 NICs for 8 GPUs: 4'
    """
    nics, per_node = len(cluster.launch.ib_hca), node_size(cluster)
    if not nics or nics == per_node:
        return []
    usual, stated = gpu_of(cluster).nic_Gbps, cluster.network.nic_Gbps
    found = []
    if stated is None or stated == usual:
        found.append(f"{usual:g} Gb/s per GPU assumes one each; give network.nic_Gbps {usual * nics / per_node:g}")
    if "rail-only" in cluster.network.fabric and nics < per_node:
        found.append("some rails have no NIC, and rings must cross rails that are not joined")
    elif nics % 2:
        found.append("with an odd number NCCL's rings cross rails")
    return [f"a node has {nics} NICs for {per_node} GPUs: " + "; ".join(found)] if found else []
