"""Facts about public runs that their rows do not carry: machines, framework names, model flags.

Data files: `autotune/catalogue/validation/*.csv`, each line with its source.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from importlib import resources
from typing import NamedTuple


class System(NamedTuple):
    """A machine: GPUs per node, Gb/s per GPU, measured shares and latency of its parts; None = not known.

    `stall_gpus`: pipeline transfers of jobs of so many GPUs stall; how long is fitted.
    """

    gpus_per_node: int | None = None
    nic_Gbps: float | None = None
    nic_efficiency: float | None = None
    latency_us: float | None = None
    gemm_efficiency: float | None = None
    stall_gpus: float | None = None


class ModelFlags(NamedTuple):
    """What shapes alone do not say. Sizes of latent attention are 0 without it."""

    gated: bool | None = None
    tied: bool | None = None
    q_lora: int = 0
    kv_lora: int = 0
    qk_nope: int = 0
    qk_rope: int = 0
    v_dim: int = 0
    mtp: int = 0
    window: int = 0
    route_groups: int = 0  # node-limited routing
    route_topk_groups: int = 0


def _read(name: str) -> list[dict[str, str]]:
    text = (resources.files("autotune") / "catalogue" / "validation" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def systems() -> dict[str, System]:
    """Machines by `system_group`.

    >>> systems()["Jean Zay A100"].nic_Gbps
    50.0
    """
    return {
        r["system_group"]: System(
            int(r["gpus_per_node"]) if r["gpus_per_node"] else None,
            *(float(r[k]) if r[k] else None for k in ("nic_Gbps", "nic_efficiency", "latency_us", "gemm_efficiency", "stall_gpus")),
        )
        for r in _read("systems.csv")
    }


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(r["pattern"], re.IGNORECASE), r["stack"]) for r in _read("frameworks.csv")]


@cache
def stack_of(framework: str, flags: str = "") -> str:
    """Stack profile of a framework name and switches as sources print them; the first pattern that matches.

    >>> stack_of("nanotron v0.5-era"), stack_of("NeMo 24.07"), stack_of("")
    ('nanotron', 'nemo', 'megatron-bridge')
    """
    return next((stack for pattern, stack in _patterns() if pattern.search(f"{framework} {flags}")), "megatron-bridge")


def _flag(text: str) -> bool | None:
    return {"yes": True, "no": False}.get(text)


@cache
def model_flags(model_name: str) -> ModelFlags:
    """Flags of a published model; all unknown for another name.

    >>> model_flags("llama3-8B").gated, model_flags("never heard of").gated
    (True, None)
    """
    for r in _read("models.csv"):
        if r["model_name"] == model_name:
            sizes = (r["mla_q_lora"], r["mla_kv_lora"], r["mla_qk_nope"], r["mla_qk_rope"], r["mla_v_dim"], r["mtp_layers"], r["window"], r["route_groups"], r["route_topk_groups"])
            return ModelFlags(_flag(r["gated_mlp"]), _flag(r["tied_embeddings"]), *(int(x or 0) for x in sizes))
    return ModelFlags()
