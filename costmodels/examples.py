"""Small fixed inputs for doctests and tests: numbers simple enough to work by hand."""

from costmodels.types import Model

TINY = Model(
    layers=4, hidden=8, heads=2, kv_heads=2, head_dim=4, ffn=32, gated=0, vocab=100, vocab_multiple=1, seq=16, tied=0,
    learned_positions=0, bias=0, qkv_bias=0, attn_out_bias=0, mlp_bias=0, output_bias=0, norm_vectors=1.0, norms_per_layer=2,
    embedding_norm=0, qk_norm=0, attn_sinks=0, window=0, experts=0, topk=0, expert_ffn=0, shared_ffn=0, shared_gate=0,
    router_bias=0, expert_bias=0, dense_first=0, moe_every=1, route_groups=0, route_topk_groups=0, capacity=1.0, mla=0,
    q_lora=0, kv_lora=0, qk_nope=0, qk_rope=0, v_dim=0, mtp=0,
)  # fmt: skip
"""Four layers, h = 8, two heads of 4, GELU width 32, untied, no biases, RMSNorm: 784 parameters a layer."""
