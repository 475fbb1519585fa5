"""What a parameter costs in memory when training is not the stack's usual: other moments, no master weights, adapters."""

from __future__ import annotations

from typing import Any

from autotune.constants import model_constants
from autotune.specs import ModelSpec
from costmodels.adapters import adapter_parameters
from costmodels.parameters import total_parameters
from costmodels.types import Stack

MOMENT_BYTES = {"fp32": 8.0, "bf16": 4.0, "8bit": 2.0}  # both Adam moments
MASTER_BYTES = 4.0
SIXTEEN_BIT = 2.0


def training_stack(stack: Stack, model: ModelSpec) -> Stack:
    """A stack's constants for the way `model` is trained.

    Without master weights, weights and gradients are 16-bit (pure bf16). With adapters everything but they is frozen:
    gradients, optimizer and their traffic shrink to the adapters' share, and backward skips the weight gradients.

    >>> from autotune.constants import stack_constants
    >>> from autotune.load import load_model
    >>> m = load_model("llama-3-8b")
    >>> t = m.training.model_copy(update={"master_weights": False, "optimizer_moments": "8bit"})
    >>> s = training_stack(stack_constants("megatron-core"), m.model_copy(update={"training": t}))
    >>> s.weight_memory_bytes + s.grad_memory_bytes + s.optimizer_memory_bytes
    6.0
    """
    stack = _precision_of_states(stack, model)
    share = trained_share(model)
    if share >= 1.0:
        return stack
    return stack._replace(
        trained_share=share,
        weight_memory_bytes=stack.weight_memory_bytes * (1.0 + share),
        grad_memory_bytes=stack.grad_memory_bytes * share,
        optimizer_memory_bytes=stack.optimizer_memory_bytes * share,
        bucket_memory_bytes=stack.bucket_memory_bytes * share,
        head_temp_bytes=0.0,
        grad_bytes=stack.grad_bytes * share,
        grad_accum_bytes=stack.grad_accum_bytes * share,
        optimizer_bytes=stack.optimizer_bytes * share,
    )


def _precision_of_states(stack: Stack, model: ModelSpec) -> Stack:
    training = model.training
    if training.master_weights is None and training.optimizer_moments is None:
        return stack
    # A stack that keeps 16-bit weights has its master copy in the optimizer, one with fp32 weights has it in the weights.
    master_in_weights = stack.weight_memory_bytes >= MASTER_BYTES
    master = training.master_weights is not False
    moments = MOMENT_BYTES[training.optimizer_moments or ("fp32" if master else "bf16")]
    changes: dict[str, Any] = {"optimizer_memory_bytes": moments + (MASTER_BYTES if master and not master_in_weights else 0.0)}
    if not master:
        changes |= {"weight_memory_bytes": SIXTEEN_BIT, "grad_memory_bytes": SIXTEEN_BIT}
    return stack._replace(**changes)


def trained_share(model: ModelSpec) -> float:
    """Trained over all parameters: 1, or the adapters' share with `training.lora_rank`.

    >>> from autotune.load import load_model
    >>> m = load_model("qwen2.5-7b")
    >>> round(trained_share(m.model_copy(update={"training": m.training.model_copy(update={"lora_rank": 8})})), 5)
    0.00265
    """
    rank = model.training.lora_rank
    if rank is None:
        return 1.0
    numbers = model_constants(model)
    return min(1.0, int(adapter_parameters(numbers, rank)) / int(total_parameters(numbers)))
