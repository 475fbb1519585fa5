"""Which constants may be fitted, how far each may move from its operator value, and where it enters the model.

At most eight per framework profile and eight per GPU. A name reads `stack:<profile>:<field>`, `gpu:<GPU>:<field>` or
`system:<machine>:<field>`. Priors are operator values: data sheets, micro-benchmarks and counted bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from autotune.validate.compiled import Prepared
from autotune.validate.fit import Constant
from costmodels.types import Gpu, Network, Stack


class Room(NamedTuple):
    """Standard deviation of the prior, and limits."""

    sigma: float
    low: float
    high: float


SHARE = Room(0.3, 0.0, 2.0)
STACK_ROOM: dict[str, Room] = {
    "attention_speed": Room(0.15, 0.2, 1.5),
    "fused_elementwise": Room(0.2, 0.3, 2.5),
    "recompute_share": Room(0.1, 0.5, 1.0),
    "logit_time_bytes": Room(20.0, 0.0, 200.0),
    "cast_bytes": Room(1.0, 0.0, 12.0),
    "tensor_exposed_fwd": SHARE,
    "tensor_exposed_bwd": Room(0.15, 0.0, 1.5),
    "context_exposed": SHARE,
    "expert_exposed": Room(0.2, 0.0, 2.0),
    "data_exposed": Room(0.15, 0.0, 1.0),
    "param_gather_exposed": Room(0.2, 0.0, 1.0),
    "p2p_exposed": Room(0.5, 0.0, 4.0),
    "full_hop_s": Room(0.1, 0.0, 1.0),
    "chunk_s": Room(1e-3, 0.0, 5e-3),
    "grad_accum_bytes": Room(4.0, 0.0, 30.0),
    "launch_s": Room(5e-4, 0.0, 0.01),
    "launch_tensor_s": Room(2e-4, 0.0, 2e-3),
    "launch_pipeline_s": Room(5e-4, 0.0, 5e-3),
    "tensor_gap_s": Room(3e-4, 0.0, 3e-3),
    "iteration_s": Room(0.03, 0.0, 0.5),
    "rank_s": Room(2e-3, 0.0, 0.02),
}
GPU_ROOM: dict[str, Room] = {
    "gemm_efficiency": Room(0.04, 0.45, 0.95),
    "fp8_gemm_efficiency": Room(0.05, 0.35, 0.95),
    "attention_efficiency": Room(0.06, 0.2, 0.75),
}
MEAN_ROOM: dict[str, Room] = {  # of a GPU type over machines, each of which departs from it by its own `gemm_scale`
    **GPU_ROOM,
    "gemm_efficiency": Room(0.02, 0.45, 0.95),
    "fp8_gemm_efficiency": Room(0.025, 0.35, 0.95),
}
SYSTEM_ROOM: dict[str, Room] = {
    "nic_efficiency": Room(0.15, 0.2, 1.0),
    "latency_s": Room(1e-4, 0.0, 3e-3),
    "hop_stall_s": Room(0.1, 0.0, 1.0),
    "gemm_scale": Room(0.1, 0.6, 1.3),  # clocks and power caps: laboratories report rates up to 15 % apart
}

STACK_FIELDS: dict[str, tuple[str, ...]] = {
    "megatron-2020": ("grad_accum_bytes", "data_exposed", "tensor_exposed_fwd"),
    "megatron-2021": ("grad_accum_bytes", "p2p_exposed", "chunk_s"),
    "megatron-2022": ("grad_accum_bytes", "tensor_exposed_fwd", "tensor_exposed_bwd"),
    "nemo-2022": ("grad_accum_bytes", "data_exposed", "tensor_exposed_bwd"),
    "megatron-deepspeed": ("tensor_gap_s",),
    "megatron-deepspeed-vtrain": ("grad_accum_bytes", "p2p_exposed", "launch_s", "launch_tensor_s", "tensor_gap_s", "recompute_share", "logit_time_bytes"),
    "nemo": ("tensor_exposed_fwd", "tensor_exposed_bwd", "fused_elementwise", "cast_bytes", "data_exposed", "expert_exposed"),
    "megatron-bridge": ("tensor_exposed_fwd", "tensor_exposed_bwd", "fused_elementwise", "cast_bytes", "data_exposed", "expert_exposed"),
    "megatron-core-eager": ("launch_s", "fused_elementwise"),
    "nanotron": (
        "fused_elementwise", "data_exposed", "param_gather_exposed", "launch_s", "launch_pipeline_s", "iteration_s", "tensor_exposed_fwd",
        "full_hop_s",
    ),
    "fsdp-composer": ("attention_speed", "fused_elementwise", "recompute_share", "iteration_s", "data_exposed", "param_gather_exposed"),
    "torchtitan": ("attention_speed", "fused_elementwise", "recompute_share", "data_exposed"),
    "internevo": ("grad_accum_bytes", "data_exposed", "fused_elementwise"),
    "internevo-all-ranks": ("rank_s",),
}  # fmt: skip


BASE_OF = {"internevo-all-ranks": "internevo", "megatron-deepspeed-bf16": "megatron-deepspeed"}  # share what is fitted


@cache
def operator_stack(name: str) -> Stack:
    """A profile with every fitted number put back to its operator value."""
    from autotune.constants import stack_constants, stack_entries

    entries = stack_entries(name)
    back: dict[str, Any] = {k: float(e["operator_value"]) for k, e in entries.items() if "operator_value" in e}
    return stack_constants(name)._replace(**back)


@cache
def shipped_stack(name: str) -> Stack:
    """A profile as shipped."""
    from autotune.constants import stack_constants

    return stack_constants(name)


def constants_for(rows: Iterable[Prepared], machines: bool = False) -> list[Constant]:
    """Everything that may be fitted on these rows, priors at operator values.

    `machines`: rows of several machines, each of which may run its matrix products faster or slower than the GPU type.
    """
    prepared = list(rows)
    gpu_room = MEAN_ROOM if machines else GPU_ROOM
    found: dict[str, Constant] = {}

    def add(kind: str, owner: str, field: str, prior: float, room: Room) -> None:
        name = f"{kind}:{owner}:{field}"
        found.setdefault(name, Constant(name, min(max(prior, room.low), room.high), *room))

    for p in prepared:
        base = p.stack if p.stack in STACK_FIELDS else BASE_OF.get(p.stack, "")
        for field in STACK_FIELDS.get(base, ()):
            add("stack", base, field, getattr(operator_stack(base), field), STACK_ROOM[field])
        add("gpu", p.gpu_name, "gemm_efficiency", p.gpu.gemm16_eff, gpu_room["gemm_efficiency"])
        if p.gpu.peak_flops != p.gpu.peak16_flops:
            add("gpu", p.gpu_name, "fp8_gemm_efficiency", p.gpu.gemm_eff, gpu_room["fp8_gemm_efficiency"])
        if operator_stack(p.stack).flash_attention and p.stack != "fsdp-composer":
            add("gpu", p.gpu_name, "attention_efficiency", p.gpu.attn_fwd_eff, gpu_room["attention_efficiency"])
        if machines:
            add("system", p.system, "gemm_scale", 1.0, SYSTEM_ROOM["gemm_scale"])
        if p.net.gpus > p.net.hb_size:
            add("system", p.system, "nic_efficiency", p.net.nic_eff, SYSTEM_ROOM["nic_efficiency"])
            if p.stack == "nanotron":
                add("system", p.system, "latency_s", p.net.latency_s, SYSTEM_ROOM["latency_s"])
            if p.stalls:
                add("system", p.system, "hop_stall_s", 0.0, SYSTEM_ROOM["hop_stall_s"])
    return list(found.values())


class Applier:
    """Constants by owner, so that replacing them in thousands of rows is cheap."""

    def __init__(self, values: Mapping[str, float], base: str = "operator") -> None:
        self.base = operator_stack if base == "operator" else shipped_stack
        self.stacks: dict[str, dict[str, float]] = {}
        self.gpus: dict[str, dict[str, float]] = {}
        self.systems: dict[str, dict[str, float]] = {}
        owners = {"stack": self.stacks, "gpu": self.gpus, "system": self.systems}
        for name, value in values.items():
            kind, owner, field = name.split(":")
            owners[kind].setdefault(owner, {})[field] = value
        self._made: dict[str, Stack] = {}

    def stack(self, name: str) -> Stack:
        """The profile with fitted numbers put in; those of `BASE_OF` inherit what their base was given."""
        if name not in self._made:
            fitted: dict[str, Any] = dict(self.stacks.get(BASE_OF.get(name, ""), {}))
            fitted.update(self.stacks.get(name, {}))
            self._made[name] = self.base(name)._replace(**fitted)
        return self._made[name]

    def gpu(self, p: Prepared) -> Gpu:
        """The accelerator with fitted efficiencies; a fitted attention rate moves forward and backward alike."""
        given = self.gpus.get(p.gpu_name, {})
        scale = self.systems.get(p.system, {}).get("gemm_scale", 1.0)
        if not given and scale == 1.0:
            return p.gpu
        fp8 = p.gpu.peak_flops != p.gpu.peak16_flops
        gemm16 = given.get("gemm_efficiency", p.gpu.gemm16_eff)
        attention = given.get("attention_efficiency", p.gpu.attn_fwd_eff)
        return p.gpu._replace(
            gemm16_eff=scale * gemm16,
            gemm_eff=scale * (given.get("fp8_gemm_efficiency", p.gpu.gemm_eff) if fp8 else gemm16),
            attn_fwd_eff=attention,
            attn_bwd_eff=attention * p.gpu.attn_bwd_eff / p.gpu.attn_fwd_eff,
        )

    def network(self, p: Prepared) -> Network:
        """The fabric with fitted NIC efficiency and latency."""
        given = self.systems.get(p.system)
        if not given:
            return p.net
        return p.net._replace(
            nic_eff=given.get("nic_efficiency", p.net.nic_eff),
            latency_s=given.get("latency_s", p.net.latency_s),
            hop_stall_s=given.get("hop_stall_s", 0.0) if p.stalls else 0.0,
        )

    def price(self, p: Prepared) -> Any:
        """Time and memory of one prepared row."""
        from autotune.validate.compiled import price

        return price(p.model, self.gpu(p), self.network(p), self.stack(p.stack), p.point)


def shipped_values(samples: Iterable[Any]) -> dict[str, float]:
    """Shipped numbers of every profile the samples use, by fit name: what a user gets without calibrating."""
    stacks = {p.stack for s in samples for p in s.readings}
    return {f"stack:{n}:{f}": float(getattr(shipped_stack(n), f)) for n in stacks for f in STACK_FIELDS.get(n, ())}
