"""Level 1 of the model: what one transformer layer costs on one GPU per micro-batch.

Everything here depends only on (T, C, E, X, micro-batch, sequence parallelism), a few hundred to a few thousand tuples,
so it may be as detailed as accuracy needs; the lattice kernel only combines entries.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

from costmodels._jit import jit
from costmodels.activations import attention_width, layer_bytes
from costmodels.attention import fused_attention_s, unfused_attention_s
from costmodels.collectives import all_gather_s, all_reduce_s, all_to_all_s
from costmodels.elementwise import layer_elementwise_s
from costmodels.gemm import K_PROLOGUE, grouped_efficiency, linear_s
from costmodels.parameters import layer_parameters
from costmodels.types import Gpu, Model, Network, Stack


class LayerKey(NamedTuple):
    """What level 1 depends on besides model and hardware."""

    tensor: int
    context: int
    expert: int
    expert_tensor: int
    micro_batch: int
    seq_parallel: int


class LayerCost(NamedTuple):
    """One layer, one micro-batch, one GPU: seconds, bytes, parameters."""

    forward_s: float
    backward_s: float
    selective_s: float  # compute repeated by selective recompute
    tensor_fwd_s: float  # exposed communication, by group
    tensor_bwd_s: float
    context_fwd_s: float
    context_bwd_s: float
    expert_fwd_s: float
    expert_bwd_s: float
    launch_none_s: float  # what the CPU launch floor adds, by recompute mode
    launch_selective_s: float
    launch_full_s: float
    launch_pipe_none_s: float  # the same when the point has a pipeline
    launch_pipe_selective_s: float
    launch_pipe_full_s: float
    act_none_bytes: float
    act_selective_bytes: float
    act_full_bytes: float
    dense_params: float
    expert_params: float


@jit
def attention_linears_s(model: Model, gpu: Gpu, tokens: float, T: int) -> tuple[float, float, float]:
    """(forward, backward, forward of the MLA up-projections) seconds of the attention block's linear layers."""
    eff = gpu.gemm_eff * gpu.peak_flops
    hbm = gpu.hbm_eff * gpu.hbm_Bps
    h = 1.0 * model.hidden
    q, kv, out = attention_width(model)
    up = 0.0
    if model.mla:
        f, b = linear_s(tokens, 1.0 * model.kv_lora + model.qk_rope, h, eff, gpu.sms, hbm, gpu.k_prologue)
        if model.q_lora > 0:
            f1, b1 = linear_s(tokens, 1.0 * model.q_lora, h, eff, gpu.sms, hbm, gpu.k_prologue)
            f2, b2 = linear_s(tokens, q / T, 1.0 * model.q_lora, eff, gpu.sms, hbm, gpu.k_prologue)
            up = f2
        else:
            f1, b1 = 0.0, 0.0
            f2, b2 = linear_s(tokens, q / T, h, eff, gpu.sms, hbm, gpu.k_prologue)
        width = model.heads * (model.qk_nope + model.v_dim) / T
        f3, b3 = linear_s(tokens, width, 1.0 * model.kv_lora, eff, gpu.sms, hbm, gpu.k_prologue)
        f, b, up = f + f1 + f2 + f3, b + b1 + b2 + b3, up + f3
    else:
        f, b = linear_s(tokens, (q + kv) / T, h, eff, gpu.sms, hbm, gpu.k_prologue)
    fo, bo = linear_s(tokens, h, out / T, eff, gpu.sms, hbm, gpu.k_prologue)
    return f + fo, b + bo, up


@jit
def core_attention_s(model: Model, gpu: Gpu, stack: Stack, sequences: float, T: int, C: int) -> tuple[float, float]:
    """(forward, backward) seconds of core attention on this GPU's heads and its share of the sequence."""
    heads = model.heads / T
    qk = 1.0 * model.head_dim
    v = 1.0 * model.head_dim
    if model.mla:
        qk = 1.0 * model.qk_nope + model.qk_rope
        v = 1.0 * model.v_dim
    if stack.flash_attention:
        speed = stack.attention_speed * (gpu.attn_legacy if stack.attention_legacy else 1.0)
        return fused_attention_s(gpu, speed, sequences, 1.0 * model.seq, 1.0 * C, heads, qk, v, 1.0 * model.window)
    return unfused_attention_s(gpu, sequences, 1.0 * model.seq, 1.0 * C, heads, qk, v)


@jit
def dense_block_s(model: Model, gpu: Gpu, tokens: float, width: float, T: int) -> tuple[float, float]:
    """(forward, backward) seconds of the linear layers of a dense feed-forward block of `width`."""
    if width <= 0.0:
        return 0.0, 0.0
    eff = gpu.gemm_eff * gpu.peak_flops
    hbm = gpu.hbm_eff * gpu.hbm_Bps
    f1, b1 = linear_s(tokens, (1 + model.gated) * width / T, 1.0 * model.hidden, eff, gpu.sms, hbm, gpu.k_prologue)
    f2, b2 = linear_s(tokens, 1.0 * model.hidden, width / T, eff, gpu.sms, hbm, gpu.k_prologue)
    return f1 + f2, b1 + b2


