"""Exact parameter counts: of a whole model, and of one GPU under tensor and expert parallelism.

Counts per GPU equal what Megatron Core builds (norms, biases behind a row-parallel layer, routers and position tables are
replicated over the tensor group; KV weights are split T ways even when T exceeds the KV heads).
"""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.types import Model


@jit
def padded_vocab(model: Model, T: int) -> int:
    """Vocabulary rounded up to a multiple of `vocab_multiple` x T, as Megatron pads it.

    >>> from costmodels.examples import TINY
    >>> padded_vocab(TINY._replace(vocab=32000, vocab_multiple=128), 4)
    32256
    """
    unit = model.vocab_multiple * T
    return (model.vocab + unit - 1) // unit * unit


@jit
def norm_parameters(model: Model) -> int:
    """Parameters of one norm over the hidden size."""
    return int(model.norm_vectors * model.hidden)


@jit
def attention_parameters(model: Model, T: int) -> int:
    """Attention weights of one layer on one GPU, norms left out.

    h=8, 2 heads of 4, 2 KV heads, no bias: 8 x (8 + 16) + 8 x 8 = 256.

    >>> from costmodels.examples import TINY
    >>> attention_parameters(TINY, 1), attention_parameters(TINY, 2)
    (256, 128)
    """
    h = model.hidden
    if model.mla:
        q_width = model.heads * (model.qk_nope + model.qk_rope)
        if model.q_lora > 0:
            n = h * model.q_lora + model.q_lora + model.q_lora * q_width // T
        else:
            n = h * q_width // T
        n += h * (model.kv_lora + model.qk_rope) + model.kv_lora
        n += model.kv_lora * model.heads * (model.qk_nope + model.v_dim) // T
        n += model.heads * model.v_dim * h // T
        if model.bias or model.qkv_bias:
            n += model.q_lora + model.kv_lora + model.qk_rope
        if model.bias or model.attn_out_bias:
            n += h
        return n
    q = model.heads * model.head_dim
    qkv = q + 2 * model.kv_heads * model.head_dim
    n = h * qkv // T + q * h // T
    if model.bias or model.qkv_bias:
        n += qkv // T
    if model.bias or model.attn_out_bias:
        n += h
    if model.attn_sinks:
        n += model.heads // T
    return n + model.qk_norm


@jit
def mlp_parameters(hidden: int, width: int, gated: int, bias: int, T: int) -> int:
    """One feed-forward block on one GPU.

    >>> mlp_parameters(8, 32, 1, 0, 2)
    384
    """
    n = (2 + gated) * hidden * width // T
    if bias:
        n += (1 + gated) * width // T + hidden
    return n


@jit
def layer_parameters(model: Model, T: int, X: int, E: int, moe: int) -> tuple[int, int]:
    """(parameters in the dense data-parallel group, expert parameters) of one layer on one GPU.

    >>> from costmodels.examples import TINY
    >>> layer_parameters(TINY, 1, 1, 1, 0)
    (784, 0)
    """
    dense = attention_parameters(model, T) + model.norms_per_layer * norm_parameters(model)
    if moe == 0:
        return dense + mlp_parameters(model.hidden, model.ffn, model.gated, int(model.bias or model.mlp_bias), T), 0
    dense += model.hidden * model.experts
    if model.router_bias:
        dense += model.experts
    if model.shared_ffn > 0:
        dense += mlp_parameters(model.hidden, model.shared_ffn, model.gated, int(model.bias or model.mlp_bias), T)
        if model.shared_gate:
            dense += model.hidden
    one = mlp_parameters(model.hidden, model.expert_ffn, model.gated, int(model.bias or model.expert_bias), X)
    return dense, model.experts // E * one


@jit
def moe_layers_before(model: Model, index: int) -> int:
    """How many of the layers 0..index-1 have experts.

    >>> from costmodels.examples import TINY
    >>> [moe_layers_before(TINY._replace(experts=4, dense_first=1, moe_every=1), i) for i in (0, 1, 2, 4)]
    [0, 0, 1, 3]
    """
    if model.experts == 0 or index <= model.dense_first:
        return 0
    return (index - model.dense_first + model.moe_every - 1) // model.moe_every


@jit
def embedding_parameters(model: Model, T: int) -> int:
    """Word embedding (padded vocabulary), position table and embedding norm on one GPU of the first stage."""
    n = padded_vocab(model, T) * model.hidden // T + model.learned_positions * model.hidden
    if model.embedding_norm:
        n += norm_parameters(model)
    return n


@jit
def head_parameters(model: Model, T: int) -> int:
    """Output projection (padded vocabulary) on one GPU of the last stage, when it has its own copy."""
    n = padded_vocab(model, T) * model.hidden // T
    if model.output_bias:
        n += padded_vocab(model, T) // T
    return n


@jit
def mtp_parameters(model: Model, T: int, X: int, E: int) -> tuple[int, int]:
    """(dense, expert) parameters of all multi-token-prediction layers: each one layer, a 2h->h projection and three norms."""
    if model.mtp == 0:
        return 0, 0
    dense, expert = layer_parameters(model, T, X, E, int(model.experts > 0))
    dense += 2 * model.hidden * model.hidden // T + 3 * norm_parameters(model)
    return model.mtp * dense, model.mtp * expert


@jit
def total_parameters(model: Model) -> int:
    """All parameters with the unpadded vocabulary, multi-token-prediction layers left out.

    >>> from costmodels.examples import TINY
    >>> total_parameters(TINY._replace(layers=1, vocab=100))  # embedding 800 + layer 784 + norm 8 + head 800
    2392
    """
    moe = moe_layers_before(model, model.layers)
    dense_part, _ = layer_parameters(model, 1, 1, 1, 0)
    n = (model.layers - moe) * dense_part
    if moe > 0:
        shared_part, experts = layer_parameters(model, 1, 1, 1, 1)
        n += moe * (shared_part + experts)
    n += model.vocab * model.hidden + model.learned_positions * model.hidden + norm_parameters(model)
    if model.embedding_norm:
        n += norm_parameters(model)
    if model.tied == 0:
        n += model.vocab * model.hidden
    if model.output_bias:
        n += model.vocab
    return n


@jit
def active_parameters(model: Model) -> int:
    """Parameters that one token meets: all but the experts it is not routed to.

    >>> from costmodels.examples import TINY
    >>> active_parameters(TINY) == total_parameters(TINY)
    True
    """
    moe = moe_layers_before(model, model.layers)
    idle = 0
    if moe > 0:
        _, experts = layer_parameters(model, 1, 1, 1, 1)
        idle = moe * (experts // model.experts) * (model.experts - model.topk)
    return total_parameters(model) - idle
