"""Target `megatron-bridge`: overrides for a Megatron-Bridge recipe (NeMo's successor), and a driver that applies them.

The recipe supplies the provider class, optimizer and data of a model family; the overrides set the architecture, the degrees, the
split, the batch and the sharding of the plan. Field names are those of Megatron Core's configuration classes.
"""

from __future__ import annotations

from typing import Any

from autotune.emit import launchers, megatron, megatron_flags, nccl
from autotune.emit.base import Files, Options, Target, chunk_layers, recomputed_layers, refuse
from autotune.emit.job import Job, header, layout, name_of
from autotune.emit.render import render
from autotune.emit.shell import Raw, comment
from autotune.plan import Plan
from autotune.recompute import selective_modules
from autotune.specs import ClusterSpec, ModelSpec
from autotune.yaml_lines import dump_yaml

VERSIONS = "Megatron-Bridge 0.3 to 0.6"
PRECISION = {"bf16": "bf16_mixed", "fp16": "fp16_mixed", "fp8": "bf16_with_fp8_delayed_scaling_mixed"}


def overrides(model: ModelSpec, plan: Plan) -> dict[str, Any]:
    """The document that is merged over the recipe.

    >>> m = ModelSpec(name="m", num_layers=4, hidden_size=64, num_attention_heads=4, vocab_size=128, seq_length=64)
    >>> o = overrides(m, Plan(tensor_parallel=2, data_parallel=2, global_batch_size=8, stage_layers=(4,)))
    >>> o["model"]["tensor_model_parallel_size"], o["train"]["global_batch_size"], o["ddp"]["use_distributed_optimizer"]
    (2, 8, True)
    """
    p = plan
    fsdp = p.zero_stage >= 2
    shared = p.data_parallel * p.context_parallel > 1
    return {
        "model": {**_architecture(model), **_experts(model, plan), **_parallel(model, plan), **_recompute(model, plan)},
        "train": {"micro_batch_size": p.micro_batch_size, "global_batch_size": p.global_batch_size},
        "ddp": {
            "use_distributed_optimizer": p.zero_stage >= 1,
            "overlap_grad_reduce": shared,
            "overlap_param_gather": shared and p.zero_stage >= 1,
            "use_megatron_fsdp": fsdp,
            "data_parallel_sharding_strategy": {2: "optim_grads", 3: "optim_grads_params"}.get(p.zero_stage, "no_shard"),
        },
        "optimizer": {"use_distributed_optimizer": p.zero_stage >= 1},
        "dist": {"use_tp_pp_dp_mapping": p.rank_order == "tp-cp-ep-pp-dp", "use_megatron_fsdp": fsdp},
        "checkpoint": {"ckpt_format": "fsdp_dtensor" if fsdp else "torch_dist"},
    }


def _architecture(m: ModelSpec) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "num_layers": m.num_layers,
        "hidden_size": m.hidden_size,
        "ffn_hidden_size": m.ffn,
        "num_attention_heads": m.num_attention_heads,
        "kv_channels": m.head_dim,
        "seq_length": m.seq_length,
        "vocab_size": m.vocab_size,
        "make_vocab_size_divisible_by": m.make_vocab_size_divisible_by,
        "normalization": m.normalization,
        "position_embedding_type": m.position_embedding_type,
        "rotary_base": m.rotary_base,
        "gated_linear_unit": m.swiglu,
        "add_bias_linear": m.add_bias_linear,
        "add_qkv_bias": m.add_qkv_bias,
        "qk_layernorm": m.qk_layernorm,
        "share_embeddings_and_output_weights": not m.untie_embeddings_and_output_weights,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
    }
    if m.multi_latent_attention:
        for name in ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"):
            fields[name] = getattr(m, name)
    else:
        fields["num_query_groups"] = m.kv_heads
    if m.attention_sinks:
        fields["softmax_type"] = "learnable"
    if m.window_size:
        fields["window_size"] = [m.window_size - 1, 0]
    if m.mtp_num_layers:
        fields["mtp_num_layers"] = m.mtp_num_layers
    return fields


