"""The network a check is made on: a cluster file narrowed to the job's size, or a GPU name with a few numbers."""

from __future__ import annotations

from autotune.catalogue import find_gpu
from autotune.cluster_checks import gpu_of, hb_sizes
from autotune.constants import GB, hb_rates, nic_rates
from autotune.errors import InputError
from autotune.plan import Plan
from autotune.specs import MAX_GPUS, ClusterSpec, HbDomainSpec, NetworkSpec, Range

# The framework profile that stands for what a script was written for; others keep the cluster's.
STACK_OF = {
    "megatron-deepspeed": "megatron-deepspeed", "deepspeed": "megatron-deepspeed", "trainer": "megatron-deepspeed", "gpt-neox": "megatron-deepspeed",
    "llama-factory": "megatron-deepspeed", "torchtitan": "torchtitan", "fsdp": "torchtitan", "accelerate": "torchtitan", "nemo": "nemo",
    "nanotron": "nanotron", "llm-foundry": "fsdp-composer", "olmo": "fsdp-composer", "internevo": "internevo",
}  # fmt: skip


def with_network(cluster: ClusterSpec, nic_Gbps: float | None, fabric: str | None) -> ClusterSpec:
    """The cluster with the network options of a command in place of the file's; None keeps what the file says."""
    given = {key: value for key, value in (("nic_Gbps", nic_Gbps), ("fabric", fabric)) if value is not None}
    return cluster.model_copy(update={"network": cluster.network.model_copy(update=given)})


def quick_cluster(gpu: str, gpus: int, hb_size: int | None, nic_Gbps: float | None, fabric: str) -> ClusterSpec:
    """A cluster from a catalogue GPU and a few numbers.

    >>> c = quick_cluster("H100-80GB-SXM", 64, None, None, "rail-only")
    >>> c.gpus, c.hb_domain.size, c.network.fabric
    (64, 8, 'rail-only')
    """
    spec = find_gpu(gpu)
    _supported(max(gpus, hb_size or 1))
    cluster = ClusterSpec(
        name=f"{spec.name.lower()}-{gpus}", gpu=spec.name, gpus=gpus, hb_domain=HbDomainSpec(size=hb_size, bandwidth_GBps=None),
        network=NetworkSpec(fabric=fabric, nic_Gbps=nic_Gbps),
    )  # fmt: skip
    return sized(cluster, gpus)


def sized(cluster: ClusterSpec, gpus: int) -> ClusterSpec:
    """The cluster with `gpus` GPUs and one HB-domain size that divides them: the largest of its sizes, or of their divisors.

    >>> c = quick_cluster("H100-80GB-SXM", 64, None, None, "rail-only")
    >>> sized(c, 4).hb_domain.size, sized(c, 24).hb_domain.size, sized(c, 12).hb_domain.size
    (4, 8, 6)
    """
    _supported(gpus)
    size = cluster.hb_domain.size
    wanted = [gpu_of(cluster).scale_up_domain] if size is None else size if isinstance(size, list) else [size]
    fitting = [k for k in wanted if gpus % k == 0]
    largest = max(fitting) if fitting else max(d for d in range(1, min(max(wanted), gpus) + 1) if gpus % d == 0)
    per_node = min(cluster.gpus_per_node, largest) if cluster.gpus_per_node else None
    if per_node and largest % per_node:
        per_node = None
    return cluster.model_copy(
        update={"gpus": gpus, "gpus_per_node": per_node, "hb_domain": cluster.hb_domain.model_copy(update={"size": largest})}
    )


def _supported(gpus: int) -> None:
    if gpus > MAX_GPUS:
        raise InputError.of(f"{gpus:,} GPUs are asked for; at most {MAX_GPUS:,} are supported")


def for_plan(cluster: ClusterSpec, plan: Plan) -> ClusterSpec:
    """The cluster with the plan's size, domain, NIC rate, fabric and stack, each a single value."""
    hb = cluster.hb_domain.model_copy(update={"size": plan.hb_domain_size})
    network = cluster.network.model_copy(update={"nic_Gbps": plan.nic_Gbps, "fabric": plan.fabric})
    per_node = cluster.gpus_per_node if cluster.gpus_per_node and plan.hb_domain_size % cluster.gpus_per_node == 0 else None
    return cluster.model_copy(
        update={"gpus": plan.gpus, "hb_domain": hb, "network": network, "stack": plan.stack, "gpus_per_node": per_node}
    )


def nic_rate(cluster: ClusterSpec) -> float:
    """The NIC rate in Gbps; the fastest where the cluster leaves it open."""
    rates = nic_rates(cluster)
    return rates.max if isinstance(rates, Range) else max(rates) * 8 / GB


def node_size(cluster: ClusterSpec) -> int:
    """GPUs of one host."""
    if cluster.gpus_per_node:
        return cluster.gpus_per_node
    count = cluster.gpus[0] if isinstance(cluster.gpus, list) else cluster.gpus
    return min(8, max(hb_sizes(cluster, count) or [8]))


def single_rate(cluster: ClusterSpec) -> ClusterSpec:
    """The cluster with one HB bandwidth: the highest where several are listed."""
    rates = hb_rates(cluster)
    rate = rates.max if isinstance(rates, Range) else max(rates) / GB
    return cluster.model_copy(update={"hb_domain": cluster.hb_domain.model_copy(update={"bandwidth_GBps": rate})})
