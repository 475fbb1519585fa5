"""Rules among Megatron's flags that a plan does not show: what the parser or the configuration classes refuse.

After `arguments.py` and `transformer_config.py` of megatron-core 0.17 to 0.19.
"""

from __future__ import annotations

from collections.abc import Callable

from autotune.reader.flags import Flags
from autotune.reader.megatron_args import SIGNS
from autotune.reader.recovered import Recovered

_MODULES = ("core_attn", "moe_act", "layernorm", "mlp", "moe", "mla_up_proj", "shared_experts", "gdn_norm_out")
Check = Callable[[Recovered, Flags], str | None]


def check(found: Recovered, flags: Flags) -> None:
    """Add every broken rule to `found.violations`."""
    for name, rule in _RULES:
        message = rule(found, flags)
        if message:
            found.violate(name, message)
    if found.plan.get("tensor_parallel", 1) > 1 or (found.plan.get("context_parallel") or 1) > 1:
        _connections(found)


def _connections(found: Recovered) -> None:
    value = found.launch.get("cuda_device_max_connections")
    if value != "1" and found.kind == "megatron":
        said = f"is {value}" if value else "is not set"
        found.note(f"CUDA_DEVICE_MAX_CONNECTIONS {said}: before Blackwell, Megatron wants 1 with tensor or context parallelism")


def _two_precisions(_: Recovered, flags: Flags) -> str | None:
    return "--fp16 and --bf16 exclude each other" if flags.on("fp16") and flags.on("bf16") else None


def _no_micro_batch(found: Recovered, flags: Flags) -> str | None:
    if flags.has("micro_batch_size", "batch_size", "use_dynamic_batch_size", "use_checkpoint_args") or found.missing:
        return None
    return "--micro-batch-size is required"


def _param_gather(_: Recovered, flags: Flags) -> str | None:
    if not flags.on("overlap_param_gather") or flags.on("use_megatron_fsdp", "use_torch_fsdp2"):
        return None
    needed = [n for n in ("use_distributed_optimizer", "overlap_grad_reduce") if not flags.on(n)]
    return f"--overlap-param-gather needs {' and '.join('--' + n.replace('_', '-') for n in needed)}" if needed else None


def _tensor_overlap(_: Recovered, flags: Flags) -> str | None:
    return "--tp-comm-overlap needs --sequence-parallel" if flags.on("tp_comm_overlap") and not flags.on("sequence_parallel") else None


def _full_without_method(_: Recovered, flags: Flags) -> str | None:
    if (flags.text("recompute_granularity") or "") == "full" and not flags.text("recompute_method"):
        return "--recompute-granularity full needs --recompute-method (uniform or block) and --recompute-num-layers"
    return None


def _selective_with_method(_: Recovered, flags: Flags) -> str | None:
    if (flags.text("recompute_granularity") or "") == "selective" and flags.text("recompute_method"):
        return "--recompute-granularity selective takes no --recompute-method"
    return None


def _selective_with_layers(_: Recovered, flags: Flags) -> str | None:
    if (flags.text("recompute_granularity") or "") == "selective" and flags.has("recompute_num_layers"):
        return "--recompute-granularity selective takes no --recompute-num-layers"
    return None


def _modules(_: Recovered, flags: Flags) -> str | None:
    modules = [m for v in flags.values("recompute_modules") for m in v.split()]
    unknown = [m for m in modules if m not in _MODULES]
    if unknown and flags.has("recompute_granularity"):
        return f"--recompute-modules knows no {', '.join(unknown)}; known are {', '.join(_MODULES)}"
    if "moe_act" in modules and flags.has("recompute_granularity") and not flags.on("moe_grouped_gemm"):
        return "--recompute-modules moe_act needs --moe-grouped-gemm"
    return "--recompute-modules mla_up_proj needs --multi-latent-attention" if "mla_up_proj" in modules and not flags.on("multi_latent_attention") else None


def _chunk_group(found: Recovered, flags: Flags) -> str | None:
    group = flags.number(found, "microbatch_group_size_per_virtual_pipeline_stage", wanted=False)
    batches, stages = found.plan.get("gradient_accumulation"), found.plan.get("pipeline_parallel", 1)
    if not group or not batches or not found.plan.get("virtual_stages"):
        return None
    found.launch["chunk_group"] = group
    if group < stages or group > batches:
        return f"--microbatch-group-size-per-virtual-pipeline-stage {group} must lie between pipeline_parallel {stages} and the {batches} micro-batches"
    if batches % group and batches % group < stages:
        return f"{batches} micro-batches in groups of {group} leave {batches % group}, fewer than pipeline_parallel {stages}"
    return None


def _optimizer_instances(found: Recovered, flags: Flags) -> str | None:
    number = flags.number(found, "num_distributed_optimizer_instances", wanted=False)
    ranks = (found.plan.get("data_parallel") or 1) * (found.plan.get("context_parallel") or 1)
    return f"--num-distributed-optimizer-instances {number} does not divide the {ranks} data and context parallel ranks" if number and ranks % number else None


def _megatron_fsdp(found: Recovered, flags: Flags) -> str | None:
    if not flags.on("use_megatron_fsdp"):
        return None
    if flags.text("ckpt_format") != "fsdp_dtensor":
        return "--use-megatron-fsdp needs --ckpt-format fsdp_dtensor"
    return "--use-megatron-fsdp: CUDA_DEVICE_MAX_CONNECTIONS must not be 1" if found.launch.get("cuda_device_max_connections") == "1" else None


