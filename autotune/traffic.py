"""Bytes between GPUs in one iteration, by kind of process group, and how they lie on domains and rails.

Totals come from one representative of each placement pattern times how often it occurs, so they are exact and cheap at
any size. Only the heat map, the count of idle pairs and the list of pairs walk every group, block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from autotune.cluster_checks import gpu_counts, hb_sizes
from autotune.constants import model_constants, stack_constants
from autotune.errors import InputError
from autotune.plan import Plan
from autotune.plan_points import plan_point
from autotune.specs import ClusterSpec, ModelSpec
from autotune.training_state import training_stack
from costmodels.parameters import moe_layers_before
from costmodels.stages import stage_layer_count
from costmodels.topology import CLASS_NAMES
from costmodels.traffic import StageLayers, StageVolumes, stage_volumes
from costmodels.types import Model, Point, Stack
from searchspaces.flows import Flows, all_to_all, chain, exchange, ring
from searchspaces.groups import KINDS, coordinates, group_shape, members, ranks
from searchspaces.placement import classify


class Job(NamedTuple):
    """What traffic depends on. `stage_layers` empty: as the point says."""

    model: Model
    stack: Stack
    point: Point
    hb_size: int
    stage_layers: tuple[int, ...] = ()


def job_of(cluster: ClusterSpec, spec: ModelSpec, plan: Plan) -> Job:
    """The job of a plan on a cluster. InputError when the plan does not fit the cluster's GPUs or the model's layers.

    The HB-domain size is the plan's where the cluster offers it, else the cluster's own.
    """
    most = max(gpu_counts(cluster))
    if plan.gpus > most:
        raise InputError.of(f"the plan needs {plan.gpus} GPUs, {cluster.name} has {most}", key="data_parallel")
    sizes = [k for count in gpu_counts(cluster) for k in hb_sizes(cluster, count)]
    size = plan.hb_domain_size if plan.hb_domain_size in sizes else sizes[0]
    job = Job(model_constants(spec), training_stack(stack_constants(plan.stack), spec), plan_point(plan)[0], size, plan.stage_layers)
    try:
        volumes_by_stage(job)
    except ValueError as e:
        raise InputError.of(str(e), key="stage_layers") from None
    return job


class KindGroups(NamedTuple):
    """Groups of one kind and the payload of each (see `costmodels.traffic`)."""

    kind: str
    groups: np.ndarray
    payload: np.ndarray


def volumes_by_stage(job: Job) -> list[StageVolumes]:
    """Bytes per GPU and kind of every pipeline stage."""
    model, point = job.model, job.point
    P = point.pipeline
    counts = job.stage_layers or tuple(
        stage_layer_count(model.layers, P, point.first_layers, point.last_layers, j) for j in range(P)
    )
    if len(counts) != P or sum(counts) != model.layers:
        raise ValueError(f"stage_layers {list(counts)} do not share out {model.layers} layers over {P} stages")
    volumes, start = [], 0
    for j, count in enumerate(counts):
        moe = moe_layers_before(model, start + count) - moe_layers_before(model, start)
        layers = StageLayers(float(count - moe), float(moe), int(j == 0), int(j == P - 1))
        volumes.append(stage_volumes(model, job.stack, point, layers))
        start += count
    return volumes


def kind_groups(job: Job) -> Iterator[KindGroups]:
    """Every kind that moves bytes."""
    volumes = volumes_by_stage(job)
    stage_of = coordinates(job.point)["pp"]
    for kind in KINDS:
        if group_shape(job.point, kind).size <= 1:
            continue
        by_stage = np.array([getattr(v, kind.replace("-", "_")) for v in volumes])
        groups = members(job.point, kind)
        payload = by_stage[stage_of[groups[:, 0]]]
        if payload.any():
            yield KindGroups(kind, groups, payload)


def kind_flows(job: Job, kind: str, groups: np.ndarray, payload: np.ndarray) -> Iterator[Flows]:
    """The pairs that groups of one kind load."""
    if kind == "expert":
        copies = 1.0
        if job.model.route_topk_groups > 0:
            copies = min(1.0, job.model.route_topk_groups / max(1, job.model.topk))
        return all_to_all(groups, payload, job.hb_size, copies)
    if kind == "context":
        return exchange(groups, payload, job.hb_size)
    if kind == "pipeline":
        return chain(groups, payload, job.hb_size, job.point.chunks)
    return ring(groups, payload, job.hb_size)


class Totals:
    """Bytes of one kind, split by how they travel."""

    def __init__(self, hb_size: int) -> None:
        self.hb_size = hb_size
        self.in_domain = self.on_rail = self.relayed = self.crossing = 0.0
        self.rails = np.zeros(hb_size)  # sent by the NICs of each rail
        self.by_class: dict[str, list[float]] = {}  # class -> [groups, bytes]

    @property
    def bytes(self) -> float:
        """All bytes, each counted once however it travels."""
        return self.in_domain + self.on_rail + self.relayed + self.crossing

    def add(self, flows: Flows, times: np.ndarray, codes: np.ndarray) -> None:
        """Count flows; `times` and `codes` are per group row."""
        K = self.hb_size
        nbytes = flows.nbytes * times[flows.group]
        inside = flows.source // K == flows.target // K
        aligned = ~inside & (flows.source % K == flows.target % K)
        relayed = ~inside & ~aligned & flows.relay
        crossing = ~(inside | aligned | relayed)
        self.in_domain += float(nbytes[inside].sum())
        self.on_rail += float(nbytes[aligned].sum())
        self.relayed += float(nbytes[relayed].sum())
        self.crossing += float(nbytes[crossing].sum())
        network = aligned | relayed  # a relayed message leaves on the rail of its target
        self.rails += np.bincount(flows.target[network] % K, weights=nbytes[network], minlength=K)
        for code in np.unique(codes):
            of_code = codes[flows.group] == code
            self.by_class.setdefault(CLASS_NAMES[code], [0, 0.0])[1] += float(nbytes[of_code].sum())


def kind_totals(job: Job, item: KindGroups) -> Totals:
    """Totals of one kind from one representative of each pattern (same place up to whole domains, same payload).

    Groups of one kind are one set of offsets at different first ranks, so the first rank's place in its domain tells the pattern.
    """
    K = job.hb_size
    _, payload_id = np.unique(item.payload, return_inverse=True)
    pattern = payload_id.reshape(-1) * K + item.groups[:, 0] % K
    _, first, times = np.unique(pattern, return_index=True, return_counts=True)
    groups, payload = item.groups[first], item.payload[first]
    codes = classify(groups, K)
    totals = Totals(K)
    for code in np.unique(codes):
        totals.by_class[CLASS_NAMES[code]] = [int(times[codes == code].sum()), 0.0]
    for flows in kind_flows(job, item.kind, groups, payload):
        totals.add(flows, times, codes)
    return totals


def worst(totals: Totals) -> str:
    """The class of a kind's worst group."""
    return max(totals.by_class, key=CLASS_NAMES.index)


