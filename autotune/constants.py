"""From specs in the units of files to the cost model's numbers in SI units and bytes. The one place that converts.

GB = 1e9, GiB = 2^30, Gbps are bits; bandwidth is per GPU and one direction throughout.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from autotune import catalogue
from autotune.cluster_checks import gpu_of, stack_problem
from autotune.errors import InputError
from autotune.specs import Calibration, ClusterSpec, GpuSpec, ModelSpec, Range
from costmodels.types import Gpu, Model, Network, Stack

GIB = 2.0**30
GB = 1e9
TERA = 1e12
BITS_PER_BYTE = 8


def gpu_constants(spec: GpuSpec, precision: str = "bf16", calibration: Calibration | None = None) -> Gpu:
    """An accelerator at one training precision (bf16, fp16, fp8). A calibration replaces shipped efficiencies.

    Attention, the head and everything but the layers' matrix products stay in 16 bits under fp8. InputError when the
    accelerator has no such rate.

    >>> g = gpu_constants(catalogue.find_gpu("H100-80GB-SXM"), "fp8")
    >>> g.peak_flops / 1e12, g.peak16_flops / 1e12, g.gemm_eff, g.gemm16_eff
    (1978.9, 989.4, 0.74, 0.71)
    """
    fitted = calibration or Calibration()
    peak16 = spec.fp16_TFLOPS if precision == "fp16" and spec.fp16_TFLOPS else spec.bf16_TFLOPS
    gemm16 = fitted.gemm_efficiency or spec.gemm_efficiency
    peak, gemm = peak16, gemm16
    if precision == "fp8":
        if spec.fp8_TFLOPS is None:
            raise InputError.of(f"{spec.name} has no fp8 matrix rate; use bf16 or fp16", key="training.precision")
        peak = spec.fp8_TFLOPS
        # A fitted 16-bit efficiency says as much about the machine (clocks, power) in fp8.
        gemm = min(1.0, spec.fp8_gemm_efficiency * gemm16 / spec.gemm_efficiency)
    elif precision not in ("bf16", "fp16"):
        raise InputError.of(f"precision must be one of bf16, fp16, fp8, got '{precision}'", key="training.precision")
    return Gpu(
        peak_flops=peak * TERA,
        peak16_flops=peak16 * TERA,
        hbm_Bps=spec.hbm_GBps * GB,
        memory_bytes=spec.memory_GiB * GIB,
        sms=float(spec.sms),
        gemm_eff=gemm,
        gemm16_eff=gemm16,
        hbm_eff=fitted.hbm_efficiency or spec.hbm_efficiency,
        attn_fwd_eff=fitted.attention_forward_efficiency or spec.attention_forward_efficiency,
        attn_bwd_eff=fitted.attention_backward_efficiency or spec.attention_backward_efficiency,
        attn_legacy=spec.attention_legacy_share,
        nvlink_eff=fitted.nvlink_efficiency or spec.nvlink_efficiency,
        k_prologue=spec.fp8_gemm_prologue if precision == "fp8" else spec.gemm_prologue,
    )


def model_constants(spec: ModelSpec) -> Model:
    """The shapes of a model as plain numbers.

    >>> from autotune.load import load_model
    >>> m = model_constants(load_model("llama-3.1-405b"))
    >>> m.layers, m.kv_heads, m.gated, m.norm_vectors
    (126, 8, 1, 1.0)
    """
    learned = spec.position_embedding_type == "learned_absolute"
    norm_bias = spec.normalization == "LayerNorm" if spec.norm_bias is None else spec.norm_bias
    moe = spec.num_experts or 0
    return Model(
        layers=spec.num_layers,
        hidden=spec.hidden_size,
        heads=spec.num_attention_heads,
        kv_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        ffn=spec.ffn,
        gated=int(spec.swiglu),
        vocab=spec.vocab_size,
        vocab_multiple=spec.make_vocab_size_divisible_by,
        seq=spec.seq_length,
        tied=int(not spec.untie_embeddings_and_output_weights),
        learned_positions=(spec.position_table_rows or max(spec.max_position_embeddings or 0, spec.seq_length))
        if learned
        else 0,
        bias=int(spec.add_bias_linear),
        qkv_bias=int(spec.add_qkv_bias),
        attn_out_bias=int(spec.add_attention_output_bias),
        mlp_bias=int(spec.add_mlp_bias),
        output_bias=int(spec.output_bias),
        norm_vectors=2.0 if norm_bias else 1.0,
        norms_per_layer=spec.norms_per_layer,
        embedding_norm=int(spec.embedding_norm),
        qk_norm=_qk_norm_parameters(spec, norm_bias),
        attn_sinks=int(spec.attention_sinks),
        window=spec.window_size or 0,
        experts=moe,
        topk=spec.moe_router_topk if moe else 0,
        expert_ffn=spec.expert_ffn if moe else 0,
        shared_ffn=(spec.moe_shared_expert_intermediate_size or 0) if moe else 0,
        shared_gate=int(spec.moe_shared_expert_gate),
        router_bias=int(spec.moe_router_bias != "none"),
        expert_bias=int(spec.moe_expert_bias),
        dense_first=spec.first_k_dense if moe else 0,
        moe_every=spec.moe_layer_freq,
        route_groups=spec.moe_router_num_groups or 0,
        route_topk_groups=spec.moe_router_group_topk or 0,
        capacity=spec.moe_capacity_factor or 1.0,
        load_variation=spec.load_variation if moe else 0.0,
        mla=int(spec.multi_latent_attention),
        q_lora=spec.q_lora_rank or 0,
        kv_lora=spec.kv_lora_rank or 0,
        qk_nope=spec.qk_head_dim or 0,
        qk_rope=spec.qk_pos_emb_head_dim or 0,
        v_dim=spec.v_head_dim or 0,
        mtp=spec.mtp_num_layers,
    )


def _qk_norm_parameters(spec: ModelSpec, norm_bias: bool) -> int:
    if not spec.qk_layernorm or spec.multi_latent_attention:
        return 0
    widths = 2 * spec.head_dim if spec.qk_norm_per_head else (spec.num_attention_heads + spec.kv_heads) * spec.head_dim
    return widths * (2 if norm_bias else 1)


def network_constants(
    cluster: ClusterSpec, gpus: int, hb_size: int, hb_Bps: float, nic_Bps: float, fabric: str | None = None
) -> Network:
    """The cluster's network for one choice of size, domain and bandwidths (bytes/s), on its own fabric or another one.

    A calibrated NIC efficiency wins over the file's `network.nic_efficiency`, and that over the fabric's own value.
    Options belong to the cluster's own fabric and are left out for another one. InputError when it cannot be built.

    >>> from autotune.load import load_cluster
    >>> n = network_constants(load_cluster("h100-rail-1024"), 1024, 8, 450e9, 50e9)
    >>> n.any_to_any, n.nic_Bps / 1e9
    (0, 50.0)
    """
    from costmodels import fabrics
    from costmodels.fabrics.base import FabricInputs

    gpu, network = gpu_of(cluster), cluster.network
    fitted = cluster.calibration if isinstance(cluster.calibration, Calibration) else Calibration()
    try:
        built = fabrics.get(fabric or network.fabric).network(
            FabricInputs(
                gpus=gpus,
                hb_size=hb_size,
                hb_Bps=hb_Bps,
                nic_Bps=nic_Bps,
                radix=network.switch_radix,
                oversubscription=network.oversubscription,
                nic_efficiency=fitted.nic_efficiency or network.nic_efficiency,
                latency_s=None if network.latency_us is None else network.latency_us * 1e-6,
                mesh=gpu.mesh,
                nvls=gpu.in_network_reduction,
                options=network.options if fabric in (None, network.fabric) else {},
            )
        )
    except ValueError as e:
        raise InputError.of(str(e), key="network") from None
    return built._replace(hop_stall_s=1e-3 * (network.pipeline_stall_ms or 0.0))


def hb_rates(cluster: ClusterSpec) -> list[float] | Range:
    """HB-domain bandwidths to plan for, bytes/s; a `Range` (in GB/s) stays one. Default: the accelerator's.

    >>> from autotune.load import load_cluster
    >>> hb_rates(load_cluster("h100-rail-1024"))
    [450000000000.0]
    """
    rate = cluster.hb_domain.bandwidth_GBps
    if isinstance(rate, Range):
        return rate
    rates = rate if isinstance(rate, list) else [rate or gpu_of(cluster).scale_up_GBps]
    return [r * GB for r in rates]


def nic_rates(cluster: ClusterSpec) -> list[float] | Range:
    """NIC rates to plan for, bytes/s; a `Range` (in Gb/s) stays one. Default: the accelerator's usual NIC.

    >>> from autotune.load import load_cluster
    >>> nic_rates(load_cluster("h100-rail-1024"))
    [50000000000.0]
    """
    rate = cluster.network.nic_Gbps
    if isinstance(rate, Range):
        return rate
    rates = rate if isinstance(rate, list) else [rate or gpu_of(cluster).nic_Gbps]
    return [gbps_to_Bps(r) for r in rates]


def gbps_to_Bps(gbps: float) -> float:
    """Gigabits per second as bytes per second.

    >>> gbps_to_Bps(400)
    50000000000.0
    """
    return gbps * GB / BITS_PER_BYTE


def stack_constants(name: str, calibration: Calibration | None = None) -> Stack:
    """The behaviour profile of a training framework. A calibration replaces launch and iteration costs.

    InputError for an unknown name; every field of `Stack` must be given by the file or the stack it is based on.
    """
    values = {key: entry["value"] for key, entry in stack_entries(name).items()}
    if calibration and calibration.launch_us is not None:
        values["launch_s"] = calibration.launch_us * 1e-6
    if calibration and calibration.iteration_overhead_s is not None:
        values["iteration_s"] = calibration.iteration_overhead_s
    return Stack._make(_number(key, values[key]) for key in Stack._fields)


@cache
def _stack_file(name: str) -> dict[str, Any]:
    if problem := stack_problem(name):
        raise InputError.of(problem, key="stack")
    data = catalogue.document("stacks", name).data
    if not isinstance(data, dict):
        raise InputError.of("must be a mapping", f"stack {name}")
    return data


def stack_description(name: str) -> str:
    """What a stack profile stands for, in a sentence."""
    return str(_stack_file(name).get("description", ""))


def stack_entries(name: str, seen: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """Every constant of a stack with its value, unit, source and the stack it was written for."""
    if name in seen:
        raise InputError.of(f"is based on itself: {' -> '.join((*seen, name))}", f"stack {name}", key="base")
    data = _stack_file(name)
    base = data.get("base")
    entries = stack_entries(base, (*seen, name)) if base else {}
    for key, entry in data.items():
        if key in ("base", "description", "name", "source", "aliases"):
            continue
        if key not in Stack._fields:
            raise InputError.of(
                f"is no constant of a stack; known: {', '.join(Stack._fields)}", f"stack {name}", key=key
            )
        if not isinstance(entry, dict) or not {"value", "unit", "source"} <= set(entry):
            raise InputError.of("needs value, unit and source", f"stack {name}", key=key)
        entries = {**entries, key: {**entry, "stack": name}}
    missing = [key for key in Stack._fields if key not in entries]
    if missing and not seen:
        raise InputError.of(f"lacks {', '.join(missing)}", f"stack {name}")
    return {key: entries[key] for key in Stack._fields if key in entries}


def _number(key: str, value: Any) -> float | int:
    annotation = getattr(Stack.__annotations__[key], "__forward_arg__", Stack.__annotations__[key])
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, (int, float)):
        raise InputError.of(f"must be a number, got {value!r}", "stack", key=key)
    return int(value) if annotation == "int" else float(value)