def _aware_optimizer(_: Recovered, flags: Flags) -> str | None:
    if flags.on("use_precision_aware_optimizer") and not flags.on("use_distributed_optimizer", "use_megatron_fsdp"):
        return "--use-precision-aware-optimizer needs --use-distributed-optimizer"
    return None


def _abbreviated(_: Recovered, flags: Flags) -> str | None:
    for name in flags.table:
        full = [k for k in SIGNS if k.startswith(name) and k != name]
        if full and name not in SIGNS and len(name) >= 6:
            return f"--{name.replace('_', '-')} is no flag of the parser, and it takes no abbreviations; --{full[0].replace('_', '-')} is meant"
    return None


def _expert_width(found: Recovered, flags: Flags) -> str | None:
    return "--moe-ffn-hidden-size is given, but there are no experts" if flags.has("moe_ffn_hidden_size") and not found.model.get("num_experts") else None


def _top_one(found: Recovered, flags: Flags) -> str | None:
    softmax = (flags.text("moe_router_score_function") or "softmax") == "softmax" and not flags.on("moe_router_pre_softmax")
    if found.model.get("num_experts") and flags.text("moe_router_topk") == "1" and softmax:
        return "--moe-router-topk 1 with softmax needs --moe-router-pre-softmax"
    return None


def _deepep(_: Recovered, flags: Flags) -> str | None:
    if flags.on("moe_enable_deepep") and flags.text("moe_token_dispatcher_type") != "flex":
        return "--moe-enable-deepep needs --moe-token-dispatcher-type flex"
    return None


def _expert_overlap(found: Recovered, flags: Flags) -> str | None:
    if not flags.on("overlap_moe_expert_parallel_comm"):
        return None
    if (found.plan.get("expert_parallel") or 1) == 1:
        return "--overlap-moe-expert-parallel-comm needs expert parallelism"
    if (flags.text("moe_token_dispatcher_type") or "allgather") not in ("alltoall", "flex"):
        return "--overlap-moe-expert-parallel-comm needs the alltoall or flex dispatcher"
    if found.plan.get("pipeline_parallel", 1) > 1 and not found.plan.get("virtual_stages"):
        return "--overlap-moe-expert-parallel-comm with pipeline parallelism needs virtual stages"
    return "--overlap-moe-expert-parallel-comm excludes full recomputation" if found.plan.get("recompute") == "full" else None


def _torch_fsdp(found: Recovered, flags: Flags) -> str | None:
    if not flags.on("use_torch_fsdp2"):
        return None
    for key in ("pipeline_parallel", "expert_parallel"):
        if (found.plan.get(key) or 1) > 1:
            return f"--use-torch-fsdp2 needs {key} 1"
    if flags.on("use_distributed_optimizer"):
        return "--use-torch-fsdp2 excludes --use-distributed-optimizer"
    return "--use-torch-fsdp2 needs --untie-embeddings-and-output-weights" if not flags.on("untie_embeddings_and_output_weights") else None


def _mla_groups(_: Recovered, flags: Flags) -> str | None:
    if flags.on("multi_latent_attention") and flags.on("group_query_attention"):
        return "--multi-latent-attention excludes --group-query-attention"
    return None


def _optimizer_offload(_: Recovered, flags: Flags) -> str | None:
    if flags.on("optimizer_cpu_offload") and not flags.on("use_precision_aware_optimizer"):
        return "--optimizer-cpu-offload needs --use-precision-aware-optimizer"
    return None


def _activation_offload(found: Recovered, flags: Flags) -> str | None:
    if flags.on("cpu_offloading") and (found.plan.get("pipeline_parallel", 1) > 1 or found.plan.get("recompute", "none") != "none"):
        return "--cpu-offloading needs pipeline_parallel 1 and no recomputation"
    return None


def _saved_activations(found: Recovered, flags: Flags) -> str | None:
    if not flags.on("distribute_saved_activations"):
        return None
    if found.plan.get("tensor_parallel", 1) == 1 or flags.on("sequence_parallel"):
        return "--distribute-saved-activations needs tensor parallelism and excludes --sequence-parallel"
    return None


def _all_to_all(found: Recovered, flags: Flags) -> str | None:
    context, tensor = found.plan.get("context_parallel") or 1, found.plan.get("tensor_parallel") or 1
    heads = found.model.get("num_attention_heads")
    if context == 1 or "a2a" not in flags.values("cp_comm_type") or not heads:
        return None
    groups = found.model.get("num_query_groups") or heads
    for what, count in (("attention heads", heads), ("KV heads", groups)):
        if (count // tensor) % context:
            return f"--cp-comm-type a2a: the {count // tensor} {what} of a tensor rank are not a multiple of context_parallel {context}"
    return None


_RULES: tuple[tuple[str, Check], ...] = (
    ("precision", _two_precisions), ("micro_batch_missing", _no_micro_batch), ("overlap_param_gather", _param_gather), ("tp_comm_overlap", _tensor_overlap),
    ("recompute_method", _full_without_method), ("recompute_method", _selective_with_method), ("recompute_layers", _selective_with_layers), ("recompute_modules", _modules),
    ("chunk_group", _chunk_group), ("optimizer_instances", _optimizer_instances), ("megatron_fsdp", _megatron_fsdp), ("precision_aware_optimizer", _aware_optimizer),
    ("abbreviated_flag", _abbreviated), ("expert_width_without_experts", _expert_width),
    ("router_topk", _top_one), ("dispatcher", _deepep), ("expert_overlap", _expert_overlap), ("torch_fsdp", _torch_fsdp), ("attention", _mla_groups),
    ("optimizer_offload", _optimizer_offload), ("activation_offload", _activation_offload), ("saved_activations", _saved_activations), ("context_all_to_all", _all_to_all),
)
