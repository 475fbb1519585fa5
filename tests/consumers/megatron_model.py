"""Builds the real GPTModel of one rank on the meta device and counts its parameters. Runs inside the Megatron worker."""

from __future__ import annotations

import functools
from typing import Any


def build_model(args: Any) -> dict[str, Any]:
    """Parameters of the real GPTModel of this rank, built on the meta device."""
    import megatron.core.parallel_state as state
    import megatron.training.arguments as arguments
    import torch
    from megatron.core.models.gpt import GPTModel, gpt_layer_specs

    config = arguments.core_transformer_config_from_args(args)
    # Kernels are not needed for counting, and none of these changes a shape.
    for name, value in {
        "use_cpu_initialization": True, "perform_initialization": False, "persist_layer_norm": False,
        "memory_efficient_layer_norm": False, "sequence_parallel": False, "context_parallel_size": 1, "moe_grouped_gemm": False,
        "apply_rope_fusion": False, "gradient_accumulation_fusion": False,
    }.items():  # fmt: skip
        setattr(config, name, value)
    torch.cuda.Stream = lambda *a, **k: None
    torch.Tensor.cuda = lambda self, *a, **k: self
    pipeline_rank = state.get_pipeline_model_parallel_rank()
    stages = args.pipeline_model_parallel_size
    chunks = args.virtual_pipeline_model_parallel_size or 1
    unit = args.make_vocab_size_divisible_by * args.tensor_model_parallel_size
    vocab = args.padded_vocab_size or -(-args.vocab_size // unit) * unit
    dense = expert = 0
    for chunk in range(chunks):
        vp_stage = chunk if chunks > 1 else None
        if args.num_experts:
            spec = gpt_layer_specs.get_gpt_decoder_block_spec(
                config, use_transformer_engine=False, normalization=args.normalization, vp_stage=vp_stage, pp_rank=pipeline_rank
            )
        else:
            spec = gpt_layer_specs.get_gpt_layer_local_spec(
                None, False, args.qk_layernorm, args.multi_latent_attention, normalization=args.normalization
            )
        with torch.device("meta"):
            model = GPTModel(
                config=config,
                transformer_layer_spec=_without_core_attention(spec),
                vocab_size=vocab,
                max_sequence_length=args.max_position_embeddings,
                pre_process=pipeline_rank == 0 and chunk == 0,
                post_process=pipeline_rank == stages - 1 and chunk == chunks - 1,
                share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
                position_embedding_type=args.position_embedding_type,
                rotary_percent=args.rotary_percent,
                rotary_base=args.rotary_base,
                vp_stage=vp_stage,
            )
        for parameter in model.parameters():
            if getattr(parameter, "allreduce", True):
                dense += parameter.numel()
            else:
                expert += parameter.numel()
    return {"dense": dense, "expert": expert, "padded_vocab": vocab}


def _without_core_attention(spec: Any) -> Any:
    """Core attention holds no parameters but the learned sinks, and its kernels are not here."""
    import torch

    class NoCore(torch.nn.Module):
        def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
            super().__init__()
            if config.softmax_type == "learnable":
                self.softmax_offset = torch.nn.Parameter(torch.empty(config.num_attention_heads // config.tensor_model_parallel_size))

    for layer in getattr(spec, "layer_specs", None) or [spec]:
        parts = layer.submodules.self_attention.submodules
        parts.core_attention = NoCore
        if hasattr(parts, "linear_kv_down_proj"):
            parts.linear_q_down_proj = parts.linear_kv_down_proj = _duplicated_linear()
    return spec


@functools.cache
def _duplicated_linear() -> Any:
    """Stands for Transformer Engine's TELinear, which holds latent attention's down projections whole on every tensor rank."""
    import megatron.core.transformer.multi_latent_attention as latent
    import torch

    class Duplicated(torch.nn.Module):
        def __init__(self, input_size: int, output_size: int, *, parallel_mode: str, **kwargs: Any) -> None:
            super().__init__()
            assert parallel_mode == "duplicated" and not kwargs["bias"]
            self.weight = torch.nn.Parameter(torch.empty(output_size, input_size))

    latent.TELinear = Duplicated
    return Duplicated
