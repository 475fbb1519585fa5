"""Megatron's arguments for a model and a plan: names of megatron-core 0.17 to 0.19, every default that matters spelled out.

Traps this module exists for: `--num-query-groups` does nothing without `--group-query-attention`; the defaults are those of
GPT-2 (learned positions, LayerNorm, biases, tied embeddings, dropout 0.1); the expert tensor degree defaults to the tensor
degree; `--recompute-modules` does nothing without a granularity.
"""

from __future__ import annotations

from autotune.emit.base import chunk_layers, recomputed_layers
from autotune.errors import Problem
from autotune.plan import Plan
from autotune.recompute import selective_modules
from autotune.specs import ModelSpec

Row = tuple[str | int | float, ...]


def inexpressible(model: ModelSpec) -> list[Problem]:
    """Features of a model that Megatron's GPT has no argument for.

    >>> m = ModelSpec(name="m", num_layers=4, hidden_size=64, num_attention_heads=4, vocab_size=128, seq_length=64,
    ...               position_embedding_type="alibi")
    >>> [p.key for p in inexpressible(m)]
    ['position_embedding_type']
    """
    m = model
    partial_bias = "Megatron has biases on all linear layers, on QKV, or nowhere"
    expert_bias = bool(m.num_experts) and m.add_bias_linear
    checks = [
        (m.position_embedding_type == "alibi", "position_embedding_type", "Megatron has no ALiBi positions"),
        (m.embedding_norm, "embedding_norm", "Megatron has no norm behind the embedding"),
        (m.norms_per_layer != 2, "norms_per_layer", f"Megatron has 2 norms per layer, not {m.norms_per_layer}"),
        (m.norm_bias is not None and m.norm_bias != (m.normalization == "LayerNorm"), "norm_bias",
         "Megatron's LayerNorm has a bias and its RMSNorm has none"),
        (m.add_attention_output_bias and not m.add_bias_linear, "add_attention_output_bias", partial_bias),
        (m.add_mlp_bias and not m.add_bias_linear, "add_mlp_bias", partial_bias),
        (m.output_bias, "output_bias", "Megatron's LM head has no bias"),
        (m.qk_layernorm and not m.qk_norm_per_head, "qk_norm_per_head", "Megatron norms Q and K per head"),
        (expert_bias and not m.moe_expert_bias, "moe_expert_bias",
         "in Megatron add_bias_linear puts biases into the experts too; set moe_expert_bias, or add_bias_linear: false"),
        (expert_bias and m.moe_router_bias != "linear", "moe_router_bias",
         "in Megatron add_bias_linear gives the router a bias too; set moe_router_bias: linear, or add_bias_linear: false"),
        (bool(m.num_experts) and not m.add_bias_linear and m.moe_expert_bias, "moe_expert_bias",
         "Megatron's experts have biases only with add_bias_linear"),
        (bool(m.num_experts) and not m.add_bias_linear and m.moe_router_bias == "linear", "moe_router_bias",
         "Megatron's router has a linear bias only with add_bias_linear"),
        (m.multi_latent_attention and m.attention_sinks, "attention_sinks", "Megatron has no attention sinks with latent attention"),
        (m.multi_latent_attention and m.window_size is not None, "window_size", "Megatron has no sliding window with latent attention"),
    ]  # fmt: skip
    return [Problem(message, key=key) for bad, key, message in checks if bad]


def model_rows(model: ModelSpec) -> list[Row]:
    """Architecture."""
    m = model
    rows: list[Row] = [
        ("--num-layers", m.num_layers),
        ("--hidden-size", m.hidden_size),
        ("--ffn-hidden-size", m.ffn),
        ("--num-attention-heads", m.num_attention_heads),
        ("--kv-channels", m.head_dim),
        ("--seq-length", m.seq_length),
        ("--max-position-embeddings", positions(m)),
        ("--vocab-size", m.vocab_size),
        ("--make-vocab-size-divisible-by", m.make_vocab_size_divisible_by),
        ("--normalization", m.normalization),
        ("--attention-dropout", 0.0),
        ("--hidden-dropout", 0.0),
    ]
    rows += _positions_rows(m) + _attention_rows(m)
    if m.swiglu:
        rows.append(("--swiglu",))
    if not m.add_bias_linear:
        rows.append(("--disable-bias-linear",))
        if m.add_qkv_bias:
            rows.append(("--add-qkv-bias",))
    if m.untie_embeddings_and_output_weights:
        rows.append(("--untie-embeddings-and-output-weights",))
    if m.mtp_num_layers:
        rows.append(("--mtp-num-layers", m.mtp_num_layers))
    return rows


def positions(model: ModelSpec) -> int:
    """Value of --max-position-embeddings: the rows of a learned table, never less than the sequence."""
    learned = model.position_table_rows if model.position_embedding_type == "learned_absolute" else None
    return max(learned or model.max_position_embeddings or 0, model.seq_length)


