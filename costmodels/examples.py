"""Small fixed inputs for doctests and tests: numbers simple enough to work by hand."""

from costmodels.types import Gpu, Model, Network, Point, Stack

TINY = Model(
    layers=4, hidden=8, heads=2, kv_heads=2, head_dim=4, ffn=32, gated=0, vocab=100, vocab_multiple=1, seq=16, tied=0,
    learned_positions=0, bias=0, qkv_bias=0, attn_out_bias=0, mlp_bias=0, output_bias=0, norm_vectors=1.0, norms_per_layer=2,
    embedding_norm=0, qk_norm=0, attn_sinks=0, window=0, experts=0, topk=0, expert_ffn=0, shared_ffn=0, shared_gate=0,
    router_bias=0, expert_bias=0, dense_first=0, moe_every=1, route_groups=0, route_topk_groups=0, capacity=1.0, load_variation=0.0, mla=0,
    q_lora=0, kv_lora=0, qk_nope=0, qk_rope=0, v_dim=0, mtp=0,
)  # fmt: skip
"""Four layers, h = 8, two heads of 4, GELU width 32, untied, no biases, RMSNorm: 784 parameters a layer."""

H100 = Gpu(
    peak_flops=989e12, peak16_flops=989e12, hbm_Bps=3.35e12, memory_bytes=80 * 2.0**30, sms=132, gemm_eff=0.71,
    gemm16_eff=0.71, hbm_eff=0.8, attn_fwd_eff=0.48, attn_bwd_eff=0.38, attn_legacy=0.62, nvlink_eff=0.8, k_prologue=80.0,
)  # fmt: skip
"""An 80 GB H100 in bf16."""

EIGHT_H100 = Network(
    gpus=8, hb_size=8, hb_Bps=450e9, hb_latency_s=1e-6, mesh=0, nvls=0, nic_Bps=50e9, nic_eff=0.85, latency_s=3e-6,
    hop_latency_s=1e-6, any_to_any=1, leaf_gpus=512, pod_gpus=16384, pod_Bps=50e9, core_Bps=50e9,
)  # fmt: skip
"""One HB domain of eight with one 400 Gb/s NIC per GPU."""

MEGATRON_2021 = Stack(
    flash_attention=0, attention_legacy=0, attention_speed=1.0, dropout=1, fused_elementwise=1.0, fused_activation=1, qkv_copies=1, selective_core=1, recompute_share=1.0,
    logit_time_bytes=40.0, logit_memory_bytes=10.0, logit_kept_bytes=0.0, cast_bytes=0.0, tensor_exposed_fwd=1.0, tensor_exposed_bwd=1.0,
    context_exposed=1.0, expert_exposed=1.0, data_exposed=1.0, param_gather_exposed=1.0, p2p_exposed=1.0, p2p_scatter=1,
    full_hop_s=0.0, chunk_s=0.0, grad_accum_bytes=8.0, grad_bytes=2.0, param_gather_bytes=2.0, launch_s=0.0, launch_tensor_s=0.0, launch_pipeline_s=0.0,
    tensor_gap_s=0.0, iteration_s=0.0, optimizer_bytes=40.0, optimizer_s=0.003, rank_s=0.0, weight_memory_bytes=2.0,
    grad_memory_bytes=4.0, optimizer_memory_bytes=12.0, bucket_memory_bytes=0.0, norm_whole_share=1.0, hidden_memory_bytes=0.0, whole_memory_bytes=0.0, head_temp_bytes=2.0,
    working_copies=1.0, reserve_bytes=2e9, fragmentation=0.0, trained_share=1.0,
)  # fmt: skip
"""Unfused attention with dropout, nothing overlapped, 18 bytes of state per parameter."""

POINT = Point(
    tensor=1, pipeline=1, data=1, context=1, expert=1, expert_tensor=1, chunks=1, micro_batch=1, micro_batches=1,
    seq_parallel=0, recompute=0, recompute_layers=0, zero=0, first_layers=-1, last_layers=-1, order=0,
)  # fmt: skip
"""Everything on one GPU."""
