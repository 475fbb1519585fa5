"""What selective recompute re-runs, by framework and model."""

from __future__ import annotations

from autotune.constants import stack_constants
from autotune.specs import ModelSpec


def selective_modules(model: ModelSpec, stack: str) -> tuple[str, ...]:
    """Megatron's module names for `recompute: selective`, as the cost model counts it.

    Where attention keeps its score tensor, core attention is what is worth re-running (Korthikanti et al. 2022). Fused
    attention keeps no scores; there the norms, the experts' activation and the MLA up-projections are.

    >>> from autotune.load import load_model
    >>> selective_modules(load_model("gpt-175b"), "megatron-2022")
    ('core_attn',)
    >>> selective_modules(load_model("deepseek-v3"), "megatron-core")
    ('layernorm', 'moe_act', 'mla_up_proj')
    """
    if stack_constants(stack).selective_core:
        return ("core_attn",)
    modules = ["layernorm"]
    if model.num_experts:
        modules.append("moe_act")
    if model.multi_latent_attention:
        modules.append("mla_up_proj")
    return tuple(modules)