def _positions_rows(m: ModelSpec) -> list[Row]:
    rows: list[Row] = [("--position-embedding-type", m.position_embedding_type)]
    if m.position_embedding_type == "rope":
        rows += [("--rotary-base", m.rotary_base), ("--rotary-percent", 1.0)]
    return rows


def _attention_rows(m: ModelSpec) -> list[Row]:
    rows: list[Row] = []
    if m.multi_latent_attention:
        rows.append(("--multi-latent-attention",))
        if m.q_lora_rank:
            rows.append(("--q-lora-rank", m.q_lora_rank))
        for name in ("kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"):
            rows.append(("--" + name.replace("_", "-"), getattr(m, name)))
        # The default of latent attention is YaRN; the fused kernel takes nothing else.
        rows += [("--rope-type", "rope"), ("--no-rope-fusion",)]
    elif m.kv_heads != m.num_attention_heads:
        rows += [("--group-query-attention",), ("--num-query-groups", m.kv_heads)]
    if m.qk_layernorm:
        rows.append(("--qk-layernorm",))
    if m.attention_sinks:
        rows.append(("--softmax-type", "learnable"))
    if m.window_size:
        rows.append(("--window-size", f"{m.window_size - 1},0"))
    return rows


def expert_rows(model: ModelSpec, plan: Plan) -> list[Row]:
    """Experts: architecture, routing and their two degrees. Empty for a dense model."""
    m = model
    if not m.num_experts:
        return []
    rows: list[Row] = [
        ("--num-experts", m.num_experts),
        ("--moe-ffn-hidden-size", m.expert_ffn),
        ("--moe-router-topk", m.moe_router_topk),
        ("--moe-layer-freq", layer_pattern(m)),
        ("--moe-grouped-gemm",),
        ("--moe-token-dispatcher-type", "alltoall"),
        ("--expert-model-parallel-size", plan.expert_parallel),
        ("--expert-tensor-parallel-size", plan.expert_tensor_parallel),
    ]
    if m.moe_router_bias == "expert":
        rows += [("--moe-router-score-function", "sigmoid"), ("--moe-router-enable-expert-bias",), ("--moe-router-pre-softmax",)]
        rows += [("--moe-router-load-balancing-type", "seq_aux_loss"), ("--moe-aux-loss-coeff", 1e-4)]
    else:
        if m.moe_router_topk == 1:
            rows.append(("--moe-router-pre-softmax",))
        rows += [("--moe-router-load-balancing-type", "aux_loss"), ("--moe-aux-loss-coeff", 1e-2)]
    if m.moe_shared_expert_intermediate_size:
        rows.append(("--moe-shared-expert-intermediate-size", m.moe_shared_expert_intermediate_size))
        if m.moe_shared_expert_gate:
            rows.append(("--moe-shared-expert-gate",))
    if m.moe_router_num_groups:
        rows += [("--moe-router-num-groups", m.moe_router_num_groups), ("--moe-router-group-topk", m.moe_router_group_topk or 1)]
    if m.moe_capacity_factor:
        rows.append(("--moe-expert-capacity-factor", m.moe_capacity_factor))
    return rows


def layer_pattern(model: ModelSpec) -> str | int:
    """Which layers hold experts, as --moe-layer-freq takes it.

    >>> m = ModelSpec(name="m", num_layers=6, hidden_size=64, num_attention_heads=4, vocab_size=128, seq_length=64, num_experts=8)
    >>> layer_pattern(m), layer_pattern(m.model_copy(update={"first_k_dense": 2}))
    (1, '([0]*2+[1]*4)')
    >>> layer_pattern(m.model_copy(update={"moe_layer_freq": 2}))
    '[1,0,1,0,1,0]'
    """
    m = model
    if m.moe_layer_freq == 1:
        return f"([0]*{m.first_k_dense}+[1]*{m.num_layers - m.first_k_dense})" if m.first_k_dense else 1
    pattern = [int(i >= m.first_k_dense and (i - m.first_k_dense) % m.moe_layer_freq == 0) for i in range(m.num_layers)]
    return "[" + ",".join(map(str, pattern)) + "]"


def parallel_rows(model: ModelSpec, plan: Plan) -> list[Row]:
    """Degrees, pipeline split, rank order, sharding."""
    p = plan
    rows: list[Row] = [
        ("--tensor-model-parallel-size", p.tensor_parallel),
        ("--pipeline-model-parallel-size", p.pipeline_parallel),
        ("--context-parallel-size", p.context_parallel),
    ]
    if p.context_parallel > 1:
        rows.append(("--cp-comm-type", "p2p"))
    if p.sequence_parallel and p.tensor_parallel > 1:
        rows.append(("--sequence-parallel",))
    rows += stage_rows(model, plan)
    if p.rank_order == "tp-cp-ep-pp-dp":
        rows.append(("--use-tp-pp-dp-mapping",))
    return rows


