"""What must hold between the keys of a cluster file, and the values in force where the file is silent."""

from __future__ import annotations

from autotune import catalogue
from autotune.errors import InputError, did_you_mean
from autotune.specs import ClusterSpec, GpuSpec


def gpu_of(cluster: ClusterSpec) -> GpuSpec:
    """The accelerator of a cluster: the file's own mapping, or the catalogue's entry."""
    return cluster.gpu if isinstance(cluster.gpu, GpuSpec) else catalogue.find_gpu(cluster.gpu)


def gpu_counts(cluster: ClusterSpec) -> list[int]:
    """GPU counts to plan for, one or several."""
    return cluster.gpus if isinstance(cluster.gpus, list) else [cluster.gpus]


def hb_sizes(cluster: ClusterSpec, gpus: int) -> list[int]:
    """HB-domain sizes to plan for on `gpus` GPUs. Default: the accelerator's domain, or all GPUs where they are fewer.

    Sizes that do not divide `gpus` are left out; `load_cluster` makes sure that one remains.
    """
    size = cluster.hb_domain.size
    if size is None:
        return [min(gpu_of(cluster).scale_up_domain, gpus)]
    sizes = size if isinstance(size, list) else [size]
    return [k for k in sizes if gpus % k == 0]


def cluster_problems(cluster: ClusterSpec) -> list[tuple[str, str]]:
    """(key, message) of everything wrong across keys. Empty when all is well."""
    wrong = []
    domain = 1
    try:
        domain = gpu_of(cluster).scale_up_domain
    except InputError as e:
        wrong.append(("gpu", e.problems[0].message))
    wrong += _division_problems(cluster, domain)
    if message := fabric_problem(cluster.network.fabric):
        wrong.append(("network.fabric", message))
    elif not wrong and (message := _fabric_refusal(cluster)):
        wrong.append(("network", message))
    if message := stack_problem(cluster.stack):
        wrong.append(("stack", message))
    if message := _price_problem(cluster.prices.price_set):
        wrong.append(("prices.price_set", message))
    return wrong


def _division_problems(cluster: ClusterSpec, domain: int) -> list[tuple[str, str]]:
    wrong = []
    size = cluster.hb_domain.size
    counts = gpu_counts(cluster)
    for i, count in enumerate(counts):
        sizes = [min(domain, count)] if size is None else size if isinstance(size, list) else [size]
        if not any(count % k == 0 for k in sizes):
            key = f"gpus[{i}]" if isinstance(cluster.gpus, list) else "gpus"
            what = (
                f"hb_domain.size {sizes[0]}"
                if len(sizes) == 1
                else f"any hb_domain.size of {', '.join(map(str, sizes))}"
            )
            wrong.append((key, f"{count} is not a multiple of {what}; nearest: {_nearest_multiples(count, sizes)}"))
    for i, k in enumerate(size if isinstance(size, list) else []):
        if not any(count % k == 0 for count in counts):
            wrong.append((f"hb_domain.size[{i}]", f"{k} divides none of the GPU counts"))
    node, sizes = cluster.gpus_per_node, size if isinstance(size, list) else [size or domain]
    if node and not any(k % node == 0 or node % k == 0 for k in sizes):
        wrong.append(("gpus_per_node", f"{node} neither divides nor is divided by hb_domain.size {sizes[0]}"))
    return wrong


def _nearest_multiples(count: int, sizes: list[int]) -> str:
    low = max(count // k * k for k in sizes)
    high = min(-(-count // k) * k for k in sizes)
    return f"{low} or {high}" if low else str(high)


def fabric_problem(name: str) -> str:
    """Why a fabric name is not known, or the empty string."""
    from costmodels import fabrics

    known = list(fabrics.names())
    return (
        "" if name in known else f"unknown fabric '{name[:60]}'{did_you_mean(name, known)}; known: {', '.join(known)}"
    )


def stack_problem(name: str) -> str:
    """Why a stack name is not known, or the empty string."""
    known = catalogue.names("stacks")
    return "" if name in known else f"unknown stack '{name[:60]}'{did_you_mean(name, known)}; known: {', '.join(known)}"


def _price_problem(name: str | None) -> str:
    from costmodels.fabrics.prices import PRICE_SETS

    if name is None or name in PRICE_SETS:
        return ""
    return f"unknown price set '{name[:60]}'{did_you_mean(name, list(PRICE_SETS))}; known: {', '.join(PRICE_SETS)}"


def _fabric_refusal(cluster: ClusterSpec) -> str:
    """Why the fabric cannot be built from the cluster's figures, or the empty string."""
    from costmodels import fabrics
    from costmodels.fabrics.base import FabricInputs

    network = cluster.network
    for gpus in gpu_counts(cluster):
        for size in hb_sizes(cluster, gpus):
            figures = FabricInputs(
                gpus=gpus,
                hb_size=size,
                radix=network.switch_radix,
                oversubscription=network.oversubscription,
                options=network.options,
            )
            try:
                fabrics.get(network.fabric).network(figures)
            except ValueError as e:
                return str(e)
    return ""
