"""Bytes of activations that one layer keeps per micro-batch, by recompute mode.

Megatron's counting (Korthikanti et al. 2022, arXiv 2205.05198, section 4), generalised to GQA, gated blocks, MLA and
experts, and checked against measured peaks of Megatron Core and nanotron.
"""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.types import Model, Stack

SCORE_BYTES = 5.0  # unfused softmax output 2, dropout output 2, mask 1


@jit
def attention_width(model: Model) -> tuple[float, float, float]:
    """(q, k + v, attention output) elements per token, over all heads."""
    if model.mla:
        q = model.heads * (model.qk_nope + model.qk_rope)
        return 1.0 * q, 1.0 * q + model.heads * model.v_dim, 1.0 * model.heads * model.v_dim
    q = model.heads * model.head_dim
    return 1.0 * q, 2.0 * model.kv_heads * model.head_dim, 1.0 * q


@jit
def attention_bytes(model: Model, stack: Stack, tokens: float, T: int, shard: float, norm_shard: float) -> float:
    """Saved tensors of the attention block: norm in and out, q k v, attention output, dropout mask."""
    q, kv, out = attention_width(model)
    per_token = (4.0 * model.hidden + 1.0 * stack.dropout * model.hidden) / norm_shard
    per_token += 2.0 * stack.qkv_copies * (q + kv) / T + 2.0 * out / T
    if model.mla:
        per_token += (4.0 * model.q_lora + 2.0 * (model.kv_lora + model.qk_rope) + 2.0 * model.kv_lora) / shard
    return per_token * tokens


@jit
def score_bytes(model: Model, stack: Stack, sequences: float, T: int, C: int) -> float:
    """Saved score tensors when attention is not fused; nothing otherwise.

    >>> from costmodels.examples import MEGATRON_2021, TINY
    >>> score_bytes(TINY, MEGATRON_2021, 1.0, 1, 1)  # 5 bytes x 2 heads x 16 x 16
    2560.0
    """
    if stack.flash_attention:
        return 0.0
    return SCORE_BYTES * model.heads / T * sequences * model.seq * model.seq / C


@jit
def mlp_bytes(model: Model, stack: Stack, tokens: float, width: float, T: int) -> float:
    """Saved tensors inside a dense feed-forward block: first product and activation output.

    GELU: 4 bytes per element of the width; fused SwiGLU 6, unfused 8.
    """
    per_element = 4.0
    if model.gated:
        per_element = 6.0 if stack.fused_activation else 8.0
    return per_element * tokens * width / T


@jit
def layer_bytes(
    model: Model, stack: Stack, sequences: float, T: int, C: int, X: int, sp: int, moe: int
) -> tuple[float, float, float]:
    """(no, selective, full) recompute: bytes one layer keeps for one micro-batch on one GPU.

    With dropout, GELU and unfused attention this is s b h (10 + 24/T + 5 a s / (h T)); with sequence parallelism and
    selective recompute s b h 34 / T (Korthikanti et al. 2022, equations 2 to 6).

    >>> from costmodels.examples import MEGATRON_2021, TINY
    >>> [float(b) for b in layer_bytes(TINY, MEGATRON_2021, 1.0, 1, 1, 1, 0, 0)]  # sbh = 128: 34 sbh + 2560
    [6912.0, 4352.0, 256.0]
    """
    tokens = sequences * model.seq / C
    shard = 1.0 * T if sp else 1.0
    norm_shard = shard
    if sp == 0:
        norm_shard = 1.0 / (stack.norm_whole_share + (1.0 - stack.norm_whole_share) / T)
    attention = attention_bytes(model, stack, tokens, T, shard, norm_shard)
    scores = score_bytes(model, stack, sequences, T, C)
    norms = (4.0 * model.hidden + 1.0 * stack.dropout * model.hidden) * tokens / norm_shard
    saved_by_selective = scores
    if moe:
        routed = tokens / shard * model.topk * model.capacity
        per_element = 6.0 if model.gated else 4.0
        block = routed * (2.0 * model.hidden * X + per_element * model.expert_ffn)
        block += 12.0 * model.experts * tokens / shard
        block += mlp_bytes(model, stack, tokens, 1.0 * model.shared_ffn, T)
        activation = 2.0 * routed * model.expert_ffn
    else:
        block = mlp_bytes(model, stack, tokens, 1.0 * model.ffn, T)
        activation = 0.0
    everything = attention + norms + block + scores
    if stack.selective_core == 0:
        saved_by_selective = 4.0 * model.hidden * tokens / shard + activation
        if model.mla:
            q, kv, _ = attention_width(model)
            saved_by_selective += 2.0 * (q + kv) / T * tokens
    kept = everything - saved_by_selective
    if stack.selective_core == 2:
        q, kv, _ = attention_width(model)
        kept = tokens * (4.0 * model.hidden / shard + 2.0 * (2.0 * model.hidden + kv + model.ffn) / T)
    return everything, kept, 2.0 * model.hidden * tokens / shard
