"""The ends of the model: embedding on the first stage, final norm, LM head and loss on the last, prediction layers."""

from __future__ import annotations

from typing import NamedTuple

from costmodels._jit import jit
from costmodels.collectives import all_gather_s, all_reduce_s
from costmodels.gemm import K_PROLOGUE, linear_s
from costmodels.parameters import embedding_parameters, head_parameters, mtp_parameters, norm_parameters, padded_vocab
from costmodels.types import Gpu, Model, Network, Stack


class EdgeCost(NamedTuple):
    """Embedding and head for one micro-batch on one GPU: seconds, bytes, parameters."""

    embed_fwd_s: float
    embed_bwd_s: float
    embed_comm_s: float
    head_fwd_s: float
    head_bwd_s: float
    head_comm_fwd_s: float
    head_comm_bwd_s: float
    embed_act_bytes: float
    logits_bytes: float  # peak of logits and loss
    logits_kept_bytes: float  # more of them when gradients accumulate
    head_temp_bytes: float  # weight-gradient temporary of the head
    hidden_temp_bytes: float  # transient copies of one micro-batch's hidden state
    embed_params: float
    head_params: float  # final norm included
    mtp_layers: float  # prediction layers on the last stage, each also running the head
    mtp_dense_params: float
    mtp_expert_params: float


@jit
def head_gemm_flops(model: Model, gpu: Gpu) -> float:
    """Rate of the head GEMM: 16-bit, three times slower when the vocabulary is not a multiple of 8.

    Source: single-GPU A100 runs with 50,257 unpadded logits ran the head at a quarter of peak.
    """
    rate = gpu.gemm16_eff * gpu.peak16_flops
    if model.vocab % 8 != 0 and model.vocab_multiple % 8 != 0:
        rate /= 3.0
    return rate


@jit
def price_edges(
    model: Model, gpu: Gpu, net: Network, stack: Stack, T: int, C: int, E: int, X: int, micro_batch: int, sp: int
) -> EdgeCost:
    """Price embedding, head and loss for one micro-batch on one GPU.

    The loss moves `logit_time_bytes` per logit; its tensor-parallel form needs one small all-reduce, and the head's input
    a gather under sequence parallelism.
    """
    tokens = 1.0 * micro_batch * model.seq / C
    hbm = gpu.hbm_eff * gpu.hbm_Bps
    h = 1.0 * model.hidden
    logits = tokens * padded_vocab(model, T) / T
    f, b = linear_s(tokens, 1.0 * padded_vocab(model, T) / T, h, head_gemm_flops(model, gpu), gpu.sms, hbm, K_PROLOGUE)
    if stack.trained_share < 1.0:
        b *= 0.5
    loss = stack.logit_time_bytes * logits / hbm
    embed = 6.0 * tokens * h / hbm
    comm = 0.0
    head_comm_f = 0.0
    head_comm_b = 0.0
    if T > 1:
        if sp:
            comm = all_gather_s(net, gpu, 2.0 * tokens * h, 1, T)
            head_comm_f = comm
            head_comm_b = comm
        else:
            comm = all_reduce_s(net, gpu, 2.0 * tokens * h, 1, T)
            head_comm_b = comm
        head_comm_f += 3.0 * all_reduce_s(net, gpu, 4.0 * tokens, 1, T)
    mtp_dense, mtp_expert = mtp_parameters(model, T, X, E)
    shard = 1.0 * T if sp else 1.0
    whole = stack.whole_memory_bytes if T > 1 and not sp else 0.0
    return EdgeCost(
        embed, 2.0 * embed, comm,
        f + loss / 3.0, b + 2.0 * loss / 3.0, head_comm_f, head_comm_b,
        1.0 * stack.dropout * tokens * h / shard, stack.logit_memory_bytes * logits, stack.logit_kept_bytes * logits, stack.head_temp_bytes * padded_vocab(model, T) / T * h,
        (stack.hidden_memory_bytes + whole) * tokens * h,
        1.0 * embedding_parameters(model, T), 1.0 * head_parameters(model, T) + norm_parameters(model),
        1.0 * model.mtp, 1.0 * mtp_dense, 1.0 * mtp_expert,
    )  # fmt: skip
