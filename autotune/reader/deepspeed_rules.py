"""What a current DeepSpeed (0.19) refuses in its configuration, and what it silently ignores."""

from __future__ import annotations

import difflib
from typing import Any

from autotune.reader.deepspeed_json import ZERO_KEYS
from autotune.reader.recovered import Recovered

# Blocks whose unknown keys are refused, with the keys they know.
_BLOCKS: dict[str, tuple[str, ...]] = {
    "zero_optimization": tuple(ZERO_KEYS),
    "fp16": (
        "enabled", "auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis", "min_loss_scale",
        "fp16_master_weights_and_grads",
    ),
    "bf16": ("enabled", "immediate_grad_update", "check_grad_overflow", "bf16_master_weights_and_grads", "bf16_optimizer_states"),
    "tensor_parallel": (
        "dtype", "autotp_size", "tp_overlap_comm", "tensor_parallel", "injection_policy_tuple", "keep_module_on_host", "replace_with_kernel_inject",
        "tp", "tp_grain_size", "preset_model", "partition_config",
    ),
}  # fmt: skip
_TOP_TEXT = (
    "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps optimizer scheduler fp16 bf16 bfloat16 amp gradient_clipping "
    "zero_optimization zero_allow_untested_optimizer zero_force_ds_cpu_optimizer communication_data_type prescale_gradients gradient_predivide_factor "
    "sparse_gradients steps_per_print wall_clock_breakdown dump_state flops_profiler activation_checkpointing tensorboard wandb comet csv_monitor "
    "comms_logger compression_training data_efficiency data_types data_sampling aio nebula checkpoint pipeline compile hybrid_engine tensor_parallel "
    "sequence_parallel_size timers autotuning memory_breakdown disable_allgather graph_harvesting seq_parallel_communication_data_type weight_quantization "
    "dataloader_drop_last gradient_accumulation_dtype use_data_before_expert_parallelism monitor_config elasticity sparse_attention eigenvalue "
    "curriculum_learning progressive_layer_drop torch_autocast expert_parallel"
)
_TOP = tuple(_TOP_TEXT.split())
_PIPELINE = ("stages", "partition", "seed_layers", "activation_checkpoint_interval", "pipe_partitioned", "grad_partitioned", "use_reentrant")
_DEVICES = ("none", "cpu", "nvme", "auto")
_TYPES = ("fp16", "bf16", "bfloat16", "fp32")


def check(found: Recovered, config: dict[str, Any]) -> None:
    """Add refusals to `found.violations` and ignored keys to its notes."""
    for block, known in _BLOCKS.items():
        part = config.get(block)
        for key in part if isinstance(part, dict) else ():
            if key not in known:
                found.violate("unknown_key", f"{block}.{key} is refused: DeepSpeed has no such key{_hint(key, known)}")
    for key in config:
        if key not in _TOP:
            found.note(f"{key} is no key of DeepSpeed and is ignored without a word{_hint(key, _TOP)}")
    pipeline = config.get("pipeline")
    for key in pipeline if isinstance(pipeline, dict) else ():
        if key not in _PIPELINE:
            found.note(f"pipeline.{key} is no key of DeepSpeed and is ignored without a word{_hint(key, _PIPELINE)}")
    kind = config.get("communication_data_type")
    if kind is not None and kind not in _TYPES:
        found.violate("communication_data_type", f"communication_data_type must be one of {', '.join(_TYPES)}, got {kind!r}", communication_data_type=["bf16"])
    autos = [k for k in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps") if config.get(k) == "auto"]
    if autos:
        found.note(f"{', '.join(autos)}: auto is filled in by the Hugging Face trainer only; DeepSpeed itself fails on it")
    zero = config.get("zero_optimization")
    if isinstance(zero, dict):
        _offload(found, zero)


def _offload(found: Recovered, zero: dict[str, Any]) -> None:
    for part in ("offload_optimizer", "offload_param"):
        block = zero.get(part)
        if not isinstance(block, dict):
            continue
        device, ratio = block.get("device", "none"), block.get("ratio")
        if device not in _DEVICES:
            found.violate("offload_device", f"{part}.device must be none, cpu or nvme, got {device!r}")
        if isinstance(ratio, int | float) and ratio < 1 and zero.get("stage") != 3:
            found.violate("offload_ratio", f"{part}.ratio below 1 needs ZeRO stage 3", zero_stage=[3])


def _hint(key: str, known: tuple[str, ...] | list[str]) -> str:
    close = difflib.get_close_matches(str(key), known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
