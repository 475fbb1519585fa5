"""Sizes of single tensors that decide whether a run fits, and per-token traffic of experts. Bytes unless said otherwise.

Allocator messages name one tensor; these functions give its size to the byte.
"""

from __future__ import annotations

from costmodels._jit import jit


@jit
def logits_tensor_bytes(tokens: float, vocab: int, multiple: int, T: int, element_bytes: float) -> float:
    """One copy of the logits of a micro-batch on one GPU: tokens x padded vocabulary x element / T.

    The vocabulary is padded to a multiple of `multiple` x T. Four sequences of 1,024 tokens and GPT-2's vocabulary in fp32:

    >>> logits_tensor_bytes(4.0 * 1024, 50257, 128, 1, 4.0) / 2**20
    786.0
    """
    unit = multiple * T
    padded = (vocab + unit - 1) // unit * unit
    return tokens * padded * element_bytes / T


@jit
def attention_scores_bytes(sequences: float, heads: int, seq: int, T: int, C: int, element_bytes: float) -> float:
    """One layer's score matrix of a micro-batch on one GPU when attention is not fused.

    >>> attention_scores_bytes(1.0, 56, 2048, 1, 1, 4.0) / 2**20
    896.0
    """
    return sequences * heads / T * seq * seq / C * element_bytes


@jit
def expert_tokens(tokens: float, topk: int, shard: float, X: int) -> float:
    """Token copies that enter the experts of one GPU under uniform routing. The expert degree does not appear in it.

    `tokens` are those of a micro-batch, `shard` the tensor degree where sequence parallelism splits them: a GPU's own
    tokens are traded for as many of the others in its group.

    >>> expert_tokens(4096.0, 2, 2.0, 1)
    4096.0
    """
    return topk * tokens * X / shard


@jit
def expert_token_bytes(hidden: int, topk: int, E: int, element_bytes: float) -> float:
    """Bytes that one token sends and gets back in one expert layer's forward pass: 2 x top-k x h x element x (1 - 1/E).

    >>> round(48 * expert_token_bytes(6144, 4, 8, 2.0) / 2**20, 2), round(48 * expert_token_bytes(6144, 4, 16, 2.0) / 2**20, 2)
    (3.94, 4.22)
    """
    return 2.0 * topk * hidden * element_bytes * (1.0 - 1.0 / E)


@jit
def off_domain_share(E: int, K: int) -> float:
    """Share of an expert group's traffic that leaves the HB domain: (E - K) / (E - 1), 0 inside it.

    >>> off_domain_share(8, 8), round(off_domain_share(16, 8), 4)
    (0.0, 0.5333)
    """
    if E <= K or E <= 1:
        return 0.0
    return (E - K) / (E - 1.0)
