"""Cloud instance types by the provider's or the catalogue's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from autotune import catalogue
from autotune.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Instance:
    """One host of a machine type. `nic_Gbps` is per GPU and one direction; 0 when the source does not state it."""

    name: str
    gpu: str
    gpus: int
    hb_domain_size: int
    hb_GBps: float
    nic_Gbps: float
    nics: int
    fabric: str
    network: str
    evidence: str
    sources: tuple[str, ...]


def find_instance(name: str) -> Instance:
    """The instance type of this name or alias. InputError with a suggestion when there is none.

    >>> find_instance("p5.48xlarge").nic_Gbps, find_instance("Standard_ND96isr_H100_v5").name
    (400.0, 'azure-nd96isr-h100-v5')
    """
    entries = catalogue.instances()
    index = {_plain(alias): entry for entry in entries.values() for alias in (entry["name"], *entry.get("aliases", []))}
    entry = index.get(_plain(name))
    if entry is None:
        known = [str(alias) for e in entries.values() for alias in (e["name"], *e.get("aliases", []))]
        raise InputError.of(f"unknown instance type '{name[:60]}'{did_you_mean(name, known)}; 'autotune list instances' shows all")
    return _instance(entry)


def _instance(entry: dict[str, Any]) -> Instance:
    return Instance(
        name=str(entry["name"]),
        gpu=str(entry["gpu"]),
        gpus=int(entry["gpus"]),
        hb_domain_size=int(entry["hb_domain_size"]),
        hb_GBps=float(entry.get("hb_GBps", 0)),
        nic_Gbps=float(entry.get("nic_Gbps", 0)),
        nics=int(entry.get("nics", 0)),
        fabric=str(entry["fabric"]),
        network=str(entry["network"]),
        evidence=str(entry["evidence"]),
        sources=tuple(entry.get("sources", [])),
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
