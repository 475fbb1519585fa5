"""NCCL topology dumps (`NCCL_TOPO_DUMP_FILE`, cloud topology files) and graph dumps (`NCCL_GRAPH_DUMP_FILE`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.errors import InputError
from autotune.importers.facts import Host, Nic

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

DEEPEST = 100
MOST_GPUS = 1024
MOST_NICS = 1024

# Nominal port rates, Gbit/s, of adapters by PCI vendor and device (public PCI id list and vendor pages). Used only where
# the file has no speed.
_NIC_Gbps: dict[tuple[str, str], tuple[float, str]] = {
    ("0x1d0f", "0xefa0"): (100, "EFA v1"),
    ("0x1d0f", "0xefa1"): (100, "EFA v2"),
    ("0x1d0f", "0xefa2"): (200, "EFA v3"),
    ("0x15b3", "0x1017"): (100, "ConnectX-5"),
    ("0x15b3", "0x101b"): (200, "ConnectX-6"),
    ("0x15b3", "0x1021"): (400, "ConnectX-7"),
    ("0x15b3", "0xa2dc"): (400, "BlueField-3"),
    ("0x15b3", "0x1023"): (800, "ConnectX-8"),
}
_PORT_RATES = (10.0, 25.0, 40.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0)


def parse(text: str, file: str = "") -> Host:
    """One host from a NCCL topology or graph file.

    Entities and document type declarations are refused. InputError with the line when the XML is damaged.
    """
    root = _tree(text, file)
    if root.tag == "system":
        return _topology(root, file)
    if root.tag == "graphs":
        return _graph(root, file)
    raise InputError.of(f"<{str(root.tag)[:40]}> is neither a NCCL topology (<system>) nor a graph (<graphs>)", file=file, line=1)


def _tree(text: str, file: str) -> Element:
    from xml.etree.ElementTree import ParseError

    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    if not text.strip():
        raise InputError.of("the file is empty", file=file, line=1)
    try:
        # Bytes, so that an encoding declaration in the text is honoured instead of refused.
        return fromstring(text.encode("utf-8", "replace"), forbid_dtd=True)  # type: ignore[no-any-return]
    except DefusedXmlException as error:
        raise InputError.of(f"entities and document types are not read ({type(error).__name__})", file=file, line=1) from None
    except ParseError as error:
        line = error.position[0] if getattr(error, "position", None) else 0
        raise InputError.of(f"not valid XML: {error.msg if hasattr(error, 'msg') else error}", file=file, line=line) from None
    except (ValueError, LookupError, RecursionError) as error:
        raise InputError.of(f"not readable as XML: {error}", file=file, line=1) from None


class _Device:
    """A GPU or NIC element and the elements around it, outermost first."""

    def __init__(self, element: Element, path: list[Element]) -> None:
        self.element, self.path = element, path


def _walk(root: Element, file: str) -> list[_Device]:
    found: list[_Device] = []
    stack: list[tuple[Element, list[Element]]] = [(root, [])]
    while stack:
        element, path = stack.pop()
        if len(path) > DEEPEST:
            raise InputError.of(f"elements nested more than {DEEPEST} deep", file=file)
        found.append(_Device(element, path))
        stack += [(child, [*path, element]) for child in reversed(element)]
    return found


def _topology(root: Element, file: str) -> Host:
    devices = _walk(root, file)
    gpus = [d for d in devices if d.element.tag == "pci" and _is_gpu(d.element)]
    nics = [d for d in devices if d.element.tag == "net"]
    if not nics:
        nics = [d for d in devices if d.element.tag == "pci" and d.element.get("class", "").startswith("0x02")]
    if not gpus:
        raise InputError.of("no GPU in this topology (a <pci> of class 0x03....)", file=file)
    if len(gpus) > MOST_GPUS or len(nics) > MOST_NICS:
        raise InputError.of(f"more than {MOST_GPUS} GPUs or {MOST_NICS} NICs in one host", file=file)
    gpus.sort(key=_gpu_order)
    host = Host(file, len(gpus))
    _products(gpus, host)
    _nvlinks(gpus, host)
    host.nics = [_nic(d, i) for i, d in enumerate(nics)]
    host.near = [[_label(g, n) for n in nics] for g in gpus]
    return host


def _is_gpu(element: Element) -> bool:
    return element.get("class", "").startswith("0x03") or element.find("gpu") is not None


def _gpu_order(device: _Device) -> int:
    """NCCL's own number where it is given, else the order of the file."""
    inner = device.element.find("gpu")
    return _whole(inner.get("dev", "") if inner is not None else "")


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 7 else 0


def _products(gpus: list[_Device], host: Host) -> None:
    from autotune.importers.gpu_names import PCI_DEVICES

    ids = [d.element.get("device", "").lower() for d in gpus]
    known = [PCI_DEVICES[i] for i in ids if i in PCI_DEVICES]
    if known:
        host.product = max(sorted(set(known)), key=known.count)
        host.product_source = f"PCI device id {next(i for i in ids if PCI_DEVICES.get(i) == host.product)}"
        if len(set(known)) > 1:
            host.notes.append(f"GPUs of several kinds; {host.product} taken for all")
    elif any(ids):
        host.notes.append(f"PCI device id {ids[0][:12]} is not in the table of known GPUs")