def summary(job: Job) -> dict[str, Any]:
    """Kinds, rails, tiers and groups of one iteration; see `docs/placement.md` for every field."""
    kinds: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    rails = np.zeros(job.hb_size)
    tiers = {"hb": 0.0, "rail": 0.0, "cross": 0.0}
    for item in kind_groups(job):
        t = kind_totals(job, item)
        kinds[item.kind] = {
            "bytes": t.bytes, "class": worst(t), "direct": t.in_domain + t.on_rail, "relayed": t.relayed, "crossing": t.crossing,
        }  # fmt: skip
        rails += t.rails
        tiers["hb"] += t.in_domain + t.relayed
        tiers["rail"] += t.on_rail + t.relayed
        tiers["cross"] += t.crossing
        axes = [{"name": a.name, "size": a.size, "stride": a.stride} for a in group_shape(job.point, item.kind).axes]
        for name, (count, nbytes) in t.by_class.items():
            row = {"kind": item.kind, "size": item.groups.shape[1], "count": count, "class": name, "bytes": nbytes, "axes": axes}
            groups.append(row)
    total = sum(k["bytes"] for k in kinds.values())
    for k in kinds.values():
        k["share"] = k["bytes"] / total if total else 0.0
    return {
        "gpus": ranks(job.point), "hb_domain_size": job.hb_size, "bytes": total, "kinds": kinds,
        "rails": {str(i): float(b) for i, b in enumerate(rails)}, "tiers": tiers, "groups": groups,
    }  # fmt: skip


