"""The job behind a plan: nodes, GPUs per node, domains; and what a launcher needs to write its files."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from autotune.emit.shell import Raw, array, job_name
from autotune.errors import InputError
from autotune.plan import Plan
from autotune.specs import ClusterSpec, LaunchSpec, ModelSpec


class Layout(NamedTuple):
    """How the ranks of a job fill hosts and high-bandwidth domains."""

    nodes: int
    gpus_per_node: int
    domain: int  # GPUs of one high-bandwidth domain, at most the job

    @property
    def gpus(self) -> int:
        """Ranks of the job."""
        return self.nodes * self.gpus_per_node

    @property
    def nodes_per_domain(self) -> int:
        """Hosts joined by one high-bandwidth domain; 1 when a host holds whole domains."""
        return max(1, self.domain // self.gpus_per_node)


def layout(cluster: ClusterSpec, plan: Plan) -> Layout:
    """Hosts and domains of the plan on this cluster.

    A host has `gpus_per_node` GPUs. By default that is 8, or the domain if it is smaller (4 for domains of 36 or 72 GPUs, whose
    trays hold 4), or less where the job would not fill whole hosts. Raises InputError when the number the file gives does not
    divide the job.

    >>> c = ClusterSpec(name="c", gpu="H100-80GB-SXM", gpus=64)
    >>> layout(c, Plan(tensor_parallel=8, data_parallel=4, global_batch_size=4))
    Layout(nodes=4, gpus_per_node=8, domain=8)
    >>> layout(c, Plan(tensor_parallel=4))
    Layout(nodes=1, gpus_per_node=4, domain=4)
    >>> layout(c, Plan(tensor_parallel=4, data_parallel=3, global_batch_size=3))
    Layout(nodes=3, gpus_per_node=4, domain=8)
    """
    gpus, domain = plan.gpus, plan.hb_domain_size
    per_node = min(cluster.gpus_per_node or (4 if domain % 36 == 0 else min(8, domain)), gpus)
    if gpus % per_node and cluster.gpus_per_node:
        raise InputError.of(f"{gpus} ranks do not fill hosts of {per_node} GPUs (gpus_per_node)", key="gpus_per_node")
    per_node = math.gcd(per_node, gpus)
    return Layout(gpus // per_node, per_node, min(domain, gpus))


class Variable(NamedTuple):
    """One environment variable and why it is set. An empty value unsets it."""

    name: str
    value: str
    why: str


@dataclass(frozen=True)
class Arguments:
    """One named group of program arguments: a bash array in the scripts, a list elsewhere."""

    name: str  # MODEL_ARGS
    title: str  # comment above it
    rows: list[tuple[str | int | float, ...]]

    def bash(self) -> str:
        """The bash array."""
        return array(self.name, self.rows)


@dataclass(frozen=True)
class Job:
    """Everything a launcher needs, and nothing of Megatron or DeepSpeed."""

    name: str
    header: list[str]
    layout: Layout
    program: Raw  # shell word of the program file, e.g. "${MEGATRON_PATH:-.}/pretrain_gpt.py"
    arguments: list[Arguments]
    environment: list[Variable]
    site: LaunchSpec
    python: tuple[str, ...] = ("python", "-u")
    optional: str = ""  # shell text after the arrays: arguments that depend on the user's environment
    optional_arrays: tuple[str, ...] = ()
    arguments_last: str = ""  # an array that must stand behind the arguments given to the script
    script: str = "launch"  # stem of the script's name
    attachments: dict[str, str] = field(default_factory=dict)  # files that must lie beside the script where it runs
    amd: bool = False
    deepspeed: bool = False  # started by DeepSpeed's own launcher where that is possible

    @property
    def expansions(self) -> list[str]:
        """`"${A[@]}"` of every array and the script's own arguments: quoted, so that a value with blanks stays one word."""
        names = [a.name for a in self.arguments if a.name != self.arguments_last] + list(self.optional_arrays)
        words = [f'"${{{n}[@]}}"' for n in names] + ['"$@"']
        return words + ([f'"${{{self.arguments_last}[@]}}"'] if self.arguments_last else [])


def header(target: str, versions: str, cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> list[str]:
    """Comment lines that say what a file starts."""
    p, where = plan, layout(cluster, plan)
    return [
        f"Model {model.name} on cluster {cluster.name}: plan {p.id}, {p.gpus} GPUs.",
        f"tensor {p.tensor_parallel} x pipeline {p.pipeline_parallel} x data {p.data_parallel} x context {p.context_parallel}, "
        f"expert {p.expert_parallel}; {p.micro_batches} micro-batches of {p.micro_batch_size}, global batch {p.global_batch_size}.",
        f"{where.nodes} hosts of {where.gpus_per_node} GPUs, high-bandwidth domains of {where.domain}.",
        f"Target {target}: {versions}.",
    ]


def name_of(model: ModelSpec, plan: Plan) -> str:
    """Job name: model and plan."""
    return job_name(f"{model.name}-{plan.id}", 60)


Launcher = Callable[[Job], dict[str, str]]
