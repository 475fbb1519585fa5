"""`nvidia-smi topo -m` (the matrix of GPUs and NICs) and `nvidia-smi` queries (what the GPUs are)."""

from __future__ import annotations

import csv
import re

from autotune.errors import InputError, Problem
from autotune.importers.facts import Host, Nic
from autotune.importers.nearest import CLOSENESS

MOST_DEVICES = 1024
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_GPU = re.compile(r"GPU(\d{1,4})\Z")
_LEGEND = re.compile(r"\s*(NIC\d{1,4})\s*:\s*([\w./-]{1,64})\s*\Z")
_NVLINK = re.compile(r"NV(\d{1,3})\Z")
_OLD_NAMES = {"SOC": "SYS"}


def parse_topology(text: str, file: str = "") -> Host:
    """One host from the output of `nvidia-smi topo -m`. InputError with the line when it is not such output."""
    lines = [_ANSI.sub("", raw) for raw in text.splitlines()]
    header = next((i for i, t in enumerate(lines) if _is_header(t)), None)
    if header is None:
        raise InputError.of("no line with GPU0, GPU1, ... columns: not the output of 'nvidia-smi topo -m'", file=file, line=1)
    columns = _columns(lines[header])
    if len(columns) > MOST_DEVICES or len(set(columns)) != len(columns):
        raise InputError.of(f"repeated or more than {MOST_DEVICES} columns", file=file, line=header + 1)
    gpus = [c for c in columns if _GPU.match(c)]
    rows, problems = _rows(lines, header, columns, file)
    for gpu in gpus:
        if gpu not in rows:
            problems.append(Problem(f"the row of {gpu} is missing (is the text cut off?)", file, header + 1))
    if problems:
        raise InputError(problems)
    host = Host(file, len(gpus))
    host.links = [[_links(rows[a][columns.index(b)]) for b in gpus] for a in gpus]
    _check_symmetry(host.links, gpus, file, header + 1)
    host.nvlink_seen = any(any(row) for row in host.links)
    devices = {m[1]: m[2] for m in map(_LEGEND.match, lines[header + 1 :]) if m}
    names = [c for c in columns if c not in gpus]
    host.nics = [Nic(c, devices.get(c, "" if c.startswith("NIC") else c)) for c in names]
    host.near = [[rows[g][columns.index(n)] for n in names] for g in gpus]
    return host


def _is_header(line: str) -> bool:
    tokens = line.split()
    return bool(tokens) and tokens[0] == "GPU0" and (len(tokens) == 1 or tokens[1] not in ("X", *CLOSENESS)) and not _NVLINK.match(
        tokens[1] if len(tokens) > 1 else ""
    )


def _columns(line: str) -> list[str]:
    columns = []
    for token in line.split():
        if token in ("CPU", "NUMA", "GPU"):  # CPU Affinity, NUMA Affinity, GPU NUMA ID
            break
        columns.append(token)
    return columns


def _rows(lines: list[str], header: int, columns: list[str], file: str) -> tuple[dict[str, list[str]], list[Problem]]:
    rows: dict[str, list[str]] = {}
    problems: list[Problem] = []
    known = set(columns)
    for number, line in enumerate(lines[header + 1 :], header + 2):
        tokens = line.split()
        if not tokens or tokens[0] not in known:
            if len(tokens) == 1 and tokens[0].startswith("Legend"):
                break
            continue
        labels = [_OLD_NAMES.get(t, t) for t in tokens[1 : 1 + len(columns)]]
        if len(labels) < len(columns):
            if _GPU.match(tokens[0]):
                problems.append(Problem(f"{tokens[0]} has {len(labels)} of {len(columns)} entries", file, number))
            continue
        for label in labels:
            if label != "X" and label not in CLOSENESS and not _NVLINK.match(label):
                problems.append(Problem(f"'{label[:20]}' is none of X, PIX, PXB, PHB, NODE, SYS, NV#", file, number))
                break
        if tokens[0] in rows:
            problems.append(Problem(f"a second row of {tokens[0]}", file, number))
        rows[tokens[0]] = labels
        if len(problems) > 20:
            break
    return rows, problems


def _links(label: str) -> int:
    match = _NVLINK.match(label)
    return int(match[1]) if match else 0