@jit
def busiest_share(model: Model, E: int) -> float:
    """Tokens of the busiest of E expert ranks over their mean: 1 + load_variation sqrt(2 ln E) / sqrt(experts per rank).

    A collective waits for the rank with the most tokens. With independent loads, the mean over k experts of a rank spreads
    1/sqrt(k) as widely as one expert, and the largest of E ranks lies about sqrt(2 ln E) standard deviations up.

    >>> from costmodels.examples import TINY
    >>> round(busiest_share(TINY._replace(experts=8, load_variation=0.2), 8), 3)
    1.408
    """
    if E <= 1:
        return 1.0
    return 1.0 + model.load_variation * sqrt(2.0 * log(1.0 * E) * E / model.experts)


@jit
def expert_block_s(model: Model, gpu: Gpu, routed: float, E: int, X: int) -> tuple[float, float]:
    """(forward, backward) seconds of the experts' grouped GEMMs and of permuting `routed` token copies of one GPU.

    Efficiency falls as n / (n + 250) with n tokens per local expert; fp8 experts run at most 1.3x the 16-bit rate.
    """
    if routed <= 0.0:
        return 0.0, 0.0
    per_expert = routed * X / (model.experts / E)
    peak = min(gpu.gemm_eff * gpu.peak_flops, 1.3 * gpu.gemm16_eff * gpu.peak16_flops)
    hbm = gpu.hbm_eff * gpu.hbm_Bps
    flops = 2.0 * (2 + model.gated) * routed * model.hidden * model.expert_ffn
    weights = 2.0 * (2 + model.gated) * model.experts / E * model.hidden * model.expert_ffn / X
    forward = max(flops / (peak * grouped_efficiency(per_expert)), weights / hbm)
    permute = 6.0 * 2.0 * routed * model.hidden / hbm
    return forward + permute, 2.0 * forward + permute


@jit
def tensor_comm_s(
    net: Network, gpu: Gpu, stack: Stack, hidden_bytes: float, T: int, sp: int, blocks: float
) -> tuple[float, float]:
    """(forward, backward) exposed seconds of tensor-parallel collectives of a layer with `blocks` row-parallel outputs.

    Forward: one all-reduce per block, or all-gather + reduce-scatter under sequence parallelism. Backward: the same, plus
    the gathers repeated for the weight gradient; what a stack hides behind the weight gradient is its
    `tensor_exposed_bwd` (the transfers of the row-parallel layers, 2 of 6, stay exposed). `tensor_gap_s` adds to both,
    per further rank, whatever the size.
    """
    if T <= 1:
        return 0.0, 0.0
    gap = stack.tensor_gap_s * (T - 1)
    if sp:
        one = all_gather_s(net, gpu, hidden_bytes, 1, T)
        return gap + 2.0 * blocks * one * stack.tensor_exposed_fwd, gap + blocks * one * (1.0 + 2.0 * stack.tensor_exposed_bwd)
    one = all_reduce_s(net, gpu, hidden_bytes, 1, T)
    return gap + blocks * one * stack.tensor_exposed_fwd, gap + blocks * one * stack.tensor_exposed_bwd


@jit
def context_comm_s(
    model: Model, net: Network, gpu: Gpu, stack: Stack, sequences: float, T: int, C: int
) -> tuple[float, float]:
    """(forward, backward) exposed seconds of exchanging K and V over the context group; backward also returns their gradients."""
    if C <= 1:
        return 0.0, 0.0
    kv_bytes = 2.0 * attention_width(model)[1] / T * sequences * model.seq
    one = all_gather_s(net, gpu, kv_bytes, T, C)
    return one * stack.context_exposed, 2.0 * one * stack.context_exposed


@jit
def expert_comm_s(
    model: Model, net: Network, gpu: Gpu, stack: Stack, routed: float, E: int, X: int
) -> tuple[float, float]:
    """(forward, backward) exposed seconds of dispatch and combine over the expert group, and of the expert-tensor group."""
    t = 0.0
    bytes_out = 2.0 * routed * model.hidden
    if E > 1:
        copies = 1.0
        if model.route_topk_groups > 0:
            copies = min(1.0, model.route_topk_groups / max(1, model.topk))
        t += 2.0 * all_to_all_s(net, gpu, bytes_out, X, E, copies)
    if X > 1:
        t += 2.0 * all_gather_s(net, gpu, bytes_out * X, 1, X)
    return t * stack.expert_exposed, t * stack.expert_exposed


