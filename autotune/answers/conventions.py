"""Units and conventions that people mix up, and what a prediction takes for granted, as lines to print beside figures."""

from __future__ import annotations

from autotune.cluster_checks import gpu_of
from autotune.constants import GB, GIB, TERA, gpu_constants, model_constants, stack_constants
from autotune.evaluate import Evaluation
from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec
from costmodels.flops import model_flops_per_token
from costmodels.layer import busiest_share


def conventions(cluster: ClusterSpec, model: ModelSpec, evaluation: Evaluation | None = None) -> list[str]:
    """What the printed figures mean, with the numbers behind them.

    >>> from autotune.load import load_cluster, load_model
    >>> lines = conventions(load_cluster("h100-superpod-1024"), load_model("llama-3-70b"))
    >>> lines[0]
    'MFU is over the dense bf16 peak of 989.4 TFLOP/s per GPU; data sheets often print twice that, with sparsity'
    """
    spec = gpu_of(cluster)
    precision = model.training.precision
    peak = gpu_constants(spec, precision).peak_flops / TERA
    numbers = model_constants(model)
    full, halved = (float(model_flops_per_token(numbers, causal)) for causal in (0, 1))
    lines = [
        f"MFU is over the dense {precision} peak of {peak:g} TFLOP/s per GPU; data sheets often print twice that, with sparsity",
        f"model FLOPs per token: {full:.4g}, attention counted in full; with causal attention halved {halved:.4g}, "
        f"and MFU {1 - halved / full:.1%} lower",
        "HFU adds the FLOPs that recompute repeats; it is not comparable with MFU",
        f"memory is in GiB (2^30 bytes): a GPU of {spec.memory_GiB:g} GiB has {spec.memory_GiB * GIB / GB:.1f} GB (1e9 bytes)",
        "NIC rates are Gb/s (bits), NVLink rates GB/s (bytes), both per GPU and in one direction; NVLink data sheets print both directions",
    ]
    if evaluation is not None:
        p = evaluation.plan
        lines.append(
            f"compare runs by tokens/s per GPU at one global batch (here {p.global_batch_size} sequences of {model.seq_length} tokens), "
            "not by seconds per iteration"
        )
    return lines


def assumptions(cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> list[str]:
    """What the prediction takes for granted of the run, so that a slower one can be explained."""
    stack = stack_constants(plan.stack)
    lines = [f"behaviour of the stack '{plan.stack}': autotune show {plan.stack}"]
    lines.append("fused attention (flash)" if stack.flash_attention else "unfused attention: score matrices are stored and read")
    if model.num_experts:
        lines.append("experts run as a grouped GEMM; one kernel per expert can halve the speed")
        busiest = busiest_share(model_constants(model), plan.expert_parallel)
        lines.append(f"tokens are dispatched by all-to-all; the busiest expert rank has {busiest:.2f} times the mean load" + (
            "" if model.moe_capacity_factor is None else f", capacity factor {model.moe_capacity_factor:g}"))  # fmt: skip
    if plan.tensor_parallel > 1:
        lines.append(f"{1 - stack.tensor_exposed_fwd:.0%} of forward tensor communication is hidden behind compute")
    if plan.data_parallel > 1:
        lines.append(f"{1 - stack.data_exposed:.0%} of gradient communication is hidden where the last backward pass is long enough")
    if plan.pipeline_parallel > 1:
        lines.append("1F1B schedule, interleaved with virtual stages; zero-bubble schedules are not priced")
    lines.append("all GPUs alike, none slow, and no other job on the network")
    return lines


def batch_from_throughput(seconds: float, tokens_per_s_per_gpu: float, gpus: int, seq_length: int) -> float:
    """Global batch in sequences that a reported iteration time and throughput imply.

    >>> round(batch_from_throughput(15.088, 8707.8, 8, 4096))
    257
    """
    return seconds * tokens_per_s_per_gpu * gpus / seq_length