def _nvlinks(gpus: list[_Device], host: Host) -> None:
    index = {d.element.get("busid", f"?{i}"): i for i, d in enumerate(gpus)}
    host.links = [[0] * len(gpus) for _ in gpus]
    switch = [0] * len(gpus)
    for i, device in enumerate(gpus):
        for link in device.element.iter("nvlink"):
            host.nvlink_seen = True
            count = _whole(link.get("count", ""))
            target = index.get(link.get("target", ""))
            if link.get("tclass", "").startswith("0x0680"):
                switch[i] += count
            elif target is not None and target != i:
                host.links[i][target] = host.links[target][i] = max(count, host.links[i][target])
    host.switch_links = max(switch)
    if host.switch_links and len(gpus) == 1:
        host.whole = False
        host.notes.append("one GPU with links to NVSwitches: a part of a larger machine")
    if not host.nvlink_seen:
        host.nvlink_told = False
        host.links = []
        host.notes.append("no <nvlink> elements: NCCL adds them at run time, so the file does not say")


def _nic(device: _Device, number: int) -> Nic:
    element = device.element
    card = element if element.tag == "pci" else next((e for e in reversed(device.path) if e.tag == "pci"), None)
    name = element.get("name") or f"NIC{number}"
    nic = Nic(name[:64], name[:64] if element.get("name") else "")
    speed = element.get("speed", "")
    if speed.isdecimal() and 0 < len(speed) < 9 and int(speed) > 0:
        nic.Gbps, nic.rate_source = int(speed) / 1000, f"speed {speed} Mbit/s of {name[:64]}"
    elif card is not None:
        key = (card.get("vendor", "").lower(), card.get("device", "").lower())
        if key in _NIC_Gbps:
            nic.Gbps, label = _NIC_Gbps[key]
            nic.rate_source = f"nominal rate of {label} (PCI device {key[1]}); the file has no speed"
    return nic


def _label(gpu: _Device, nic: _Device) -> str:
    """The distance of two devices in `nvidia-smi` words."""
    above_gpu, above_nic = gpu.path, nic.path if nic.element.tag == "pci" else [*nic.path]
    shared = [a for a, b in zip(above_gpu, above_nic, strict=False) if a is b]
    bridges = [e for e in shared if e.tag == "pci"]
    if gpu.element in above_nic:
        return "PIX"
    if bridges:
        own = [e for e in above_nic if e.tag == "pci" and e not in bridges]
        card = 1 if nic.element.tag != "pci" else 0
        return "PIX" if above_gpu[-1] is bridges[-1] and len(own) <= card else "PXB"
    return "NODE" if any(e.tag == "cpu" for e in shared) else "SYS"


def _graph(root: Element, file: str) -> Host:
    """A graph dump: GPU and NIC numbers, the kind of path inside the host, and the rate of one channel."""
    graph = root.find("graph")
    if graph is None:
        raise InputError.of("no <graph> element", file=file)
    channels = graph.findall("channel")
    gpus = sorted({_whole(g.get("dev", "")) for c in channels for g in c.findall("gpu")})
    nets = sorted({_whole(n.get("dev", "")) for c in channels for n in c.findall("net")})
    if not gpus or len(gpus) > MOST_GPUS or len(nets) > MOST_NICS:
        raise InputError.of("no GPU in the channels of this graph, or too many", file=file)
    host = Host(file, len(gpus), nics_told=bool(nets))
    host.nvlink_seen = graph.get("typeintra") in ("NVL", "NVB")
    if host.nvlink_seen:
        host.nvlink_told = False  # that there is NVLink, not how many links
        host.notes.append(f"typeintra {graph.get('typeintra')}: the GPUs talk over NVLink; the number of links is not in a graph file")
    else:
        host.links = [[0] * len(gpus) for _ in gpus]
    for net in nets:
        used = sum(any(_whole(n.get("dev", "")) == net for n in c.findall("net")) for c in channels)
        rate = _speed(graph.get("speedinter", "")) * 8 * used
        nic = Nic(f"NIC{net}", Gbps=_port_rate(rate))
        nic.rate_source = f"{used} channel(s) of {graph.get('speedinter', '')[:12]} GB/s on NIC {net}, rounded to a port rate"
        host.nics.append(nic)
    # A ring enters and leaves by its NIC; NCCL puts the nearest GPU first. Only that much of the map is in the file.
    host.near = [["SYS"] * len(nets) for _ in gpus]
    return host


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 < value < 1e5 else 0.0


def _port_rate(Gbps: float) -> float:
    if Gbps <= 0:
        return 0.0
    return min(_PORT_RATES, key=lambda rate: abs(rate - Gbps) / rate)
