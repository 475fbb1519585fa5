"""Reads the files of one import, assembles the cluster file, and checks that it loads."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import InputError, about
from autotune.importers import nccl_xml, nvidia_smi, slurm
from autotune.importers.assemble import Draft, Sources, assemble
from autotune.importers.cluster_writer import render
from autotune.importers.facts import Host, Topology
from autotune.importers.hostlist import expand
from autotune.importers.instances import find_instance
from autotune.specs import ClusterSpec
from autotune.textfile import read_text


@dataclass(frozen=True)
class Request:
    """What the user asked for: paths of files, and options that win over them."""

    smi_topo: str | None = None
    smi_query: str | None = None
    nccl_topo: str | None = None
    slurm_topology: str | None = None
    scontrol: str | None = None
    instance: str | None = None
    count: int | None = None
    nodes: int | None = None
    hostlist: str | None = None
    gpu: str | None = None
    fabric: str | None = None
    nic_Gbps: float | None = None
    name: str | None = None


@dataclass(frozen=True)
class Imported:
    """The text of a cluster file, what it says, and how it came about."""

    text: str
    cluster: ClusterSpec
    draft: Draft

    def to_dict(self, file: str | None) -> dict[str, Any]:
        """The JSON document of `autotune cluster import`."""
        return {
            "file": file,
            "cluster": self.cluster.model_dump(mode="json", exclude_defaults=True),
            "host": self.draft.host,
            "lines": [vars(line) for line in self.draft.lines],
            "notes": self.draft.notes,
            "unknown": self.draft.unknown,
        }


def import_cluster(request: Request) -> Imported:
    """The cluster file of these sources. InputError when one is damaged, or together they do not tell enough."""
    given = [getattr(request, k) for k in ("smi_topo", "smi_query", "nccl_topo", "slurm_topology", "scontrol")]
    if not any(given) and not request.instance and not request.gpu:
        raise InputError.of("nothing to import from: give a file, --instance, or --gpu with --nodes (see 'autotune cluster import --help')")
    if request.count and request.nodes and request.count != request.nodes:
        raise InputError.of(f"--count {request.count} and --nodes {request.nodes} disagree")
    sources = Sources(
        instance=find_instance(request.instance) if request.instance else None,
        hosts=expand(request.hostlist, key="--hostlist") if request.hostlist is not None else [],
        gpu=request.gpu or "",
        nodes=request.nodes or request.count or 0,
        fabric=request.fabric or "",
        nic_Gbps=request.nic_Gbps or 0.0,
        name=request.name or "",
    )
    if request.smi_topo:
        sources.smi_topology = nvidia_smi.parse_topology(read_text(request.smi_topo), request.smi_topo)
    if request.smi_query:
        sources.smi_query = nvidia_smi.parse_query(read_text(request.smi_query), request.smi_query)
    if request.nccl_topo:
        sources.nccl = nccl_xml.parse(read_text(request.nccl_topo), request.nccl_topo)
    if request.slurm_topology:
        sources.slurm = _slurm(request.slurm_topology)
    if request.scontrol:
        sources.scontrol = slurm.parse_scontrol(read_text(request.scontrol), request.scontrol)
    files = [os.path.basename(g) for g in given if g]
    with about(", ".join(files)):
        _check_agreement(sources)
        draft = assemble(sources)
        text = render(draft, files + ([f"instance type {request.instance}"] if request.instance else []))
        return Imported(text, _load(text), draft)


def _slurm(path: str) -> Topology:
    text = read_text(path)
    if path.endswith((".yaml", ".yml")) or text.lstrip().startswith(("- ", "---", "[")):
        from autotune.load import read_yaml

        return slurm.topology_from_yaml(read_yaml(path), path)
    return slurm.parse_topology_conf(text, path)


def _check_agreement(sources: Sources) -> None:
    """Two files that describe one host must show the same number of GPUs."""
    hosts: list[Host] = [h for h in (sources.smi_topology, sources.smi_query, sources.nccl) if h is not None and h.whole]
    if len({h.gpus for h in hosts}) > 1:
        listed = ", ".join(f"{h.gpus} in {os.path.basename(h.source)}" for h in hosts)
        raise InputError.of(f"the files show different numbers of GPUs in a host: {listed}")


def _load(text: str) -> ClusterSpec:
    """What `load_cluster` makes of the text; a file that does not load is never handed out."""
    from autotune.load import load_cluster

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cluster.yaml")
        Path(path).write_text(text, encoding="utf-8")
        try:
            return load_cluster(path)
        except InputError as error:
            reasons = "; ".join(f"{p.key}: {p.message}" if p.key else p.message for p in error.problems)
            raise InputError.of(f"the sources do not make a usable cluster: {reasons}") from None


def save(text: str, path: Path, force: bool) -> None:
    """Write the file in one step; an existing one only with `force`."""
    if path.is_dir():
        raise InputError.of("is a folder; give the name of a file", file=str(path))
    if path.exists() and not force:
        raise InputError.of("exists already; --force replaces it", file=str(path))
    if not path.parent.is_dir():
        raise InputError.of("no such folder", file=str(path.parent))
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
