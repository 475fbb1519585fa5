"""Models and randomly drawn plans, legal and illegal, for the conformance tests."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from autotune.legality import balanced_stage_layers
from autotune.plan import RANK_ORDERS, Plan
from autotune.specs import ClusterSpec, GpuSpec, ModelSpec

H100 = GpuSpec(name="H100-80GB-SXM", memory_GiB=80, hbm_GBps=3350, bf16_TFLOPS=989, scale_up_GBps=450)


def cluster(gpus: int, fabric: str = "rail-only", **more: Any) -> ClusterSpec:
    """An H100 cluster."""
    return ClusterSpec(name="h100", gpu=H100, gpus=gpus, network={"fabric": fabric}, **more)  # type: ignore[arg-type]


_LLAMA = {"swiglu": True, "normalization": "RMSNorm", "add_bias_linear": False, "untie_embeddings_and_output_weights": True}


def _model(name: str, **fields: Any) -> ModelSpec:
    return ModelSpec(name=name, **fields)


MODELS = {
    m.name: m
    for m in (
        _model("gpt-like", num_layers=24, hidden_size=1024, num_attention_heads=16, vocab_size=50257, seq_length=2048,
               position_embedding_type="learned_absolute"),
        _model("llama-like", num_layers=32, hidden_size=4096, num_attention_heads=32, num_query_groups=8, ffn_hidden_size=11008,
               vocab_size=32000, seq_length=4096, **_LLAMA),
        _model("wide-heads", num_layers=40, hidden_size=5120, num_attention_heads=40, num_query_groups=8, kv_channels=96,
               ffn_hidden_size=13824, vocab_size=151936, seq_length=6144, add_qkv_bias=True, qk_layernorm=True, **_LLAMA),
        _model("multi-query", num_layers=18, hidden_size=2048, num_attention_heads=8, num_query_groups=1, kv_channels=256,
               ffn_hidden_size=16384, vocab_size=256000, seq_length=8192, **{**_LLAMA, "untie_embeddings_and_output_weights": False}),
        _model("experts", num_layers=32, hidden_size=2048, num_attention_heads=16, num_query_groups=8, ffn_hidden_size=7168,
               vocab_size=32000, seq_length=4096, num_experts=8, moe_router_topk=2, moe_ffn_hidden_size=7168, **_LLAMA),
        _model("shared-experts", num_layers=27, hidden_size=2048, num_attention_heads=16, num_query_groups=4, ffn_hidden_size=10944,
               vocab_size=102400, seq_length=4096, num_experts=64, moe_router_topk=6, moe_ffn_hidden_size=1408,
               moe_shared_expert_intermediate_size=2816, first_k_dense=1, qk_layernorm=True, **_LLAMA),
        _model("latent", num_layers=20, hidden_size=2048, num_attention_heads=16, ffn_hidden_size=10944, vocab_size=102400,
               seq_length=4096, multi_latent_attention=True, q_lora_rank=512, kv_lora_rank=512, qk_head_dim=128,
               qk_pos_emb_head_dim=64, v_head_dim=128, qk_layernorm=True, num_experts=32, moe_router_topk=4, moe_ffn_hidden_size=1408,
               moe_shared_expert_intermediate_size=1408, first_k_dense=2, moe_router_bias="expert", **_LLAMA),
        _model("sinks", num_layers=24, hidden_size=2880, num_attention_heads=64, num_query_groups=8, kv_channels=64,
               ffn_hidden_size=2880, vocab_size=201088, seq_length=4096, num_experts=32, moe_router_topk=4, attention_sinks=True,
               window_size=128, moe_expert_bias=True, moe_router_bias="linear", **{**_LLAMA, "add_bias_linear": True}),
        _model("alternating", num_layers=24, hidden_size=1024, num_attention_heads=16, ffn_hidden_size=4096, vocab_size=51200,
               seq_length=2048, num_experts=16, moe_router_topk=1, moe_layer_freq=2, **_LLAMA),
    )
}  # fmt: skip


def draw(source: random.Random, models: dict[str, ModelSpec] | None = None, max_gpus: int = 4096) -> tuple[ModelSpec, Plan]:
    """A model and a plan. Most are near-legal: about half are legal, the rest break one rule or several."""
    model = source.choice(list((models or MODELS).values()))
    while True:
        plan = _plan(source, model)
        if plan.gpus <= max_gpus and (plan.gpus <= 8 or plan.gpus % 8 == 0):
            return model, plan


def _plan(source: random.Random, model: ModelSpec) -> Plan:
    tp = source.choice([1, 1, 2, 2, 4, 4, 8, 8, 16, 3])
    pp = source.choice([1, 1, 2, 2, 3, 4, 4, 5, 6, 8, 12])
    cp = source.choice([1, 1, 1, 1, 2, 4, 8, 3])
    dp = source.choice([1, 2, 2, 4, 4, 8, 16, 3])
    ep, etp = 1, 1
    if model.num_experts:
        ep = source.choice([1, 2, 4, 8, 8, 16, 3])
        etp = source.choice([1, 1, 1, tp, 2])
    elif source.random() < 0.03:
        ep = 2
    ranks = tp * cp * dp
    if source.random() < 0.9:  # a stage must hold whole expert grids
        while ranks % (ep * etp):
            ep, etp = (ep // 2 or 1, etp) if ep > 1 else (1, 1)
    chunks = source.choice([1, 1, 1, 2, 2, 3, 4]) if pp > 1 else source.choice([1] * 12 + [2])
    micro = source.choice([1, 1, 2, 4])
    batches = source.choice([1, 2, pp, 2 * pp, 4 * pp, 4 * pp, 8 * pp, pp + 1])
    batch = micro * dp * batches
    if source.random() < 0.04:
        batch += 1
    zero = source.choice([0, 1, 1, 1, 1, 2, 3] if pp == 1 else [0, 1, 1, 1, 1, 1, 1, 2])
    recompute = source.choice(["none", "none", "selective", "selective", "full", "full"])
    layers = source.choice([None, 1, 2, 3]) if recompute == "full" else None
    return Plan(
        tensor_parallel=tp, pipeline_parallel=pp, data_parallel=dp, context_parallel=cp, expert_parallel=ep,
        expert_tensor_parallel=etp, virtual_stages=chunks, micro_batch_size=micro, global_batch_size=batch,
        sequence_parallel=tp > 1 and source.random() < 0.75, recompute=recompute, recompute_num_layers=layers, zero_stage=zero,
        stage_layers=_stages(source, model.num_layers, pp, chunks), rank_order=RANK_ORDERS[pp > 1 and source.random() < 0.12],
        hb_domain_size=8, fabric="rail-only",
    )  # fmt: skip


def _stages(source: random.Random, layers: int, stages: int, chunks: int) -> tuple[int, ...]:
    split = list(balanced_stage_layers(layers, stages))
    if chunks > 1 and source.random() < 0.6:  # whole chunks per stage
        split = [chunks * n for n in balanced_stage_layers(layers // chunks, stages)]
    draw = source.random()
    if stages > 1 and draw < 0.15:  # move layers about
        a, b = source.sample(range(stages), 2)
        moved = min(source.choice([1, chunks]), split[a])
        split[a], split[b] = split[a] - moved, split[b] + moved
    elif draw < 0.19:
        split[source.randrange(stages)] += 1
    return tuple(split)


_QWEN = {**_LLAMA, "qk_layernorm": True}
TITAN_MODELS = {
    m.name: m
    for m in (
        _model("llama3-8b", num_layers=32, hidden_size=4096, num_attention_heads=32, num_query_groups=8, ffn_hidden_size=14336,
               vocab_size=128256, seq_length=8192, rotary_base=500000, **_LLAMA),
        _model("qwen3-14b", num_layers=40, hidden_size=5120, num_attention_heads=40, num_query_groups=8, kv_channels=128,
               ffn_hidden_size=17408, vocab_size=151936, seq_length=4096, rotary_base=1000000, **_QWEN),
        _model("qwen3-30b-a3b", num_layers=48, hidden_size=2048, num_attention_heads=32, num_query_groups=4, kv_channels=128,
               ffn_hidden_size=6144, vocab_size=151936, seq_length=4096, rotary_base=1000000, num_experts=128, moe_router_topk=8,
               moe_ffn_hidden_size=768, **_QWEN),
    )
}  # fmt: skip


def draw_for(target: str, source: random.Random) -> tuple[ModelSpec, Plan]:
    """A model and a plan from the neighbourhood of what the target can run, so that about half are legal."""
    while True:
        model, plan = draw(source, TITAN_MODELS if target == "torchtitan" else _models_of(target), 1024)
        changes: dict[str, Any] = {}
        if target != "megatron" and source.random() < 0.9:
            changes["context_parallel"] = plan.context_parallel if target == "torchtitan" else 1
            changes["rank_order"] = RANK_ORDERS[0]
            if model.num_layers % plan.pipeline_parallel:
                changes["pipeline_parallel"] = source.choice([1, 2, 4])
            stages = changes.get("pipeline_parallel", plan.pipeline_parallel)
            changes["stage_layers"] = balanced_stage_layers(model.num_layers, stages)
            if "deepspeed" in target or stages == 1:
                changes["virtual_stages"] = 1
            if target == "torchtitan":
                changes |= {"zero_stage": source.choice([0, 2, 2, 3, 3]), "expert_tensor_parallel": 1}
                changes["recompute"] = "full" if plan.recompute == "full" else "none"
            if target in ("megatron-lm-2023", "megatron-deepspeed"):
                changes["stack"] = "megatron-2022"  # where selective means core attention, the only kind these programs have
            changes["recompute_num_layers"] = None if target != "megatron-lm-2023" else plan.recompute_num_layers
        plan = dataclasses.replace(plan, **changes)
        ranks = plan.gpus // plan.pipeline_parallel
        fits = ranks % (plan.expert_parallel * plan.expert_tensor_parallel) == 0
        if fits and (plan.gpus <= 8 or plan.gpus % 8 == 0):
            return model, plan


def _models_of(target: str) -> dict[str, ModelSpec]:
    if target == "megatron":
        return MODELS
    names = ["gpt-like", "llama-like", "multi-query"] + (["experts"] if target == "deepspeed" else [])
    return {n: MODELS[n] for n in names}
