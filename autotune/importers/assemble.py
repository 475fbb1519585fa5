"""Puts together what the sources say: one value per key of the cluster file, each with where it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from autotune.errors import InputError
from autotune.importers import gpu_names
from autotune.importers.facts import Host, Inventory, Topology
from autotune.importers.instances import Instance
from autotune.importers.nearest import domain
from autotune.importers.network import describe_network
from autotune.specs import MAX_GPUS, GpuSpec

USUAL_GPUS_PER_HOST = 8


@dataclass
class Sources:
    """What the user gave. Options win over what files say."""

    smi_topology: Host | None = None
    smi_query: Host | None = None
    nccl: Host | None = None
    slurm: Topology | None = None
    scontrol: Inventory | None = None
    instance: Instance | None = None
    hosts: list[str] = field(default_factory=list)
    gpu: str = ""
    nodes: int = 0
    fabric: str = ""
    nic_Gbps: float = 0.0
    name: str = ""


@dataclass
class Line:
    """One key of the cluster file: its value, where it comes from, and whether that was a guess or a default."""

    key: str
    value: Any
    why: str
    assumed: bool = False


@dataclass
class Draft:
    """A cluster file in the making."""

    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    host: dict[str, Any] = field(default_factory=dict)

    def add(self, key: str, value: Any, why: str, assumed: bool = False) -> None:
        """Append a line."""
        self.lines.append(Line(key, value, why, assumed))

    def value(self, key: str) -> Any:
        """The value of a line, or None."""
        return next((line.value for line in self.lines if line.key == key), None)


def assemble(sources: Sources) -> Draft:
    """The cluster file of these sources. InputError when the GPU type cannot be told, or the sources disagree."""
    draft = Draft()
    for source in (sources.smi_topology, sources.smi_query, sources.nccl, sources.slurm, sources.scontrol):
        if source is not None:
            draft.notes += source.notes
    gpu, why, assumed = _gpu(sources)
    per_node, per_node_why, per_node_assumed = _gpus_per_node(sources, gpu)
    nodes, names, nodes_why, nodes_assumed = _nodes(sources, draft)
    total = nodes * per_node
    if total > MAX_GPUS:
        raise InputError.of(f"{nodes} hosts of {per_node} GPUs are more than {MAX_GPUS} GPUs")
    draft.add("name", sources.name or _default_name(sources, gpu, total), "given" if sources.name else "made up")
    draft.add("gpu", gpu.name, why, assumed)
    draft.add("gpus", total, f"{nodes} host{'s' * (nodes > 1)} of {per_node} GPUs; {nodes_why}", nodes_assumed)
    draft.add("gpus_per_node", per_node, per_node_why, per_node_assumed)
    _hb_domain(sources, gpu, per_node, total, draft)
    describe_network(sources, gpu, per_node, draft)
    if names:
        draft.add("launch.nodes", names, "host names in the order of the sources, hosts of one switch or block side by side")
    return draft


def _gpu(sources: Sources) -> tuple[GpuSpec, str, bool]:
    memory = sources.smi_query.memory_MiB if sources.smi_query else 0.0
    if sources.gpu:
        return gpu_names.match(sources.gpu)[0], "given", False
    candidates = [
        (sources.smi_query.product, "product name of nvidia-smi", memory) if sources.smi_query else None,
        (sources.nccl.product, sources.nccl.product_source, 0.0) if sources.nccl else None,
        (sources.scontrol.product, "Gres type of Slurm", 0.0) if sources.scontrol else None,
        (sources.instance.gpu, f"instance type {sources.instance.name}", 0.0) if sources.instance else None,
    ]
    failure: InputError | None = None
    for candidate in candidates:
        if candidate and candidate[0]:
            product, where, mib = candidate
            try:
                gpu, remark = gpu_names.match(product, mib)
            except InputError as error:
                failure = failure or error
                continue
            return gpu, f"{where} '{product[:60]}'" + (f"; {remark}" if remark else ""), bool(remark)
    return _gpu_by_links(sources, failure)


def _gpu_by_links(sources: Sources, failure: InputError | None) -> tuple[GpuSpec, str, bool]:
    for host in (sources.smi_topology, sources.nccl):
        if host is not None:
            found = domain(host)
            guess = gpu_names.BY_LINKS.get(found.links) if found.kind == "switch" else None
            if guess:
                why = f"GUESSED from {found.links} NVLinks per GPU, which {guess[1]} have; pass --gpu or --smi-query"
                return gpu_names.match(guess[0])[0], why, True
    if failure:
        raise InputError.of(f"{failure.problems[0].message}; or say which with --gpu NAME")
    raise InputError.of("nothing given tells the GPU type: pass --gpu NAME (see 'autotune list gpus') or --smi-query FILE", key="gpu")


def _gpus_per_node(sources: Sources, gpu: GpuSpec) -> tuple[int, str, bool]:
    for host, what in ((sources.smi_topology, "the topology matrix"), (sources.nccl, "the NCCL file"), (sources.smi_query, "nvidia-smi")):
        if host is not None and host.whole:
            return host.gpus, f"GPUs in {what}", False
    if sources.scontrol and sources.scontrol.gpus_per_node:
        return sources.scontrol.gpus_per_node, "Gres of Slurm", False
    if sources.instance:
        return sources.instance.gpus, f"instance type {sources.instance.name}", False
    usual = min(USUAL_GPUS_PER_HOST, gpu.scale_up_domain)
    if gpu.scale_up_domain > USUAL_GPUS_PER_HOST:
        usual = 4  # rack-scale NVLink domains are built from hosts of four GPUs
    return usual, f"usual for {gpu.name}; no source tells", True


def _nodes(sources: Sources, draft: Draft) -> tuple[int, list[str], str, bool]:
    """(count, names, where from, assumed); tells which nodes no switch connects."""
    listed = sources.hosts or (sources.scontrol.nodes if sources.scontrol else [])
    names = listed
    if sources.slurm:
        placed = sources.slurm.nodes
        if not names:
            names = placed
        else:
            lost = sorted(set(names) - set(placed)) if placed else []
            if lost:
                draft.notes.append(f"{len(lost)} node(s) are in no switch or block of {sources.slurm.source}: {', '.join(lost[:8])}")
            rank = {n: i for i, n in enumerate(placed)}
            names = sorted(names, key=lambda n: rank.get(n, len(rank)))
    if sources.nodes:
        if names and len(names) != sources.nodes:
            draft.notes.append(f"{sources.nodes} hosts were asked for, the sources list {len(names)}")
            names = names[: sources.nodes] if len(names) > sources.nodes else []
        return sources.nodes, names, "number of hosts given", False
    if names:
        where = "host list" if sources.hosts else "scontrol" if sources.scontrol else "Slurm topology"
        return len(names), names, f"hosts from the {where}", False
    draft.unknown.append("how many hosts there are: one is written; pass --nodes, --count or --hostlist")
    return 1, [], "ONE HOST ASSUMED, pass --nodes for more", True


def _hb_domain(sources: Sources, gpu: GpuSpec, per_node: int, total: int, draft: Draft) -> None:
    size, links, why, assumed = _domain_size(sources, gpu, per_node, draft)
    if total % size:
        smaller = math.gcd(total, size)
        draft.notes.append(f"{total} GPUs are not a whole number of domains of {size}; {smaller} is written")
        size, why, assumed = smaller, f"{why}; cut down to divide {total} GPUs", True
    draft.add("hb_domain.size", size, why, assumed)
    rate, rate_why, rate_assumed = _domain_rate(sources, gpu, links)
    draft.add("hb_domain.bandwidth_GBps", rate, rate_why, rate_assumed)


def _domain_size(sources: Sources, gpu: GpuSpec, per_node: int, draft: Draft) -> tuple[int, int, str, bool]:
    """(size, NVLinks per GPU or -1 for PCIe or 0 for not told, where from, assumed)."""
    rack = gpu.scale_up_domain > USUAL_GPUS_PER_HOST and gpu.scale_up_domain > per_node
    block = sources.slurm.block_sizes[0] if sources.slurm and sources.slurm.block_sizes else 0
    if rack and block:
        return block * per_node, 0, f"Slurm blocks of {block} hosts x {per_node} GPUs, taken as NVLink domains", True
    for host in (sources.smi_topology, sources.nccl):
        if host is None or not host.nvlink_told or not host.whole:
            continue
        found = domain(host)
        if found.kind == "none":
            draft.notes.append("no NVLink between the GPUs: the domain is the host, at PCIe rate")
            return per_node, -1, "no NVLink: the GPUs of a host are taken as the domain, at PCIe rate", True
        if not found.even:
            draft.notes.append(f"NVLink joins groups of different size, up to {found.size} GPUs")
        if rack:
            draft.notes.append(f"one host shows {found.size} GPUs of a rack-wide NVLink domain of {gpu.scale_up_domain}")
            return gpu.scale_up_domain, found.links, f"{gpu.name} is built into NVLink domains of {gpu.scale_up_domain}", True
        if found.kind == "ring":
            draft.notes.append("not every pair of GPUs has an NVLink of its own: traffic between the others is relayed")
        size = found.size if host.gpus % found.size == 0 else math.gcd(host.gpus, found.size)
        return size, found.links, f"NVLink joins {found.size} of {host.gpus} GPUs ({_shape(found.kind, found.links)})", False
    if sources.instance:
        return sources.instance.hb_domain_size, 0, f"instance type {sources.instance.name}", False
    size = gpu.scale_up_domain if rack else min(gpu.scale_up_domain, per_node)
    if gpu.scale_up_GBps <= gpu.pcie_GBps:
        return per_node, -1, f"{gpu.name} has no NVLink: the host is taken as the domain, at PCIe rate", True
    return size, 0, f"usual for {gpu.name}; no source shows the NVLinks", True


def _shape(kind: str, links: int) -> str:
    return f"{links} links each, through a switch" if kind == "switch" else f"{links} links per GPU, spread over its peers"


def _domain_rate(sources: Sources, gpu: GpuSpec, links: int) -> tuple[float, str, bool]:
    if links < 0:
        return gpu.pcie_GBps, f"PCIe of {gpu.name}; GPUs behind one host bridge share it", True
    if links:
        each = gpu_names.per_link_GBps(gpu.name)
        return links * each, f"{links} NVLinks x {each:g} GB/s, one direction", False
    if sources.instance and sources.instance.hb_GBps and sources.instance.gpu == gpu.name:
        return sources.instance.hb_GBps, f"instance type {sources.instance.name}", False
    return gpu.scale_up_GBps, f"data sheet of {gpu.name}, one direction", True


def _default_name(sources: Sources, gpu: GpuSpec, total: int) -> str:
    base = sources.instance.name if sources.instance else gpu.name.lower()
    return f"{base}-{total}"