def _check_symmetry(links: list[list[int]], gpus: list[str], file: str, line: int) -> None:
    for a in range(len(gpus)):
        for b in range(a):
            if links[a][b] != links[b][a]:
                text = f"{gpus[a]} sees {links[a][b]} NVLinks to {gpus[b]}, which sees {links[b][a]} back"
                raise InputError.of(f"{text}: a broken link or a damaged file", file=file, line=line)


_LIST_LINE = re.compile(r"\s*GPU (\d{1,4}): (.{1,120}?) \(UUID: [^)]*\)\s*\Z")
_PRODUCT_LINE = re.compile(r"\s*Product Name\s*:\s*(.{1,120}?)\s*\Z")
_TOTAL_LINE = re.compile(r"\s*Total\s*:\s*(\d{1,9}) MiB\s*\Z")


def parse_query(text: str, file: str = "") -> Host:
    """GPU count, product and memory from `nvidia-smi -L`, `-q`, or `--query-gpu=name,memory.total --format=csv`.

    >>> host = parse_query("name, memory.total [MiB]\\nNVIDIA H100 80GB HBM3, 81559 MiB\\n")
    >>> host.gpus, host.product, host.memory_MiB
    (1, 'NVIDIA H100 80GB HBM3', 81559.0)
    """
    lines = text.splitlines()
    listed = [m[2] for m in map(_LIST_LINE.match, lines) if m] or [m[1] for m in map(_PRODUCT_LINE.match, lines) if m]
    memory: list[float] = []
    if not listed:
        listed, memory = _from_csv(text, file)
    elif any(_PRODUCT_LINE.match(line) for line in lines):
        memory = _frame_buffer(lines)
    if not listed:
        raise InputError.of("no GPU found: expected the output of nvidia-smi -L, -q or --query-gpu=name,... --format=csv", file, 1)
    host = Host(file, len(listed), listed[0], "nvidia-smi", nvlink_told=False, nics_told=False)
    host.memory_MiB = memory[0] if memory else 0.0
    kinds = sorted(set(listed))
    if len(kinds) > 1:
        most = max(kinds, key=listed.count)
        host.product = most
        host.notes.append(f"GPUs of several kinds ({', '.join(kinds[:4])}); {most} taken for all")
    return host


def _frame_buffer(lines: list[str]) -> list[float]:
    """The total below the first "FB Memory Usage"; other totals of a GPU are its BAR1 window."""
    start = next((i for i, line in enumerate(lines) if line.strip().startswith("FB Memory Usage")), len(lines))
    return [float(m[1]) for m in map(_TOTAL_LINE.match, lines[start : start + 6]) if m][:1]


def _from_csv(text: str, file: str) -> tuple[list[str], list[float]]:
    names: list[str] = []
    memory: list[float] = []
    try:
        rows = [[c.strip() for c in row] for row in csv.reader(text.splitlines()) if any(c.strip() for c in row)]
    except csv.Error as error:
        raise InputError.of(f"not CSV: {error}", file=file, line=1) from None
    if not rows:
        raise InputError.of("the file is empty", file=file, line=1)
    header = [c.split(" ")[0].lower() for c in rows[0]]
    if "name" in header or "gpu_name" in header:
        column: int | None = header.index("name") if "name" in header else header.index("gpu_name")
        body = rows[1:]
    else:
        column, body = _product_column(rows[0]), rows
    total = next((i for i, c in enumerate(header) if c == "memory.total"), None)
    for row in body:
        if column is not None and column < len(row) and row[column]:
            names.append(row[column][:120])
            cells = row if total is None else row[total : total + 1]
            found = [m for m in (re.match(r"(\d{3,9}) MiB\Z", c) for c in cells) if m] or [
                m for m in (re.match(r"(\d{3,9})\Z", c) for c in (cells if total is not None else [])) if m
            ]
            memory += [float(m[1]) for m in found[:1]]
    return names, memory


def _product_column(row: list[str]) -> int | None:
    """The column that holds a product name, in CSV without a header."""
    from autotune.importers.gpu_names import known_product

    return next((i for i, c in enumerate(row) if known_product(c) or c.startswith(("NVIDIA ", "Tesla ", "GeForce "))), None)
