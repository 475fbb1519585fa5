"""Matrix multiplication time: a roofline with a K prologue and a soft wave term.

Fits of cuBLAS rates on A100 and H100 show that hard tile and wave rounding makes errors worse (30 % and more on H100),
while a constant efficiency with a short prologue in K and a half-wave term follows them to about 9 %.
"""

from __future__ import annotations

from costmodels._jit import jit

K_PROLOGUE = 80.0  # elements of K a 16-bit product spends filling the pipeline; fitted on cuBLAS rates of the A100 (vidur, LLMCompass)
WAVE_TERM = 0.08  # share of one 128x256-tile wave that is lost on average
TILE = 128.0 * 256.0


@jit
def gemm_s(M: float, N: float, K: float, eff_flops: float, sms: float, eff_hbm_Bps: float, element_bytes: float, prologue: float) -> float:
    """Seconds of C[M, N] += A[M, K] B[K, N].

    `eff_flops` and `eff_hbm_Bps` are peak times efficiency, `prologue` the elements of K lost at the start. A large square product approaches 2MNK / eff_flops:

    >>> t = gemm_s(8192.0, 8192.0, 8192.0, 234e12, 108.0, 1.63e12, 2.0, 80.0)
    >>> round(2 * 8192**3 / t / 234e12, 2)
    0.99
    """
    if M <= 0.0 or N <= 0.0 or K <= 0.0:
        return 0.0
    flops = 2.0 * M * N * (K + prologue) / eff_flops * (1.0 + WAVE_TERM * sms * TILE / (M * N))
    traffic = element_bytes * (M * K + K * N + M * N) / eff_hbm_Bps
    return max(flops, traffic)


@jit
def linear_s(tokens: float, n_out: float, n_in: float, eff_flops: float, sms: float, eff_hbm_Bps: float, prologue: float) -> tuple[float, float]:
    """(forward, backward) seconds of a linear layer; backward is the input gradient and the weight gradient.

    >>> f, b = linear_s(4096.0, 4096.0, 4096.0, 234e12, 108.0, 1.63e12, 80.0)
    >>> b == 2 * f
    True
    """
    forward = gemm_s(tokens, n_out, n_in, eff_flops, sms, eff_hbm_Bps, 2.0, prologue)
    dgrad = gemm_s(tokens, n_in, n_out, eff_flops, sms, eff_hbm_Bps, 2.0, prologue)
    wgrad = gemm_s(n_in, n_out, tokens, eff_flops, sms, eff_hbm_Bps, 2.0, prologue)
    return forward, dgrad + wgrad


@jit
def grouped_efficiency(tokens_per_expert: float) -> float:
    """Efficiency of a grouped GEMM relative to a large one: n / (n + 250) for n tokens per expert.

    Source: grouped GEMM rates on B200 (SimuMax tables): 0.17 of peak at 128 tokens to 0.47 at 2,460.

    >>> grouped_efficiency(250.0)
    0.5
    """
    return tokens_per_expert / (tokens_per_expert + 250.0)
