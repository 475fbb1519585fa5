"""The network part of an imported cluster: NICs, rails, rate per GPU, fabric, oversubscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autotune.importers.facts import Host, Nic
from autotune.importers.nearest import Rails, rails
from autotune.specs import GpuSpec

if TYPE_CHECKING:
    from autotune.importers.assemble import Draft, Sources


def describe_network(sources: Sources, gpu: GpuSpec, per_node: int, draft: Draft) -> None:
    """Append the lines of the `network` and `launch.ib_hca` keys, and the report on the host."""
    host = next((h for h in (sources.smi_topology, sources.nccl) if h is not None and h.nics), None)
    found = rails(host.near) if host else None
    if host:
        _borrow_rates(host, sources)
    count = found.count if host and found and host.whole else 0
    _fabric(sources, count, (draft.value("hb_domain.bandwidth_GBps") or 0) > gpu.pcie_GBps, draft)
    rate, why, assumed = _rate(sources, gpu, host, found)
    draft.add("network.nic_Gbps", rate, why, assumed)
    _oversubscription(sources, draft)
    if host and found:
        _report(host, found, rate, per_node, draft)
    else:
        draft.host = {"gpus": per_node, "nics": sources.instance.nics if sources.instance else None, "gpu_to_nic": None}
        draft.unknown.append("which NIC is nearest to which GPU: pass --smi-topo with the NIC columns, or --nccl-topo")
    draft.host |= {"hb_domain_size": draft.value("hb_domain.size"), "nic_Gbps_per_gpu": rate}


def _borrow_rates(host: Host, sources: Sources) -> None:
    """A matrix has no rates; those of a NCCL file of the same machine are used when they are all alike."""
    other = sources.nccl
    if other is None or other is host or any(n.Gbps for n in host.nics):
        return
    known = {n.Gbps for n in other.nics if n.Gbps}
    if len(known) == 1:
        for nic in host.nics:
            nic.Gbps, nic.rate_source = known.copy().pop(), next(n.rate_source for n in other.nics if n.Gbps)


def _fabric(sources: Sources, count: int, nvlink: bool, draft: Draft) -> None:
    if sources.fabric:
        draft.add("network.fabric", sources.fabric, "given")
        return
    if sources.instance:
        draft.add("network.fabric", sources.instance.fabric, f"reading of: {sources.instance.network}", True)
        return
    draft.unknown.append("the fabric: how switches join the hosts (rail-only, rail-optimized, fat-tree, ...) is in none of the sources")
    if sources.slurm and sources.slurm.kind == "tree":
        draft.unknown.append("the rails: a Slurm tree cannot express that a host has one port in each of several rail switches")
    if count > 1:
        draft.add("network.fabric", "rail-optimized", f"ASSUMED because a host has {count} rails; say rail-only if there is no spine", True)
    elif count == 0 and nvlink:
        draft.add("network.fabric", "rail-optimized", "ASSUMED: usual for hosts with NVLink; say rail-only if there is no spine", True)
    else:
        draft.add("network.fabric", "fat-tree", "ASSUMED: the source shows one NIC or none", True)


def _rate(sources: Sources, gpu: GpuSpec, host: Host | None, found: Rails | None) -> tuple[float, str, bool]:
    """Gbit/s per GPU, one direction."""
    if sources.nic_Gbps:
        return sources.nic_Gbps, "given", False
    if host and found and found.used:
        return _measured_rate(sources, gpu, host, found)
    if sources.instance and sources.instance.nic_Gbps:
        return sources.instance.nic_Gbps, f"instance type {sources.instance.name}: {sources.instance.network}", False
    return gpu.nic_Gbps, f"usual NIC of {gpu.name}; no source shows the NICs", True


def _measured_rate(sources: Sources, gpu: GpuSpec, host: Host, found: Rails) -> tuple[float, str, bool]:
    sharing = max(found.sharers(n) for n in found.used)
    each = max(len(nics) for nics in found.gpu_to_nics)
    shared = f", shared by {sharing} GPUs" if sharing > 1 else f", {each} per GPU" if each > 1 else ", one per GPU"
    if all(host.nics[n].Gbps for n in found.used):
        slowest = min(
            sum(host.nics[n].Gbps / found.sharers(n) for n in nics) for nics in found.gpu_to_nics if nics
        )
        first: Nic = host.nics[found.used[0]]
        return round(slowest, 6), f"{first.Gbps:g} Gbit/s ports{shared}; {first.rate_source}", "nominal" in first.rate_source
    if sources.instance and sources.instance.nic_Gbps:
        return sources.instance.nic_Gbps, f"instance type {sources.instance.name}", False
    rate = gpu.nic_Gbps / sharing
    return rate, f"usual {gpu.nic_Gbps:g} Gbit/s NIC of {gpu.name}{shared}; the matrix has no rates, pass --nic-gbps", True


def _oversubscription(sources: Sources, draft: Draft) -> None:
    slurm = sources.slurm
    if slurm and slurm.oversubscription:
        why = "LinkSpeed of the Slurm topology, read as the speed of the links below a switch; Slurm does not define it"
        draft.add("network.oversubscription", round(slurm.oversubscription, 6), why, True)
    else:
        draft.add("network.oversubscription", 1, "not known, 1 assumed", True)
    if slurm and slurm.groups:
        sizes = sorted({len(n) for n in slurm.groups.values()})
        what = "blocks" if slurm.kind == "block" else "leaf switches"
        draft.notes.append(
            f"Slurm: {len(slurm.nodes)} hosts in {len(slurm.groups)} {what} of {' or '.join(map(str, sizes[:6]))}, {slurm.tiers} tier(s)"
        )


def _report(host: Host, found: Rails, rate: float, per_node: int, draft: Draft) -> None:
    names = [n.device or n.name for n in host.nics]
    used = found.used
    draft.host = {
        "gpus": per_node,
        "nics": len(used),
        "nics_seen": len(host.nics),
        "rails": found.count,
        "gpu_to_nic_told": found.told,
        "gpu_to_nic": [nics[0] if len(nics) == 1 else nics for nics in found.gpu_to_nics],
        "nic_names": names,
        "nic_order": [names[n] for n in used],
        "unused_nics": [names[n] for n in found.unused],
        "gpus_per_nic": max((found.sharers(n) for n in used), default=0),
    }
    if found.unused:
        draft.notes.append(f"nearest to no GPU, taken as storage or management: {', '.join(names[n] for n in found.unused)}")
    if not found.told:
        draft.unknown.append("the GPU-to-NIC map: no GPU has a NIC on its own PCIe switch; any NIC may also serve storage")
    _add_hca(host, found, draft)
    _warn_rails(host, found, per_node, draft)


def _add_hca(host: Host, found: Rails, draft: Draft) -> None:
    devices: list[Any] = [host.nics[n].device for n in found.used]
    order = "GPU 0 first: " + ", ".join(f"GPU{g} {'+'.join(str(n) for n in nics)}" for g, nics in enumerate(found.gpu_to_nics[:16]))
    if not host.whole:
        draft.unknown.append("the NICs of the rest of the machine: the file shows a part of it")
    elif found.told and all(devices):
        draft.add("launch.ib_hca", devices, f"NICs in rail order, {order}")
    elif found.told:
        draft.notes.append(f"NICs in rail order, {order}; the device names for NCCL_IB_HCA are not in the source")


def _warn_rails(host: Host, found: Rails, per_node: int, draft: Draft) -> None:
    count = found.count
    if not host.whole:
        return
    if found.told and 1 < count < per_node:
        draft.notes.append(f"{count} rails for {per_node} GPUs: GPUs share NICs, so a rail serves several of them")
    if count > 1 and per_node % count:
        draft.notes.append(f"{count} rails do not divide {per_node} GPUs (a dead NIC?): rings may cross rails, which rail-only cannot carry")
