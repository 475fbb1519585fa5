"""Core attention time: fused (FlashAttention) and unfused (scores written and read back)."""

from __future__ import annotations

from costmodels._jit import jit
from costmodels.types import Gpu

UNFUSED_FORWARD_BYTES = 13.0  # per score element: write 2, softmax 4, dropout 5, read 2
UNFUSED_BACKWARD_BYTES = 19.0
UNFUSED_MATMUL_EFF = 0.55  # batched GEMM of the scores, of 16-bit peak; small K
MISALIGNED_SLOWDOWN = 10.0  # head size a multiple of 4 only, 8-byte loads: batched products of four BigScience runs (size 108) ask 9 to 17
ODD_SLOWDOWN = 16.0  # not even of 4, loads narrower still: BigScience sweeps with sizes 145 (V100) and 150 (A100) ask 12 to 20
RAMP_TOKENS = 400.0  # fused kernels reach half their rate at this sequence length


@jit
def visible_pairs(seq: float, window: float) -> float:
    """Query-key pairs under a causal mask (s^2 / 2), fewer with a sliding window.

    >>> visible_pairs(1024.0, 0.0)
    524288.0
    >>> visible_pairs(1024.0, 256.0)
    229376.0
    """
    if window <= 0.0 or window >= seq:
        return seq * seq / 2.0
    return window * seq - window * window / 2.0


@jit
def fused_attention_s(
    gpu: Gpu, speed: float, sequences: float, seq: float, context: float, heads: float, qk_dim: float, v_dim: float, window: float
) -> tuple[float, float]:
    """(forward, backward) seconds of FlashAttention on one GPU; causal blocks are skipped.

    `heads` are this GPU's heads, `context` splits the work evenly. FLOPs 2 (qk + v) per pair forward, 2.5x backward.
    The rate ramps as s / (s + 400); `speed` is the kernel's rate relative to the GPU's best one.

    >>> from costmodels.types import Gpu
    >>> a100 = Gpu(312e12, 312e12, 2.039e12, 8e10, 108, .78, .78, .8, .5, .4, 1., .78, 80.)
    >>> f, b = fused_attention_s(a100, 1.0, 1.0, 4096.0, 1.0, 16.0, 128.0, 128.0, 0.0)
    >>> round(1e3 * f, 2), round(b / f, 2)
    (0.48, 3.12)
    """
    pairs = sequences * heads * visible_pairs(seq, window) / context
    ramp = (seq + RAMP_TOKENS) / seq
    flops = 2.0 * pairs * (qk_dim + v_dim)
    forward = flops / (speed * gpu.attn_fwd_eff * gpu.peak16_flops) * ramp
    backward = 2.5 * flops / (speed * gpu.attn_bwd_eff * gpu.peak16_flops) * ramp
    return forward, backward


@jit
def unfused_attention_s(
    gpu: Gpu, sequences: float, seq: float, context: float, heads: float, qk_dim: float, v_dim: float
) -> tuple[float, float]:
    """(forward, backward) seconds of attention that materialises its scores; the masked half is computed too.

    Element traffic dominates: 13 bytes per score forward, 19 backward (softmax, mask and dropout included).

    >>> from costmodels.types import Gpu
    >>> a100 = Gpu(312e12, 312e12, 2.039e12, 8e10, 108, .78, .78, .8, .5, .4, 1., .78, 80.)
    >>> f, b = unfused_attention_s(a100, 4.0, 2048.0, 1.0, 8.0, 128.0, 128.0)
    >>> 1.0 < 1e3 * f < 2.0 and b > f
    True
    """
    scores = sequences * heads * seq * seq / context
    dim = 0.5 * (qk_dim + v_dim)
    rate = UNFUSED_MATMUL_EFF * gpu.peak16_flops * min(1.0, 1.33 * dim / (dim + 32.0))
    if dim % 8.0 != 0.0:
        rate /= MISALIGNED_SLOWDOWN if dim % 4.0 == 0.0 else ODD_SLOWDOWN
    hbm = gpu.hbm_eff * gpu.hbm_Bps
    forward = 4.0 * scores * dim / rate + UNFUSED_FORWARD_BYTES * scores / hbm
    backward = 8.0 * scores * dim / rate + UNFUSED_BACKWARD_BYTES * scores / hbm
    return forward, backward