@jit
def launch_floor_s(gpu_s: float, cpu_s: float) -> float:
    """Seconds added when the CPU cannot launch a layer's kernels fast enough: (gpu^4 + cpu^4)^(1/4) - gpu.

    >>> launch_floor_s(0.0, 2.0), round(launch_floor_s(1.0, 0.1), 4)
    (2.0, 0.0)
    """
    # Products and roots round alike compiled and interpreted; powers do not.
    gpu_2, cpu_2 = gpu_s * gpu_s, cpu_s * cpu_s
    return sqrt(sqrt(gpu_2 * gpu_2 + cpu_2 * cpu_2)) - gpu_s


@jit
def price_layer(model: Model, gpu: Gpu, net: Network, stack: Stack, key: LayerKey, moe: int) -> LayerCost:
    """Price one dense (`moe` 0) or expert (`moe` 1) layer for one micro-batch on one GPU."""
    T, C, E, X, sp = key.tensor, key.context, key.expert, key.expert_tensor, key.seq_parallel
    sequences = 1.0 * key.micro_batch
    tokens = sequences * model.seq / C
    norm_tokens = tokens / T if sp else tokens
    q, kv, _ = attention_width(model)

    f, b, up = attention_linears_s(model, gpu, tokens, T)
    fc, bc = core_attention_s(model, gpu, stack, sequences, T, C)
    hbm = gpu.hbm_eff * gpu.hbm_Bps
    routed = busiest = 0.0
    if moe:
        routed = norm_tokens * model.topk * model.capacity
        busiest = routed * busiest_share(model, E)
        fm, bm = expert_block_s(model, gpu, busiest, E, X)
        fs, bs = dense_block_s(model, gpu, tokens, 1.0 * model.shared_ffn, T)
        fr, br = linear_s(norm_tokens, 1.0 * model.experts, 1.0 * model.hidden, 0.5 * gpu.gemm16_eff * gpu.peak16_flops, gpu.sms, hbm, K_PROLOGUE)
        fm, bm = fm + fs + fr, bm + bs + br
        ffn_elements = routed * model.expert_ffn + tokens * model.shared_ffn / T
    else:
        fm, bm = dense_block_s(model, gpu, tokens, 1.0 * model.ffn, T)
        ffn_elements = tokens * model.ffn / T
    if stack.trained_share < 1.0:  # frozen weights have no weight gradient: half of a linear layer's backward
        b, bm = 0.5 * b, 0.5 * bm
    fe, be = layer_elementwise_s(model, stack, hbm, norm_tokens, tokens, ffn_elements, tokens * (q + kv) / T)
    if stack.cast_bytes > 0.0:
        cast = stack.cast_bytes * (2.0 * tokens * model.hidden + tokens * (q + kv) / T + ffn_elements) / hbm
        fe, be = fe + cast, be + 2.0 * cast
    forward = f + fc + fm + fe
    backward = b + bc + bm + be

    if stack.selective_core == 1:
        selective = fc
    elif stack.selective_core == 2:
        selective = 0.5 * (f + fm) + fe
    else:
        selective = up + 8.0 * norm_tokens * model.hidden / hbm + 6.0 * routed * model.expert_ffn / hbm
    blocks = 2.0
    if moe:
        blocks = 2.0 if model.shared_ffn > 0 else 1.0
    tf, tb = tensor_comm_s(net, gpu, stack, 2.0 * tokens * model.hidden, T, sp, blocks)
    cf, cb = context_comm_s(model, net, gpu, stack, sequences, T, C)
    ef, eb = expert_comm_s(model, net, gpu, stack, busiest, E, X)

    cpu = stack.launch_s
    if T > 1:
        cpu += stack.launch_tensor_s
    cpu_pipe = cpu
    if T > 1 and net.gpus > net.hb_size:
        cpu_pipe = max(cpu, stack.launch_pipeline_s * T)
    busy = forward + backward + tf + tb + cf + cb + ef + eb
    again = forward + tf + cf + ef
    none, sel, full = layer_bytes(model, stack, sequences, T, C, X, sp, moe)
    dense_params, expert_params = layer_parameters(model, T, X, E, moe)
    return LayerCost(
        forward, backward, selective, tf, tb, cf, cb, ef, eb,
        launch_floor_s(busy, 2.0 * cpu), launch_floor_s(busy + selective, 2.0 * cpu), launch_floor_s(busy + again, 3.0 * cpu),
        launch_floor_s(busy, 2.0 * cpu_pipe), launch_floor_s(busy + selective, 2.0 * cpu_pipe), launch_floor_s(busy + again, 3.0 * cpu_pipe),
        none, sel, full, 1.0 * dense_params, 1.0 * expert_params,
    )  # fmt: skip
