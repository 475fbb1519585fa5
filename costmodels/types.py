"""The numbers the cost model speaks: plain NamedTuples in SI units and bytes.

Legend used in kernels: P pipeline, T tensor, D data, C context, E expert degrees, X expert-tensor degree; b micro-batch
(sequences), m micro-batches per pipeline, v model chunks per stage, K HB-domain size; h hidden, L layers, a heads,
s sequence, V padded vocabulary. Bandwidth is per GPU and one direction.
"""

from __future__ import annotations

from typing import NamedTuple


class Gpu(NamedTuple):
    """One accelerator for one training precision. Efficiencies are fractions of the data sheet value."""

    peak_flops: float  # dense FLOP/s of the GEMM precision
    peak16_flops: float  # dense bf16 FLOP/s, used for attention and the head
    hbm_Bps: float
    memory_bytes: float
    sms: float
    gemm_eff: float  # large GEMM, of peak_flops
    gemm16_eff: float  # large 16-bit GEMM, of peak16_flops
    hbm_eff: float
    attn_fwd_eff: float  # fused attention at long sequence, of peak16_flops
    attn_bwd_eff: float
    attn_legacy: float  # share of those rates that FlashAttention-2 reaches, a kernel of an older generation where below 1
    nvlink_eff: float  # large-message share of the HB bandwidth
    k_prologue: float  # elements of K a matrix product of the training precision loses at its start


class Network(NamedTuple):
    """The fabric as a collective sees it. Fabrics build this; see `costmodels/fabrics`.

    GPUs are numbered domain by domain; GPU g sits in domain g // hb_size on rail g % hb_size.
    """

    gpus: int
    hb_size: int  # K
    hb_Bps: float  # per GPU, one direction
    hb_latency_s: float  # per step inside a domain
    mesh: int  # 1: full mesh of point-to-point links, a group of g < K uses (g-1)/(K-1) of hb_Bps
    nvls: int  # 1: in-network reduction inside the domain, all-reduce only
    nic_Bps: float  # per GPU, one direction
    nic_eff: float  # large-message share of the NIC rate
    latency_s: float  # per step between domains, within the nearest tier
    hop_latency_s: float  # added per further tier
    any_to_any: int  # 1: every pair is joined by the network; 0: only GPUs of one rail are
    leaf_gpus: int  # GPUs within reach at full NIC rate through the first tier (rails counted together)
    pod_gpus: int  # ... through the second tier
    pod_Bps: float  # per GPU across leaves, inside a pod, all sending
    core_Bps: float  # per GPU across pods, all sending
    hop_stall_s: float = 0.0  # each pipeline transfer waits so long beyond latency and bandwidth, where a cluster was seen to


