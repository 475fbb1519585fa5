"""Model and hardware FLOPs of one token, in the field's convention: multiply-adds count two, backward twice the forward."""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.activations import attention_width
from costmodels.parameters import active_parameters
from costmodels.types import Model


@jit
def matmul_parameters(model: Model) -> float:
    """Weights that one token is multiplied with: active parameters without the input embedding and the position table.

    >>> from costmodels.examples import TINY
    >>> matmul_parameters(TINY)  # 4 x 784 + final norm 8 + head 800
    3944.0
    """
    n = active_parameters(model) - model.learned_positions * model.hidden
    if model.tied == 0:
        n -= model.vocab * model.hidden
    return 1.0 * n


@jit
def attention_flops(model: Model, causal: int) -> float:
    """Forward and backward FLOPs of the score products per token; halved when causal blocks are not counted.

    >>> from costmodels.examples import TINY
    >>> attention_flops(TINY, 0), attention_flops(TINY, 1)  # 12 L a d s = 12 x 4 x 8 x 16
    (6144.0, 3072.0)
    """
    q, _, out = attention_width(model)
    full = 6.0 * model.layers * (q + out) * model.seq
    if causal:
        return full / 2.0
    return full


@jit
def model_flops_per_token(model: Model, causal: int) -> float:
    """FLOPs of forward and backward per token, no recompute: 6 W + attention (full matrix unless `causal`).

    The full-attention count is the usual one for MFU; state which is used when figures are compared.
    """
    return 6.0 * matmul_parameters(model) + attention_flops(model, causal)


@jit
def recomputed_flops_per_token(model: Model, share: float) -> float:
    """FLOPs of the forward passes repeated by full recompute of `share` of the layers."""
    head = 1.0 * model.vocab * model.hidden
    return share * (2.0 * (matmul_parameters(model) - head) + attention_flops(model, 0) / 3.0)
