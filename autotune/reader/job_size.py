"""Nodes and GPUs of a job, from launchers, batch directives, and the variables scripts use for them."""

from __future__ import annotations

import re

from autotune.reader import bash_words as w
from autotune.reader.flags import integer
from autotune.reader.launchers import Job
from autotune.reader.recovered import Recovered

_PER_NODE = ("GPUS_PER_NODE", "GPU_PER_NODE", "NPROC_PER_NODE", "NUM_GPUS_PER_NODE", "NUM_GPU_PER_NODE", "N_GPUS_PER_NODE", "NGPUS_PER_NODE", "SLURM_GPUS_PER_NODE")
_NODES = ("NNODES", "NUM_NODES", "N_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "NHOSTS")
_TOTAL = ("JOB_TOTAL_GPUS", "TOTAL_GPUS", "NUM_TOTAL_GPUS", "WORLD_SIZE_IN_GPUS", "WORLD_SIZE")
# Names that scripts make up for the same things.
_ALIKE = {_PER_NODE: r"(DLWS_)?(N|NUM)?_?GPUS?_PER_(NODE|WORKER|HOST)", _NODES: r"(DLWS_)?(N|NUM)_?(WORKERS?|HOSTS?|NODES?)|NODE_?(COUNT|NUM)"}
LOCAL = ("torchrun", "deepspeed", "accelerate", "composer", "python", "")


def size(found: Recovered, job: Job, settings: dict[str, str], default_per_node: int | None = None) -> None:
    """Fill `found.launch` with nodes, gpus_per_node and world_size, asking for what cannot be known."""
    launch, counts, variables = found.launch, job.counts, job.variables
    nodes, per_node, world = (_number(found, text, what) for text, what in ((job.nodes, "nodes"), (job.per_node, "GPUs per node"), (job.world, "processes")))
    asked = bool(found.missing)
    if per_node is None and not w.names_missing(job.per_node):
        per_node = _first(variables, _PER_NODE) or counts.get("gpus_per_node") or _visible(variables)
    if per_node is None and job.launcher in ("srun", "sbatch", "mpirun"):
        per_node = counts.get("ntasks_per_node")
    if nodes is None and not w.names_missing(job.nodes):
        nodes = counts.get("nodes") or _first(variables, _NODES)
    if world is None and counts.get("ntasks") and job.launcher in ("srun", "sbatch"):
        world = counts["ntasks"]
    if world is None and nodes is None and not asked:
        world = _first(settings, _TOTAL) or _first(variables, _TOTAL[:-1])
    if per_node is None and default_per_node and not (nodes and world):
        per_node = default_per_node
        found.assumed.append(f"{default_per_node} GPUs per node, as the cluster has")
        found.missing.pop("GPUS_PER_NODE", None)
    if nodes is None and world is None and not w.names_missing(job.nodes) and not job.hostfile and job.launcher in LOCAL:
        nodes = 1
        found.derived.setdefault("nodes")
    for key, value in (("nodes", nodes), ("gpus_per_node", per_node), ("world_size", world)):
        if value:
            launch[key] = value
    if not world and not (nodes and per_node):
        if nodes is None and not w.names_missing(job.nodes):
            found.need("NNODES", "the number of nodes")
        if per_node is None and not w.names_missing(job.per_node):
            found.need("GPUS_PER_NODE", "the number of GPUs on a node")


def from_settings(found: Recovered, settings: dict[str, str], default_per_node: int | None = None) -> None:
    """The size of a job whose configuration says nothing of it: `--set NNODES=4 --set GPUS_PER_NODE=8`, or WORLD_SIZE."""
    launch = found.launch
    for key, names in (("nodes", _NODES), ("gpus_per_node", _PER_NODE), ("world_size", _TOTAL)):
        value = _first(settings, names)
        if value and (key != "world_size" or not (launch.get("nodes") and launch.get("gpus_per_node"))):
            launch[key] = value
    if launch.get("nodes") and not launch.get("gpus_per_node") and not launch.get("world_size") and default_per_node:
        launch["gpus_per_node"] = default_per_node
    if not launch.get("world_size") and not (launch.get("nodes") and launch.get("gpus_per_node")) and not found.plan.get("data_parallel"):
        if not launch.get("nodes"):
            found.need("NNODES", "the number of nodes")
        if not launch.get("gpus_per_node"):
            found.need("GPUS_PER_NODE", "the number of GPUs on a node")


def _number(found: Recovered, text: str, what: str) -> int | None:
    for name in w.names_missing(text):
        found.need(name, what)
    return integer(text) if text and w.is_known(text) else None


def _first(variables: dict[str, str], names: tuple[str, ...]) -> int | None:
    alike = _ALIKE.get(names)
    for name in [*names, *([v for v in variables if re.fullmatch(alike, v)] if alike else [])]:
        value = variables.get(name, "")
        number = integer(value) if isinstance(value, str) and w.is_known(value) else None
        if number and number > 0:
            return number
    return None


def _visible(variables: dict[str, str]) -> int | None:
    value = variables.get("CUDA_VISIBLE_DEVICES", "")
    return len(value.split(",")) if value and w.is_known(value) and value[0].isdigit() else None
