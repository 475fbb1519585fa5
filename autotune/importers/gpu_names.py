"""From the names machines give a GPU (driver, PCI id, Slurm GRES, NVLink count) to the catalogue's."""

from __future__ import annotations

import re

from autotune import catalogue
from autotune.errors import InputError
from autotune.specs import GpuSpec

# PCI device ids of NVIDIA (vendor 0x10de) seen in public topology files, and the part they stand for.
PCI_DEVICES: dict[str, str] = {
    "0x1db1": "V100-16GB-SXM", "0x1db5": "V100-32GB-SXM", "0x20b0": "A100-40GB-SXM", "0x20b2": "A100-80GB-SXM",
    "0x20b5": "A100-80GB-PCIe", "0x2330": "H100-80GB-SXM", "0x2331": "H100-80GB-PCIe", "0x2321": "H100-94GB-NVL",
    "0x2335": "H200-141GB-SXM", "0x2342": "GH200-96GB", "0x2901": "B200-180GB-SXM", "0x2941": "GB200-186GB", "0x26b9": "L40S-48GB",
    "0x2236": "A10-24GB", "0x2204": "RTX-3090-24GB", "0x2684": "RTX-4090-24GB", "0x2b85": "RTX-5090-32GB",
}
# All-to-all NVLink of this many links, and the commonest part that has it.
BY_LINKS: dict[int, tuple[str, str]] = {
    6: ("V100-32GB-SXM", "V100"),
    8: ("H800-80GB-SXM", "H800 and A800"),
    12: ("A100-80GB-SXM", "A100 (40 or 80 GB)"),
    18: ("H100-80GB-SXM", "H100, H200, H20 and B200"),
}
_PER_LINK_GBps = {"B": 50.0, "GB": 50.0, "RTX": 14.0625}
_LOOSE = ("h100", "a100", "v100", "h200", "gh200", "b200", "gb200", "a10", "h800", "a800", "h20", "mi300x", "l40s")


def known_product(name: str) -> bool:
    """Is this a name of the catalogue?"""
    try:
        catalogue.find_gpu(_clean(name))
    except InputError:
        return False
    return True


def match(name: str, memory_MiB: float = 0.0) -> tuple[GpuSpec, str]:
    """(catalogue entry, remark) of a name. The remark is empty when the name leaves no doubt.

    When the driver's memory differs from the entry's by more than 8%, another entry of that chip and memory is taken.

    >>> match("NVIDIA H100 80GB HBM3")[0].name, match("h100")[1]
    ('H100-80GB-SXM', "'h100' does not tell the variant; H100-80GB-SXM assumed")
    """
    clean = _clean(name)
    gpu = catalogue.find_gpu(clean)
    remark = ""
    if re.sub(r"[^a-z0-9]", "", clean.lower()) in _LOOSE and not memory_MiB:
        remark = f"'{name[:40]}' does not tell the variant; {gpu.name} assumed"
    if memory_MiB and not _close(gpu, memory_MiB):
        chip = gpu.name.split("-")[0]
        others = [g for g in catalogue.gpus() if g.name.split("-")[0] == chip and _close(g, memory_MiB)]
        if others:
            return others[0], f"by its memory of {memory_MiB:.0f} MiB, not {gpu.name}"
        remark = f"the driver reports {memory_MiB:.0f} MiB, the catalogue {gpu.memory_GiB * 1024:.0f} MiB"
    return gpu, remark


def per_link_GBps(gpu: str) -> float:
    """Rate of one NVLink in one direction: 25 GB/s (NVLink 2 to 4), 50 (NVLink 5), 14.06 (GeForce).

    >>> per_link_GBps("H100-80GB-SXM"), per_link_GBps("GB200-186GB")
    (25.0, 50.0)
    """
    family = re.match(r"[A-Z]+", gpu)
    return _PER_LINK_GBps.get(family[0] if family else "", 25.0)


def _close(gpu: GpuSpec, memory_MiB: float) -> bool:
    return abs(gpu.memory_GiB * 1024 - memory_MiB) <= 0.08 * memory_MiB


def _clean(name: str) -> str:
    """Slurm spells the driver's name in lower case with underscores."""
    return name.strip().replace("_", " ")
