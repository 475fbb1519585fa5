"""Low-rank adapters (LoRA, Hu et al. 2021, arXiv 2106.09685): how many parameters are trained when the model is frozen."""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.parameters import moe_layers_before
from costmodels.types import Model


@jit
def block_adapter_parameters(hidden: int, width: int, gated: int, rank: int) -> int:
    """Adapters on every matrix of one feed-forward block: each has rank x (inputs + outputs).

    >>> block_adapter_parameters(8, 32, 1, 2)  # three matrices of 8 x 32
    240
    """
    return (2 + gated) * rank * (hidden + width)


@jit
def attention_adapter_parameters(model: Model, rank: int) -> int:
    """Adapters on the projections of one attention block: q, k, v and output, or those of latent attention."""
    h = model.hidden
    if model.mla:
        q_width = model.heads * (model.qk_nope + model.qk_rope)
        if model.q_lora > 0:
            widths = h + model.q_lora + model.q_lora + q_width
        else:
            widths = h + q_width
        widths += h + model.kv_lora + model.qk_rope
        widths += model.kv_lora + model.heads * (model.qk_nope + model.v_dim)
        return rank * (widths + model.heads * model.v_dim + h)
    q, kv = model.heads * model.head_dim, model.kv_heads * model.head_dim
    return rank * (2 * (h + q) + 2 * (h + kv))


@jit
def adapter_parameters(model: Model, rank: int) -> int:
    """Trained parameters of a whole model with adapters of `rank` on all linear layers but embedding and head.

    A model of 32 layers of 4,096 with 8 KV heads of 128 and a gated block of 14,336, rank 16:

    >>> from costmodels.examples import TINY
    >>> llama = TINY._replace(layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, gated=1)
    >>> adapter_parameters(llama, 16)
    41943040
    """
    moe = moe_layers_before(model, model.layers)
    n = model.layers * attention_adapter_parameters(model, rank)
    n += (model.layers - moe) * block_adapter_parameters(model.hidden, model.ffn, model.gated, rank)
    n += moe * model.experts * block_adapter_parameters(model.hidden, model.expert_ffn, model.gated, rank)
    if model.shared_ffn > 0:
        n += moe * block_adapter_parameters(model.hidden, model.shared_ffn, model.gated, rank)
    return n
