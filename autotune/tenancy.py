"""Whether the nodes a scheduler gave keep what a plan needs on a rail-only network.

Without a network between rails, two GPUs of different rails and domains need a relay: a member of the same process group
in the sender's domain, on the receiver's rail (NCCL PXN relays only through the sender's own communicator). A domain with
holes has lost relays, and ranks behind a hole sit on another rail than the plan assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from autotune.errors import InputError
from autotune.importers.hostlist import expand as expand_hostlist

if TYPE_CHECKING:
    from autotune.traffic import Job


class LostRelay(NamedTuple):
    """A pair that cannot talk: the group's index, and the GPUs (cluster numbering) of sender and receiver."""

    group: int
    sender: int
    receiver: int


class Relays(NamedTuple):
    """`kept`: every pair of every group is direct or relayed. `lost` holds the first broken pair of each broken group."""

    kept: bool
    direct_pairs: int
    relayed_pairs: int
    lost: tuple[LostRelay, ...]


def allocated_gpus(nodes: Iterable[int], gpus_per_node: int) -> list[int]:
    """GPUs of an allocation, in rank order: node n holds GPUs n g .. n g + g - 1.

    >>> allocated_gpus([2, 0], 2)
    [0, 1, 4, 5]
    """
    return [node * gpus_per_node + i for node in sorted(set(nodes)) for i in range(gpus_per_node)]


def node_indexes(hostlist: str, all_nodes: Sequence[str]) -> list[int]:
    """Positions of an allocation's hosts in the cluster's list of nodes, both in Slurm's notation or spelled out.

    >>> node_indexes("gpu[01-02,04]", expand_hostlist("gpu[01-04]"))
    [0, 1, 3]
    """
    position = {name: i for i, name in enumerate(all_nodes)}
    names = expand_hostlist(hostlist)
    unknown = [n for n in names if n not in position]
    if unknown:
        raise InputError.of(f"not nodes of this cluster: {', '.join(unknown[:5])}", key="hostlist")
    return sorted(position[n] for n in names)


def relays_kept(allocated: Sequence[int], groups: Iterable[Sequence[int]], hb_size: int) -> Relays:
    """Check every process group of a plan on the GPUs of an allocation.

    `allocated` lists GPUs in rank order (rank r runs on `allocated[r]`), `groups` the ranks of each group whose members
    all talk to each other. GPU g is in domain g // hb_size on rail g % hb_size.

    >>> relays_kept([0, 1, 2, 3], [[0, 1, 2, 3]], hb_size=2).kept
    True
    >>> relays_kept([0, 1, 3, 4], [[0, 2]], hb_size=2).lost  # a hole: rank 2 moved to rail 1
    (LostRelay(group=0, sender=0, receiver=3),)
    """
    lost: list[LostRelay] = []
    direct = relayed = 0
    for index, ranks in enumerate(groups):
        if any(not 0 <= r < len(allocated) for r in ranks):
            raise ValueError(f"group {index} names rank {max(ranks)}, the allocation has {len(allocated)} GPUs")
        d, r, pair = _group_pairs([allocated[rank] for rank in ranks], hb_size)
        direct += d
        relayed += r
        if pair:
            lost.append(LostRelay(index, *pair))
    return Relays(not lost, direct, relayed, tuple(lost))


def _group_pairs(gpus: list[int], hb_size: int) -> tuple[int, int, tuple[int, int] | None]:
    """Ordered pairs that are direct, that are relayed, and the first that is neither.

    Only (domain, rails present) matters, so the cost is domains x domains, not members squared.
    """
    rails_of: dict[int, set[int]] = {}
    for gpu in gpus:
        rails_of.setdefault(gpu // hb_size, set()).add(gpu % hb_size)
    direct = relayed = 0
    broken: tuple[int, int] | None = None
    for source, here in rails_of.items():
        direct += len(here) * (len(here) - 1)
        for target, there in rails_of.items():
            if source == target:
                continue
            shared = len(here & there)
            direct += shared
            relayed += shared * (len(here) - 1)
            missing = sorted(there - here)
            if missing and broken is None:
                broken = (source * hb_size + min(here), target * hb_size + missing[0])
    return direct, relayed, broken


def plan_relays(job: Job, hosts: str, all_hosts: str, gpus_per_node: int) -> dict[str, Any]:
    """Whether an allocation keeps every direct link and relay that a plan's process groups need on a rail-only fabric.

    `hosts` are the allocated nodes, `all_hosts` the cluster's in the order of its domains, both as Slurm host lists.
    InputError when the allocation has fewer GPUs than the plan has ranks.
    """
    from autotune.traffic import kind_groups
    from searchspaces.groups import ranks

    gpus = allocated_gpus(node_indexes(hosts, expand_hostlist(all_hosts)), gpus_per_node)
    needed = ranks(job.point)
    if len(gpus) < needed:
        raise InputError.of(f"{hosts} holds {len(gpus)} GPUs, the plan needs {needed}", key="--hosts")
    kinds = {}
    for item in kind_groups(job):
        found = relays_kept(gpus[:needed], item.groups.tolist(), job.hb_size)
        first = found.lost[0] if found.lost else None
        kinds[item.kind] = {
            "kept": found.kept, "direct_pairs": found.direct_pairs, "relayed_pairs": found.relayed_pairs,
            "broken_groups": len(found.lost), "first_lost_pair": [first.sender, first.receiver] if first else None,
        }  # fmt: skip
    return {"kept": all(k["kept"] for k in kinds.values()), "kinds": kinds}
