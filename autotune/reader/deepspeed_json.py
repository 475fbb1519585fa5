"""DeepSpeed configuration: ZeRO stage, batch sizes, precision, offload; its own checks."""

from __future__ import annotations

import difflib
from typing import Any

from autotune.errors import InputError
from autotune.reader.flags import integer
from autotune.reader.recovered import Recovered

# Keys of the blocks whose unknown keys DeepSpeed refuses (0.19: runtime/zero/config.py, runtime/config.py).
ZERO_KEYS = ["stage", "contiguous_gradients", "reduce_scatter", "reduce_bucket_size", "use_multi_rank_bucket_allreduce", "allgather_partitions", "allgather_bucket_size", "overlap_comm", "load_from_fp32_weights", "elastic_checkpoint", "offload_param", "offload_optimizer", "zenflow", "sub_group_size", "cpu_offload_param", "cpu_offload_use_pin_memory", "cpu_offload", "stage3_prefetch_bucket_size", "prefetch_bucket_size", "stage3_param_persistence_threshold", "param_persistence_threshold", "stage3_model_persistence_threshold", "model_persistence_threshold", "stage3_max_live_parameters", "max_live_parameters", "stage3_max_reuse_distance", "max_reuse_distance", "stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save", "stage3_module_granularity_threshold", "module_granularity_threshold", "stage3_use_all_reduce_for_fetch_params", "use_all_reduce_for_fetch_params", "stage3_gather_fp16_weights_on_model_save", "ignore_unused_parameters", "legacy_stage1", "round_robin_gradients", "zero_hpz_partition_size", "zero_quantized_weights", "zero_quantized_nontrainable_weights", "zero_quantized_gradients", "mics_shard_size", "mics_hierarchical_params_gather", "memory_efficient_linear", "pipeline_loading_checkpoint", "override_module_apply", "log_trace_cache_warnings", "zeropp_loco_param", "leaf_module", "enable_sanity_checks", "allow_untested_optimizer", "save_muon_momentum_buffer_in_memory"]
_REMOVED = ("elasticity", "sparse_attention", "eigenvalue", "curriculum_learning", "progressive_layer_drop", "graph_harvesting")
_OPTIONAL_AUTO = "auto"


def read_text(text: str, file: str) -> dict[str, Any]:
    """The configuration of a JSON text. Duplicate keys and broken JSON are InputErrors, as DeepSpeed refuses them."""
    from autotune.yaml_lines import parse

    data = parse(text, file).data
    if not isinstance(data, dict):
        raise InputError.of("must be a JSON object with DeepSpeed's keys", file)
    return data


def apply(found: Recovered, config: dict[str, Any]) -> None:
    """Read a configuration into the plan. What is stated by flags stays; `auto` leaves a value to them."""
    plan = found.plan
    zero = config.get("zero_optimization")
    zero = zero if isinstance(zero, dict) else {"stage": 1 if zero is True else 0}
    stage = integer(zero.get("stage", 0))
    stated = plan.get("zero_stage")
    if stage is None:
        found.violate("zero_stage", f"zero_optimization.stage must be 0, 1, 2 or 3, got {zero.get('stage')!r}")
    elif not 0 <= stage <= 3:
        found.violate("zero_stage", f"zero_optimization.stage must be 0, 1, 2 or 3, got {stage}", zero_stage=[3])
    else:
        if stated is not None and stated != stage:
            found.note(f"the configuration's ZeRO stage {stage} differs from the flag's {stated}; the configuration decides")
        plan["zero_stage"] = stage
    _offload(found, zero)
    for key, name in (("train_micro_batch_size_per_gpu", "micro_batch_size"), ("gradient_accumulation_steps", "gradient_accumulation"), ("train_batch_size", "global_batch_size")):
        value = integer(config.get(key))
        if value and (plan.get(name) is None or name == "gradient_accumulation"):
            plan[name] = value
        elif value and plan[name] != value:
            found.note(f"{key} {value} differs from the flag's {plan[name]}; the configuration decides")
            plan[name] = value
    _precision(found, config)
    _check_keys(found, config, zero)


def batch(found: Recovered) -> None:
    """DeepSpeed's completion of its three batch sizes, once the number of data-parallel ranks is known."""
    plan = found.plan
    data, micro, total, steps = (plan.get(k) for k in ("data_parallel", "micro_batch_size", "global_batch_size", "gradient_accumulation"))
    if not data or micro:
        return
    if total and steps and total % (data * steps) == 0:
        found.derive("plan", "micro_batch_size", total // (data * steps))
    elif total and not steps and total % data == 0:
        found.derive("plan", "micro_batch_size", total // data)
        found.derive("plan", "gradient_accumulation", 1)
    elif total:
        step = data * (steps or 1)
        below = total // step * step
        found.violate("global_batch", f"train_batch_size {total} is not a multiple of {step} data-parallel micro-batches", global_batch_size=[x for x in (below, below + step) if x])


def _offload(found: Recovered, zero: dict[str, Any]) -> None:
    devices = {}
    for part in ("optimizer", "param"):
        block = zero.get(f"offload_{part}")
        device = block.get("device", "none") if isinstance(block, dict) else "none"
        if device not in ("none", None, "auto"):
            devices[part] = device
    if zero.get("cpu_offload") is True:
        devices["optimizer"] = "cpu"
    if devices:
        found.plan["offload"] = "+".join(devices) + " " + "/".join(dict.fromkeys(map(str, devices.values())))
        found.note("ZeRO offload keeps states outside the GPU; that is not priced, memory and time are those without it")
    else:
        found.plan.setdefault("offload", "none")


def _precision(found: Recovered, config: dict[str, Any]) -> None:
    on = [name for name in ("fp16", "bf16", "bfloat16") if isinstance(config.get(name), dict) and config[name].get("enabled") is True]
    if len(on) > 1:
        found.violate("precision", "fp16 and bf16 are both enabled")
    if on:
        found.plan["precision"] = "fp16" if on[0] == "fp16" else "bf16"


def _check_keys(found: Recovered, config: dict[str, Any], zero: dict[str, Any]) -> None:
    for key in zero:
        if key not in ZERO_KEYS:
            close = difflib.get_close_matches(key, ZERO_KEYS, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            found.note(f"zero_optimization.{key} is no key of DeepSpeed{hint}: old versions ignore it, current ones refuse it")
    for key in _REMOVED:
        if isinstance(config.get(key), dict) and config[key].get("enabled"):
            found.note(f"{key} was removed from DeepSpeed; current versions refuse it")
    for key in ("reduce_bucket_size", "allgather_bucket_size"):
        value = zero.get(key)
        if value not in (None, _OPTIONAL_AUTO) and (not isinstance(value, int | float) or value <= 0 or value != int(value)):
            found.violate("bucket_size", f"zero_optimization.{key} must be a positive integer, got {value!r}")
