"""torchtitan: flags of every generation and the TOML files of older ones."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from autotune.errors import InputError
from autotune.reader import known_models
from autotune.reader.flags import Flags, integer
from autotune.reader.recovered import Recovered

_DEFAULT_SEQ, _DEFAULT_BATCH = 2048, 8  # torchtitan's own defaults of training.seq_len and training.local_batch_size
_INTERLEAVED = ("interleaved1f1b", "interleavedzerobubble", "loopedbfs", "zbvzerobubble", "dualpipev")


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """A TOML file as nested values; a syntax error is an InputError."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise InputError.of(f"not valid TOML: {e}", file) from None


def flatten(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested sections as dotted keys.

    >>> flatten({"training": {"seq_len": 8192}})
    {'training.seq_len': 8192}
    """
    result: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            result |= flatten(value, name + ".")
        else:
            result[name] = value
    return result


def is_toml(data: dict[str, Any]) -> bool:
    """Whether a TOML file is torchtitan's."""
    return isinstance(data.get("training"), dict) and ("job" in data or "parallelism" in data or "model" in data)


def interpret(found: Recovered, flags: Flags, toml: dict[str, Any] | None) -> Recovered:
    """Read flags, over a TOML file where there is one."""
    found.target = "torchtitan"
    stated = flatten(toml or {})
    table = {**{k: [str(v)] for k, v in stated.items() if not isinstance(v, list)}, **flags.table}
    merged = Flags(table)

    def number(*names: str) -> int | None:
        return merged.number(found, *names)

    _model(found, merged)
    plan = found.plan
    sections = ("parallelism.", "training.", "experimental.")
    for key, name in (
        ("tensor_parallel", "tensor_parallel_degree"), ("pipeline_parallel", "pipeline_parallel_degree"), ("context_parallel", "context_parallel_degree"),
        ("expert_parallel", "expert_parallel_degree"), ("expert_tensor_parallel", "expert_tensor_parallel_degree"),
    ):
        value = number(*[s + name for s in sections])
        if value:
            plan[key] = value
    seq = number("training.seq_len")
    if seq is None and found.model.get("num_layers"):
        found.derive("model", "seq_length", _DEFAULT_SEQ)
    found.model["seq_length"] = seq or _DEFAULT_SEQ
    local = number("training.local_batch_size", "training.batch_size")
    found.plan["local_batch_size"] = local or _DEFAULT_BATCH
    if local is None:
        found.derived.setdefault("micro_batch_size")
    total = number("training.global_batch_size")
    if total and total > 0:
        plan["global_batch_size"] = total
    _sharding(found, merged)
    _schedule(found, merged)
    mode = (merged.text("activation_checkpoint.mode") or "").lower()
    if mode:
        plan["recompute"] = {"full": "full", "none": "none"}.get(mode, "selective")
    else:
        found.derive("plan", "recompute", "none" if "activation_checkpoint.mode" in table else "selective")
    if merged.on("float8.enable_float8_linear", "float8.enable_fsdp_float8_all_gather") or any(k.startswith("quantize") and "float8" in k for k in table):
        plan["precision"] = "bf16+fp8"
    else:
        kind = merged.text("training.mixed_precision_param") or "bfloat16"
        found.derive("plan", "precision", "fp32" if "32" in kind else "bf16")
    plan["sequence_parallel"] = not merged.on("parallelism.disable_sequence_parallel") and (plan.get("tensor_parallel") or 1) > 1
    plan["distributed_optimizer"] = plan.get("zero_stage", 3) > 0
    return found


def _model(found: Recovered, flags: Flags) -> None:
    module = flags.text("model.name", "module")
    flavor = flags.text("model.flavor")
    config = flags.text("config")
    if config and module and not flavor:
        flavor = config.removeprefix(module + "_").removeprefix(module.split(".")[-1] + "_")
    if not module or not flavor:
        return
    shape = known_models.titan(module, re.sub(r"[^\w.]", "", flavor))
    if shape is None:
        found.need("MODEL", f"torchtitan's {module} {flavor} is defined in Python; give its shape with --model")
        return
    shape.pop("seq_length", None)
    found.model.update(shape)
    for key in shape:
        found.derived.setdefault(key)
    found.model["name"] = f"{module}-{flavor}".lower()


def _sharding(found: Recovered, flags: Flags) -> None:
    plan = found.plan
    shard = flags.number(found, "parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree", "training.data_parallel_degree", wanted=False)
    replicate = flags.number(found, "parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree", wanted=False)
    if replicate and replicate > 1:
        plan["hybrid_shard_replicas"] = replicate
    if shard and shard > 0:
        found.launch["data_parallel_stated"] = shard * (replicate or 1)
    found.derive("plan", "zero_stage", 0 if shard == 1 and (replicate or 1) > 1 else 3)


def _schedule(found: Recovered, flags: Flags) -> None:
    plan = found.plan
    stages, layers = plan.get("pipeline_parallel") or 1, found.model.get("num_layers")
    micro = flags.number(found, "parallelism.pipeline_parallel_microbatch_size", wanted=False)
    if stages > 1:
        plan["micro_batch_size"] = micro or 1
        if micro is None:
            found.derived.setdefault("micro_batch_size")
        if plan["local_batch_size"] % plan["micro_batch_size"]:
            found.violate("micro_batch", f"local_batch_size {plan['local_batch_size']} is not a multiple of the pipeline micro-batch {micro}")
    else:
        plan["micro_batch_size"] = plan["local_batch_size"]
    name = (flags.text("parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule") or "").lower()
    per_stage = flags.number(found, "parallelism.pipeline_parallel_layers_per_stage", "parallelism.module_fqns_per_model_part", wanted=False)
    if stages > 1 and name in _INTERLEAVED:
        plan["virtual_stages"] = max(1, -(-layers // (stages * per_stage))) if per_stage and layers else 2


def finish(found: Recovered) -> None:
    """The batch, once the world size is known: local batch x data parallel degree; the product of degrees must fit."""
    plan, world = found.plan, found.launch.get("world_size")
    stated = found.launch.pop("data_parallel_stated", None)
    inner = (plan.get("tensor_parallel") or 1) * (plan.get("pipeline_parallel") or 1) * (plan.get("context_parallel") or 1)
    if stated and not world:
        plan["data_parallel"] = stated
    elif stated and world and stated * inner != world:
        found.violate(
            "world_size", f"data x context x tensor x pipeline = {stated * inner} ranks, the job has {world}", data_parallel=[world // inner] if world % inner == 0 else []
        )
    data = integer(plan.get("data_parallel")) or (world // inner if world and world % inner == 0 else None)
    if data:
        step = plan["local_batch_size"] * data
        found.derive("plan", "global_batch_size", step)
        if plan["global_batch_size"] % step == 0:
            found.derive("plan", "gradient_accumulation", plan["global_batch_size"] // step)
