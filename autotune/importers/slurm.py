"""Slurm: `topology.conf`, `topology.yaml`, and what `scontrol show node` prints."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from autotune.errors import InputError, Problem
from autotune.importers.facts import Inventory, Topology
from autotune.importers.hostlist import expand

MOST_SWITCHES = 20_000
MOST_ENTRIES = 500_000  # nodes and switches of all lines together
_PAIR = re.compile(r'([A-Za-z]+)=("[^"]*"|\S+)')
_KEYS = {"switchname", "nodes", "switches", "linkspeed", "blockname", "blocksizes"}
_DOWN = ("DOWN", "DRAIN", "FAIL", "MAINT", "NOT_RESPONDING")


class _Switch:
    def __init__(self, line: int, nodes: list[str], children: list[str], speed: float) -> None:
        self.line, self.nodes, self.children, self.speed = line, nodes, children, speed


def parse_topology_conf(text: str, file: str = "") -> Topology:
    """Nodes and switches of a `topology.conf` (tree or block plugin).

    Oversubscription is worked out only where `LinkSpeed` is given, read as the speed of the links below a switch: nodes
    times leaf speed over the speed of the leaf's link in its parent. Slurm does not define or use the value.

    >>> t = parse_topology_conf("SwitchName=s1 Nodes=n[1-4] LinkSpeed=400\\nSwitchName=top Switches=s1 LinkSpeed=800")
    >>> t.tiers, t.oversubscription, len(t.nodes)
    (2, 2.0, 4)
    """
    switches: dict[str, _Switch] = {}
    blocks: dict[str, list[str]] = {}
    sizes: list[int] = []
    problems: list[Problem] = []
    entries = 0
    for number, line in _logical_lines(text):
        try:
            pairs = _pairs(line, file, number)
            if "switchname" in pairs:
                entries += _add_switch(pairs, switches, file, number)
            elif "blockname" in pairs:
                nodes = blocks[pairs["blockname"][:200]] = expand(pairs.get("nodes", ""), file, number, "Nodes")
                entries += len(nodes)
            elif "blocksizes" in pairs:
                sizes = [_count(s, file, number) for s in pairs["blocksizes"].split(",")]
            else:
                raise InputError.of("neither SwitchName nor BlockName", file=file, line=number)
        except InputError as error:
            problems += error.problems
        if len(problems) > 20:
            break
        if entries > MOST_ENTRIES or len(switches) > MOST_SWITCHES:
            raise InputError.of(f"more than {MOST_SWITCHES} switches or {MOST_ENTRIES} nodes", file=file, line=number)
    if problems:
        raise InputError(problems)
    if blocks:
        return _blocks(blocks, sizes, file)
    if not switches:
        raise InputError.of("no SwitchName or BlockName line: not a topology.conf", file=file, line=1)
    return _tree(switches, file)


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """(number of the first line, text) with comments gone and continued lines joined."""
    result: list[tuple[int, str]] = []
    held, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].rstrip()
        start = start or number
        if line.endswith("\\"):
            held += line[:-1]
            continue
        if (held + line).strip():
            result.append((start, (held + line).strip()))
        held, start = "", 0
    if held.strip():
        result.append((start, held.strip()))
    return result


def _pairs(line: str, file: str, number: int) -> dict[str, str]:
    found = {m[1].lower(): m[2].strip('"') for m in _PAIR.finditer(line)}
    rest = _PAIR.sub("", line).strip()
    unknown = sorted(set(found) - _KEYS)
    if rest or not found:
        raise InputError.of(f"'{(rest or line)[:60]}' is not Key=Value", file=file, line=number)
    if unknown:
        raise InputError.of(f"unknown key {unknown[0][:40]}", file=file, line=number, key=unknown[0][:40])
    return found


def _add_switch(pairs: dict[str, str], switches: dict[str, _Switch], file: str, number: int) -> int:
    """Take one line in; the number of names on it."""
    name = pairs["switchname"][:200]
    if name in switches:
        raise InputError.of(f"switch {name[:60]} is defined twice (first in line {switches[name].line})", file=file, line=number)
    nodes = expand(pairs["nodes"], file, number, "Nodes") if "nodes" in pairs else []
    children = expand(pairs["switches"], file, number, "Switches") if "switches" in pairs else []
    speed = pairs.get("linkspeed", "0")
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", speed):
        raise InputError.of(f"LinkSpeed must be a number, got '{speed[:40]}'", file=file, line=number, key="LinkSpeed")
    switches[name] = _Switch(number, nodes, children, float(speed))
    return len(nodes) + len(children)


def _count(text: str, file: str, line: int) -> int:
    if not re.fullmatch(r"[1-9]\d{0,6}", text.strip()):
        raise InputError.of(f"'{text[:40]}' is not a whole number of at least 1", file=file, line=line)
    return int(text)


def _tree(switches: dict[str, _Switch], file: str) -> Topology:
    problems = [
        Problem(f"switch {child[:60]} is not defined", file, s.line, "Switches")
        for s in switches.values()
        for child in s.children
        if child not in switches
    ]
    if problems:
        raise InputError(problems[:20])
    depth = _depths(switches, file)
    result = Topology(file, kind="tree", tiers=max(depth.values()))
    leaves = {name: s.nodes for name, s in switches.items() if s.nodes}
    result.groups = leaves
    result.nodes = list(dict.fromkeys(n for nodes in leaves.values() for n in nodes))
    twice = [n for n, c in Counter(n for nodes in leaves.values() for n in nodes).items() if c > 1]
    if twice:
        result.notes.append(f"{len(twice)} node(s) hang on several switches, e.g. {twice[0]}")
    roots = set(switches) - {c for s in switches.values() for c in s.children}
    if len(roots) > 1:
        result.notes.append(f"{len(roots)} switches have no switch above them: no path between their nodes is described")
    _uneven(result, "leaf switch")
    ratios = [
        len(switches[c].nodes) * switches[c].speed / s.speed
        for s in switches.values()
        if s.speed
        for c in s.children
        if switches[c].nodes and switches[c].speed
    ]
    if ratios:
        result.oversubscription = max(1.0, max(ratios))
    return result


def _depths(switches: dict[str, _Switch], file: str) -> dict[str, int]:
    """Levels below and including each switch; a loop is an error."""
    depth = {name: 1 for name, s in switches.items() if not s.children}
    left = {name: set(s.children) for name, s in switches.items() if s.children}
    while left:
        ready = [name for name, children in left.items() if all(c in depth for c in children)]
        if not ready:
            name = next(iter(left))
            raise InputError.of(f"switch {name[:60]} is above itself", file=file, line=switches[name].line, key="Switches")
        for name in ready:
            depth[name] = 1 + max(depth[c] for c in left.pop(name))
    return depth


def _blocks(blocks: dict[str, list[str]], sizes: list[int], file: str) -> Topology:
    result = Topology(file, kind="block", tiers=2, groups=blocks, block_sizes=sizes)
    result.nodes = list(dict.fromkeys(n for nodes in blocks.values() for n in nodes))
    _uneven(result, "block")
    return result


def _uneven(result: Topology, what: str) -> None:
    sizes = sorted({len(nodes) for nodes in result.groups.values()})
    if len(sizes) > 1:
        listed = ", ".join(f"{name} {len(nodes)}" for name, nodes in list(result.groups.items())[:6])
        result.notes.append(f"uneven: nodes per {what} differ ({listed}{', ...' if len(result.groups) > 6 else ''})")


def topology_from_yaml(data: Any, file: str = "") -> Topology:
    """The default topology of a `topology.yaml` (keys `topology`, `cluster_default`, and `tree`, `block` or `flat`).

    >>> t = topology_from_yaml([{"topology": "r", "cluster_default": True, "block": {"block_sizes": [2],
    ...                          "blocks": [{"block": "b1", "nodes": "n[1-2]"}]}}])
    >>> t.kind, t.block_sizes, t.nodes
    ('block', [2], ['n1', 'n2'])
    """
    entries = [e for e in data if isinstance(e, dict) and "topology" in e] if isinstance(data, list) else []
    if not entries:
        raise InputError.of("expected a list of entries with the key 'topology'", file=file, line=1)
    chosen = next((e for e in entries if e.get("cluster_default") is True), entries[0])
    if isinstance(chosen.get("block"), dict):
        return _yaml_blocks(chosen["block"], file)
    if isinstance(chosen.get("tree"), dict):
        return _yaml_tree(chosen["tree"], file)
    return Topology(file, kind="flat", tiers=1, notes=["the default topology is flat: nothing is known of switches"])


def _yaml_blocks(block: dict[str, Any], file: str) -> Topology:
    items = block.get("blocks")
    if not isinstance(items, list) or not all(isinstance(i, dict) and isinstance(i.get("block"), str) for i in items):
        raise InputError.of("must be a list of entries with 'block' and 'nodes'", file=file, key="block.blocks")
    if len(items) > MOST_SWITCHES:
        raise InputError.of(f"more than {MOST_SWITCHES} blocks", file=file, key="block.blocks")
    blocks: dict[str, list[str]] = {}
    for item in items:
        blocks[item["block"][:200]] = expand(str(item.get("nodes", "")), file, 0, "block.blocks.nodes")
        _limit(sum(map(len, blocks.values())) if len(blocks) % 64 == 0 else 0, file)
    sizes = block.get("block_sizes", [])
    if not isinstance(sizes, list) or not all(type(s) is int and 1 <= s <= 10**6 for s in sizes):
        raise InputError.of("must be a list of whole numbers of at least 1", file=file, key="block.block_sizes")
    return _blocks(blocks, list(sizes), file)


def _yaml_tree(tree: dict[str, Any], file: str) -> Topology:
    items = tree.get("switches")
    if not isinstance(items, list) or not all(isinstance(i, dict) and isinstance(i.get("switch"), str) for i in items):
        raise InputError.of("must be a list of entries with 'switch'", file=file, key="tree.switches")
    switches: dict[str, _Switch] = {}
    entries = 0
    for item in items[:MOST_SWITCHES]:
        nodes = expand(str(item["nodes"]), file, 0, "tree.switches.nodes") if item.get("nodes") else []
        children = expand(str(item["children"]), file, 0, "tree.switches.children") if item.get("children") else []
        entries += len(nodes) + len(children)
        _limit(entries, file)
        switches[item["switch"]] = _Switch(0, nodes, children, 0.0)
    return _tree(switches, file)


def _limit(entries: int, file: str) -> None:
    if entries > MOST_ENTRIES:
        raise InputError.of(f"more than {MOST_ENTRIES} nodes", file=file)


def parse_scontrol(text: str, file: str = "") -> Inventory:
    """GPU nodes from `scontrol show node` (with or without `-o`).

    >>> i = parse_scontrol("NodeName=n1 State=IDLE Gres=gpu:h100:8(S:0-1)\\nNodeName=n2 State=DOWN Gres=gpu:h100:8")
    >>> i.nodes, i.gpus_per_node, i.product
    (['n1', 'n2'], 8, 'h100')
    """
    records = re.split(r"(?m)(?=^\s*NodeName=)", text)
    records = [r for r in records if r.lstrip().startswith("NodeName=")]
    if not records:
        raise InputError.of("no NodeName= record: not the output of 'scontrol show node'", file=file, line=1)
    result = Inventory(file)
    kinds: Counter[tuple[str, int]] = Counter()
    hosts: list[tuple[str, tuple[str, int], str]] = []
    for record in records:
        keys = dict(re.findall(r"(\w+)=(\S*)", record))
        kind = _gres(keys.get("Gres", ""), keys.get("CfgTRES", ""))
        if kind[1]:
            kinds[kind] += 1
            hosts += [(name, kind, keys.get("State", "")) for name in expand(keys["NodeName"], file, 0, "NodeName")]
    if not kinds:
        raise InputError.of("no node has GPUs (Gres=gpu:...)", file=file, key="Gres")
    (result.product, result.gpus_per_node), _ = kinds.most_common(1)[0]
    result.nodes = [name for name, kind, _ in hosts if kind == (result.product, result.gpus_per_node)]
    if len(kinds) > 1:
        result.notes.append(f"{len(hosts) - len(result.nodes)} node(s) with other GPUs left out")
    down = [n for n, kind, state in hosts if n in set(result.nodes) and any(w in state.upper() for w in _DOWN)]
    if down:
        result.notes.append(f"{len(down)} node(s) down or drained are counted: {', '.join(down[:4])}")
    return result


def _gres(gres: str, tres: str) -> tuple[str, int]:
    """(type, count) of the GPUs in a Gres or CfgTRES value; the type may be empty."""
    total, kind = 0, ""
    for match in re.finditer(r"(?:^|,)gpu(?::([A-Za-z][\w.-]{0,60}))?:(\d{1,4})", gres):
        total += int(match[2])
        kind = kind or (match[1] or "")
    if not total:
        plain = re.search(r"(?:^|,)gres/gpu=(\d{1,4})", tres)
        typed = re.search(r"(?:^|,)gres/gpu:([A-Za-z][\w.-]{0,60})=(\d{1,4})", tres)
        total = int(plain[1]) if plain else int(typed[2]) if typed else 0
        kind = typed[1] if typed else ""
    return kind, total