def stage_rows(model: ModelSpec, plan: Plan) -> list[Row]:
    """The pipeline split: nothing for equal stages, first/last counts, or a layout.

    >>> m = ModelSpec(name="m", num_layers=14, hidden_size=64, num_attention_heads=4, vocab_size=128, seq_length=64)
    >>> stage_rows(m, Plan(pipeline_parallel=4, stage_layers=(3, 4, 4, 3)))
    [('--decoder-first-pipeline-num-layers', 3), ('--decoder-last-pipeline-num-layers', 3)]
    >>> stage_rows(m, Plan(pipeline_parallel=4, stage_layers=(2, 4, 5, 3)))
    [('--pipeline-model-parallel-layout', 'Ett|tttt|ttttt|tttL')]
    >>> stage_rows(m, Plan(pipeline_parallel=2, stage_layers=(8, 6)))
    [('--decoder-first-pipeline-num-layers', 8)]
    """
    p, layers = plan, plan.stage_layers
    interleaved: list[Row] = []
    if p.virtual_stages > 1:
        interleaved = [("--num-virtual-stages-per-pipeline-rank", p.virtual_stages)]
    if len(set(layers)) == 1:
        return interleaved
    first: Row = ("--decoder-first-pipeline-num-layers", layers[0])
    last: Row = ("--decoder-last-pipeline-num-layers", layers[-1])
    if min(layers) > 0:
        for counts, rest in (([first], layers[1:]), ([last], layers[:-1]), ([first, last], layers[1:-1])):
            if len(set(rest)) == 1:
                return [*counts, *interleaved]
    return [("--pipeline-model-parallel-layout", stage_layout(layers, p.virtual_stages, model.mtp_num_layers))]


def stage_layout(layers: tuple[int, ...], virtual_stages: int, mtp_layers: int = 0) -> str:
    """Megatron's layout string; chunks of one rank are `len(layers)` places apart. E embedding, t layer, m MTP, L loss.

    >>> stage_layout((2, 4), 2)
    'Et|tt|t|ttL'
    """
    chunks = ["t" * (n // virtual_stages) for _ in range(virtual_stages) for n in layers]
    chunks[0] = "E" + chunks[0]
    chunks[-1] += "m" * mtp_layers + "L"
    return "|".join(chunks)


def recompute_rows(model: ModelSpec, plan: Plan) -> list[Row]:
    """Activation recomputation.

    >>> from autotune.load import load_model
    >>> recompute_rows(load_model("gpt-175b"), Plan(recompute="full", recompute_num_layers=3, stage_layers=(8,)))
    [('--recompute-granularity', 'full'), ('--recompute-method', 'block'), ('--recompute-num-layers', 3)]
    """
    if plan.recompute == "selective":
        return [("--recompute-granularity", "selective"), ("--recompute-modules", *selective_modules(model, plan.stack))]
    count = recomputed_layers(plan)
    if not count:
        return []
    if count == chunk_layers(plan):
        return [("--recompute-granularity", "full"), ("--recompute-method", "uniform"), ("--recompute-num-layers", 1)]
    return [("--recompute-granularity", "full"), ("--recompute-method", "block"), ("--recompute-num-layers", count)]


def optimizer_rows(plan: Plan) -> list[Row]:
    """Sharding of optimizer state, gradients and weights over data parallel ranks."""
    p = plan
    rows: list[Row] = [("--optimizer", "adam")]
    shared = p.data_parallel * p.context_parallel > 1
    if p.zero_stage >= 2:
        strategy = {2: "optim_grads", 3: "optim_grads_params"}[p.zero_stage]
        rows += [("--use-megatron-fsdp",), ("--use-distributed-optimizer",), ("--data-parallel-sharding-strategy", strategy)]
        rows += [("--no-gradient-accumulation-fusion",), ("--ckpt-format", "fsdp_dtensor")]
    elif p.zero_stage == 1:
        rows += [("--use-distributed-optimizer",), ("--ckpt-format", "torch_dist")]
    else:
        rows.append(("--ckpt-format", "torch_dist"))
    if shared:
        rows.append(("--overlap-grad-reduce",))
        if p.zero_stage >= 1:
            rows.append(("--overlap-param-gather",))
    return rows


def batch_rows(plan: Plan) -> list[Row]:
    """Batch sizes."""
    return [("--micro-batch-size", plan.micro_batch_size), ("--global-batch-size", plan.global_batch_size)]


def precision_rows(model: ModelSpec) -> list[Row]:
    """Number formats and kernels."""
    rows: list[Row] = [("--transformer-impl", "transformer_engine"), ("--attention-backend", "auto")]
    if model.training.precision == "fp16":
        return [("--fp16",), *rows]
    rows = [("--bf16",), *rows]
    if model.training.precision == "fp8":
        rows += [("--fp8-format", "hybrid"), ("--fp8-recipe", "delayed"), ("--fp8-amax-history-len", 1024)]
        rows += [("--fp8-amax-compute-algo", "max")]
    return rows