def _experts(m: ModelSpec, p: Plan) -> dict[str, Any]:
    if not m.num_experts:
        return {}
    dense, freq = m.first_k_dense, m.moe_layer_freq
    fields: dict[str, Any] = {
        "num_moe_experts": m.num_experts,
        "moe_ffn_hidden_size": m.expert_ffn,
        "moe_router_topk": m.moe_router_topk,
        "moe_layer_freq": [int(i >= dense and (i - dense) % freq == 0) for i in range(m.num_layers)],
        "moe_grouped_gemm": True,
        "moe_token_dispatcher_type": "alltoall",
        "expert_model_parallel_size": p.expert_parallel,
        "expert_tensor_parallel_size": p.expert_tensor_parallel,
    }
    if m.moe_shared_expert_intermediate_size:
        fields["moe_shared_expert_intermediate_size"] = m.moe_shared_expert_intermediate_size
    if m.moe_router_bias == "expert":
        fields |= {"moe_router_enable_expert_bias": True, "moe_router_score_function": "sigmoid"}
    if m.moe_router_num_groups:
        fields |= {"moe_router_num_groups": m.moe_router_num_groups, "moe_router_group_topk": m.moe_router_group_topk or 1}
    if m.moe_capacity_factor:
        fields["moe_expert_capacity_factor"] = m.moe_capacity_factor
    return fields


def _parallel(m: ModelSpec, p: Plan) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "tensor_model_parallel_size": p.tensor_parallel,
        "pipeline_model_parallel_size": p.pipeline_parallel,
        "context_parallel_size": p.context_parallel,
        "sequence_parallel": p.sequence_parallel and p.tensor_parallel > 1,
        "virtual_pipeline_model_parallel_size": p.virtual_stages if p.virtual_stages > 1 else None,
        "pipeline_model_parallel_layout": None,
        "num_layers_in_first_pipeline_stage": None,
        "num_layers_in_last_pipeline_stage": None,
    }
    # The same three forms as Megatron's arguments: nothing, first and last counts, or a layout.
    for name, value in (row[:2] for row in megatron_flags.stage_rows(m, p) if len(row) == 2):
        if name == "--pipeline-model-parallel-layout":
            fields["pipeline_model_parallel_layout"] = value
        elif name == "--decoder-first-pipeline-num-layers":
            fields["num_layers_in_first_pipeline_stage"] = value
        elif name == "--decoder-last-pipeline-num-layers":
            fields["num_layers_in_last_pipeline_stage"] = value
    return fields


def _recompute(model: ModelSpec, p: Plan) -> dict[str, Any]:
    count = recomputed_layers(p)
    if p.recompute == "selective":
        return {
            "recompute_granularity": "selective",
            "recompute_modules": list(selective_modules(model, p.stack)),
            "recompute_method": None,
            "recompute_num_layers": None,
        }
    if not count:
        return {"recompute_granularity": None, "recompute_method": None, "recompute_num_layers": None}
    every = count == chunk_layers(p)
    return {
        "recompute_granularity": "full",
        "recompute_method": "uniform" if every else "block",
        "recompute_num_layers": 1 if every else count,
    }


def build(cluster: ClusterSpec, model: ModelSpec, plan: Plan, options: Options) -> Files:
    """`overrides.yaml`, `pretrain.py` and the launcher's files."""
    refuse(megatron.problems(model, plan))
    where = layout(cluster, plan)
    lines = header("megatron-bridge", VERSIONS, cluster, model, plan)
    yaml = "".join(f"# {comment(line)}\n" for line in lines) + dump_yaml(overrides(model, plan))
    files = {"overrides.yaml": yaml, "pretrain.py": render("bridge_pretrain.py.j2", header=lines, precision=PRECISION[model.training.precision])}
    job = Job(
        name=name_of(model, plan),
        header=[*lines, "Set RECIPE to module:function of a recipe of this model's family; arguments are Hydra overrides."],
        layout=where,
        program=Raw('"$here/pretrain.py"'),
        arguments=[],
        environment=nccl.environment(cluster, plan, where, megatron.max_connections(plan, nccl.is_blackwell(cluster))),
        site=cluster.launch,
        optional='export RECIPE="${RECIPE:?set RECIPE, e.g. megatron.bridge.recipes.llama:llama3_8b_pretrain_config}"',
        attachments=files,
        amd=nccl.is_amd(cluster),
    )
    return files | launchers.files(options.launcher or TARGET.launchers[0], job)


TARGET = Target("megatron-bridge", "Megatron-Bridge (NeMo)", VERSIONS, ("torchrun", "slurm", "pdsh", "kubernetes"), build)