class Model(NamedTuple):
    """Shapes of a decoder-only transformer. Sizes are unsharded; `vocab` is not yet padded."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: int
    vocab: int
    vocab_multiple: int
    seq: int
    tied: int
    learned_positions: int  # rows of a learned position table, 0 = none
    bias: int  # biases on all linear layers
    qkv_bias: int
    attn_out_bias: int
    mlp_bias: int
    output_bias: int
    norm_vectors: float  # vectors of size h per norm: 1 RMSNorm, 2 LayerNorm
    norms_per_layer: int
    embedding_norm: int
    qk_norm: int  # parameters of the QK norms per layer
    attn_sinks: int
    window: int  # sliding window in tokens, 0 = full causal attention
    experts: int  # 0 = dense
    topk: int
    expert_ffn: int
    shared_ffn: int
    shared_gate: int
    router_bias: int
    expert_bias: int
    dense_first: int  # leading dense layers of an MoE model
    moe_every: int
    route_groups: int  # node-limited routing: groups of experts, 0 = free
    route_topk_groups: int
    capacity: float  # padded capacity of an expert over the mean number of its tokens: 1 without padding
    load_variation: float  # standard deviation of the tokens of an expert over their mean; 0 balanced
    mla: int
    q_lora: int
    kv_lora: int
    qk_nope: int
    qk_rope: int
    v_dim: int
    mtp: int


class Stack(NamedTuple):
    """Documented behaviours of one training framework, and its few fitted numbers.

    Values and provenance: `autotune/catalogue/stacks/*.yaml`. Shares are of the communication time left exposed.
    """

    flash_attention: int
    attention_legacy: int  # 1: FlashAttention-2 or older kernels, 0: kernels of the GPU's generation
    attention_speed: float  # rate of the stack's fused attention kernel relative to that
    dropout: int
    fused_elementwise: float  # element-wise traffic relative to fused kernels
    fused_activation: int  # 1: swiglu keeps only its input and its product
    qkv_copies: int  # copies of q, k and v kept per layer: 1, or 2 when the rotated ones are stored beside
    selective_core: int  # selective recompute re-runs 1: core attention; 0: norms, activation, MLA up-projections; 2: every other product
    recompute_share: float  # part of a layer's forward that full recompute runs again; below 1 where it stops early
    logit_time_bytes: float  # HBM bytes per logit of the loss
    logit_memory_bytes: float  # bytes kept per logit at the peak
    logit_kept_bytes: float  # of the previous micro-batch's logits still alive while gradients accumulate
    cast_bytes: float  # fp8: bytes per GEMM input element spent on casts and scaling
    tensor_exposed_fwd: float
    tensor_exposed_bwd: float
    context_exposed: float
    expert_exposed: float
    data_exposed: float  # of the gradient reduction that fits under the last backward; the rest is exposed
    param_gather_exposed: float
    p2p_exposed: float
    p2p_scatter: int  # 1: pipeline tensors are split over the tensor group
    full_hop_s: float  # each pipeline transfer waits so long where memory is nearly full (`iteration.FULL`)
    chunk_s: float  # cost of each model-chunk boundary
    grad_accum_bytes: float  # per parameter on the GPU and micro-batch when m > 1
    grad_bytes: float  # on the wire, per parameter
    param_gather_bytes: float
    launch_s: float  # CPU launch time per layer and pass: a floor under the GPU time
    launch_tensor_s: float  # added when T > 1
    launch_pipeline_s: float  # floor per tensor rank instead, where a pipeline spans HB domains and T > 1
    tensor_gap_s: float  # per layer, pass and further rank of the tensor group: collectives whose steps the host drives
    iteration_s: float  # fixed cost per iteration
    optimizer_bytes: float  # HBM bytes per parameter of the optimizer step
    optimizer_s: float  # fixed cost of the optimizer step
    rank_s: float  # cost per data-parallel rank and step (one broadcast per rank)
    weight_memory_bytes: float  # per parameter: weights
    grad_memory_bytes: float  # main gradients
    optimizer_memory_bytes: float  # master weights and moments
    bucket_memory_bytes: float  # per parameter, when D > 1: buckets and gather buffers
    norm_whole_share: float  # part of the norms' saved tensors that stays whole over the tensor group without sequence parallelism
    hidden_memory_bytes: float  # per token and hidden element: transient copies of one micro-batch's hidden state
    whole_memory_bytes: float  # the same, more, where T > 1 without sequence parallelism leaves them whole
    head_temp_bytes: float  # per parameter of the head: temporaries of its weight gradient
    working_copies: float  # layers' worth of activations alive while one recomputed layer runs again
    reserve_bytes: float  # CUDA context, NCCL buffers
    fragmentation: float  # share of dynamic memory lost by the allocator
    trained_share: float  # of the parameters: 1, or the share of adapters on a frozen model


class Point(NamedTuple):
    """One configuration, as the kernel sees it (`autotune.plan.Plan` is its named form)."""

    tensor: int
    pipeline: int
    data: int
    context: int
    expert: int
    expert_tensor: int
    chunks: int  # v, model chunks per stage
    micro_batch: int
    micro_batches: int
    seq_parallel: int
    recompute: int  # 0 none, 1 selective, 2 full
    recompute_layers: int  # fully recomputed layers per chunk, with recompute == 2
    zero: int  # 0..3
    first_layers: int  # layers of the first stage; -1 = even split
    last_layers: int
    order: int  # 0 tp-cp-ep-dp-pp, 1 tp-cp-ep-pp-dp


class Breakdown(NamedTuple):
    """Seconds of one iteration; the parts sum to the iteration time."""

    compute: float
    recompute: float
    tensor_comm: float
    context_comm: float
    expert_comm: float
    pipeline_comm: float
    pipeline_bubble: float
    data_comm: float
    optimizer: float
    overhead: float


class StageMemory(NamedTuple):
    """Bytes on one GPU of one pipeline stage at its peak; the parts sum to the stage's total."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    buffers: float
    reserve: float
