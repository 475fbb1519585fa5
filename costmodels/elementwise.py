"""Memory-bound operators of a layer: norms, residuals, dropout, activation, rotary, bias. Bytes over HBM."""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.types import Model, Stack


@jit
def hidden_bytes(stack: Stack) -> tuple[float, float]:
    """(forward, backward) bytes per token and hidden element: two norms, two residuals, two dropouts.

    Fused kernels with dropout: 22 and 34 (counted; they bring 2022 layer times within 1.6 %). Without dropout 16 and 26.
    """
    if stack.dropout:
        return 22.0, 34.0
    return 16.0, 26.0


@jit
def activation_bytes(gated: int) -> tuple[float, float]:
    """(forward, backward) bytes per token and feed-forward element: read inputs, write product, and the mirror image.

    >>> activation_bytes(0), activation_bytes(1)
    ((4.0, 6.0), (6.0, 10.0))
    """
    if gated:
        return 6.0, 10.0
    return 4.0, 6.0


@jit
def layer_elementwise_s(
    model: Model, stack: Stack, hbm_Bps: float, norm_tokens: float, tokens: float, ffn_elements: float, attn_elements: float
) -> tuple[float, float]:
    """(forward, backward) seconds of one layer's memory-bound operators.

    `norm_tokens` see the norms (divided by T under sequence parallelism), `ffn_elements` are token x width products of the
    feed-forward block on this GPU, `attn_elements` those of q, k and v (bias, rotary, reshapes: 4 and 8 bytes).
    """
    hf, hb = hidden_bytes(stack)
    af, ab = activation_bytes(model.gated)
    scale = stack.fused_elementwise / hbm_Bps
    forward = (hf * norm_tokens * model.hidden + af * ffn_elements + 4.0 * attn_elements) * scale
    backward = (hb * norm_tokens * model.hidden + ab * ffn_elements + 8.0 * attn_elements) * scale
    return forward, backward
