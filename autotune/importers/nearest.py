"""Which NIC serves which GPU, and which GPUs NVLink joins, from labels as `nvidia-smi topo -m` prints them."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.importers.facts import Host

# Nearest first: one PCIe bridge, several, one host bridge, between host bridges, between sockets.
CLOSENESS = {"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 3, "SYS": 4}
ON_ONE_SWITCH = 1


@dataclass
class Rails:
    """`gpu_to_nics[g]`: the NICs of GPU g. `unused`: NICs nearest to no GPU, such as storage cards."""

    gpu_to_nics: list[list[int]]
    unused: list[int]
    told: bool  # False: no GPU has a NIC on its own PCIe switch, so the map is a guess

    @property
    def used(self) -> list[int]:
        """Compute NICs in rail order, each once."""
        return list(dict.fromkeys(n for nics in self.gpu_to_nics for n in nics))

    @property
    def count(self) -> int:
        """Rails of the host: NICs that GPUs share count once, several NICs of one GPU make one rail."""
        return len({tuple(nics) for nics in self.gpu_to_nics if nics})

    def sharers(self, nic: int) -> int:
        """GPUs that use a NIC."""
        return sum(nic in nics for nics in self.gpu_to_nics)


def rails(near: list[list[str]]) -> Rails:
    """The GPU-to-NIC map: the NICs nearest to each GPU, spread evenly over GPUs at the same distance.

    Two GPUs behind one switch with two NICs get one each:

    >>> rails([["PXB", "PXB", "SYS"], ["PXB", "PXB", "SYS"]])
    Rails(gpu_to_nics=[[0], [1]], unused=[2], told=True)
    """
    count = len(near[0]) if near else 0
    if not count:
        return Rails([[] for _ in near], [], False)
    best = [min(CLOSENESS.get(label, 9) for label in row) for row in near]
    close = [[n for n in range(count) if CLOSENESS.get(row[n], 9) == b] for row, b in zip(near, best, strict=True)]
    local = [g for g, b in enumerate(best) if b <= ON_ONE_SWITCH]
    chosen: list[list[int]] = [[] for _ in near]
    groups: dict[tuple[int, ...], list[int]] = {}
    for g in local:
        groups.setdefault(tuple(close[g]), []).append(g)
    for nics, gpus in groups.items():
        for position, g in enumerate(gpus):
            chosen[g] = _share(list(nics), len(gpus), position)
    _serve_the_rest(chosen, near, count, bool(local))
    used = {n for nics in chosen for n in nics}
    return Rails(chosen, [n for n in range(count) if n not in used], bool(local))


def _share(nics: list[int], gpus: int, position: int) -> list[int]:
    """The part of `nics` that belongs to one of `gpus` equally near GPUs."""
    if len(nics) < gpus:
        return [nics[position * len(nics) // gpus]]
    each = len(nics) // gpus
    return nics[position * each : (position + 1) * each]


def _serve_the_rest(chosen: list[list[int]], near: list[list[str]], count: int, some_local: bool) -> None:
    """GPUs without a NIC on their own switch take the nearest, least used one."""
    candidates = sorted({n for nics in chosen for n in nics}) if some_local else list(range(count))
    load = dict.fromkeys(candidates, 0)
    for nics in chosen:
        for n in nics:
            load[n] += 1
    for g, nics in enumerate(chosen):
        if nics:
            continue
        n = min(candidates, key=lambda c: (CLOSENESS.get(near[g][c], 9), load[c], c))
        load[n] += 1
        chosen[g] = [n]


@dataclass
class Domain:
    """GPUs that NVLink joins. `links` are the NVLinks of one GPU; `kind` is switch, mesh, ring or none."""

    size: int
    links: int
    kind: str
    even: bool = True  # every group has this size


MOST_LINKS_OF_A_GPU = 18


def domain(host: Host) -> Domain:
    """The HB domain of a host, from its link matrix.

    With a switch every pair shows all links of a GPU; without one the links of a GPU are spread over its peers.

    >>> domain(Host("", 2, links=[[0, 4], [4, 0]]))
    Domain(size=2, links=4, kind='mesh', even=True)
    """
    if host.switch_links:
        return Domain(host.gpus, host.switch_links, "switch")
    if not any(any(row) for row in host.links):
        return Domain(1, 0, "none")
    groups = _joined(host.links)
    sizes = [len(g) for g in groups]
    size = max(sizes)
    widest = max(max(row) for row in host.links)
    total = max(sum(row) for row in host.links)
    joined = [g for g in groups if len(g) == size]
    complete = all(host.links[a][b] for g in joined for a in g for b in g if a != b)
    if size > 2 and complete and (total > MOST_LINKS_OF_A_GPU):
        return Domain(size, widest, "switch", len(set(sizes)) == 1)
    return Domain(size, total, "mesh" if complete else "ring", len(set(sizes)) == 1)


def _joined(links: list[list[int]]) -> list[list[int]]:
    """Connected components of the NVLink graph."""
    left, groups = set(range(len(links))), []
    while left:
        stack, group = [min(left)], []
        left.discard(stack[0])
        while stack:
            a = stack.pop()
            group.append(a)
            near = [b for b in sorted(left) if links[a][b]]
            left.difference_update(near)
            stack += near
        groups.append(sorted(group))
    return groups