def rail_report(
    model: Model, stack: Stack, point: Point, hb_size: int, stage_layers: tuple[int, ...] = ()
) -> dict[str, Any]:
    """Whether rails alone can carry a point, and what would not stay on them. Raises ValueError for impossible degrees.

    >>> from costmodels.examples import MEGATRON_2021, POINT, TINY
    >>> report = rail_report(TINY, MEGATRON_2021, POINT._replace(tensor=2, data=8, zero=1), 8)
    >>> report["compatible"], report["cross_rail_bytes"], [(g["kind"], g["class"]) for g in report["groups"]]
    (True, 0.0, [('tensor', 'in-domain'), ('data', 'whole-domains')])
    """
    found = summary(Job(model, stack, point, hb_size, stage_layers))
    kinds = found["kinds"].values()
    return {
        "compatible": all(k["class"] != "illegal" for k in kinds),
        "cross_rail_bytes": sum(k["crossing"] for k in kinds),
        "relayed_bytes": sum(k["relayed"] for k in kinds),
        "groups": [{k: g[k] for k in ("kind", "size", "count", "class", "bytes")} for g in found["groups"]],
    }


def all_flows(job: Job) -> Iterator[tuple[str, Flows]]:
    """(kind, flows) of every group, in blocks."""
    for item in kind_groups(job):
        for flows in kind_flows(job, item.kind, item.groups, item.payload):
            yield item.kind, flows


def matrix(job: Job, cells: int = 512) -> np.ndarray:
    """Bytes from GPU (row) to GPU (column); above `cells` GPUs each cell sums a block of neighbouring GPUs."""
    n = ranks(job.point)
    block = -(-n // cells)
    width = -(-n // block)
    total = np.zeros(width * width)
    for _, flows in all_flows(job):
        cell = flows.source // block * width + flows.target // block
        total += np.bincount(cell, weights=flows.nbytes, minlength=width * width)
    return total.reshape(width, width)


def idle_pairs_share(job: Job) -> float:
    """Share of ordered GPU pairs that exchange nothing in an iteration."""
    n = ranks(job.point)
    if n == 1:
        return 1.0
    expert_group, active, few = np.full(n, -1), 0, []
    for item in kind_groups(job):
        if item.kind == "expert":  # every pair of a group: counted, not listed
            groups = item.groups[item.payload > 0]
            expert_group[groups] = np.arange(len(groups))[:, None]
            active += groups.size * (groups.shape[1] - 1)
            continue
        for flows in kind_flows(job, item.kind, item.groups, item.payload):
            loaded = flows.nbytes > 0
            few.append(flows.source[loaded] * n + flows.target[loaded])
    pairs = np.unique(np.concatenate(few)) if few else np.zeros(0, dtype=np.int64)
    source, target = pairs // n, pairs % n
    active += int(((expert_group[source] != expert_group[target]) | (expert_group[source] < 0)).sum())
    return 1.0 - active / (n * (n - 1))


def pair_list(job: Job) -> Iterator[tuple[str, int, int, float]]:
    """(kind, source, target, bytes) of every loaded pair, kinds apart, several flows of a pair summed."""
    n = ranks(job.point)
    for item in kind_groups(job):
        found = list(kind_flows(job, item.kind, item.groups, item.payload))
        keys = np.concatenate([f.source * n + f.target for f in found])
        unique, where = np.unique(keys, return_inverse=True)
        sums = np.bincount(where, weights=np.concatenate([f.nbytes for f in found]))
        for key, nbytes in zip(unique.tolist(), sums.tolist(), strict=True):
            if nbytes > 0:
                yield item.kind, key // n, key % n, nbytes


def loaded_pairs(job: Job) -> int:
    """An upper bound of the rows of `pair_list`, without listing them."""
    total = 0
    for item in kind_groups(job):
        per_member = {"expert": item.groups.shape[1] - 1, "pipeline": 4}.get(item.kind, 2)
        total += item.groups.size * per_member
    return total
