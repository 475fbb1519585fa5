"""Asks the real torchtitan about command lines: one JSON request per line in, one JSON answer per line out.

Request: {"argv": [...], "world": 64}. Stages: parse (ConfigManager and the configuration's own checks), mesh (ParallelDims),
stages (pipeline split), schedule (torch's own schedule class), batch.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Refused(Exception):
    """The real code said no."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage, self.message = stage, message


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Run all stages; what the command line means to torchtitan."""
    config = attempt("parse", lambda: parse(request["argv"]))
    dims = attempt("mesh", lambda: mesh(config, request["world"]))
    parts = attempt("stages", lambda: split(config, dims))
    batch = attempt("batch", lambda: batches(config, dims))
    attempt("schedule", lambda: schedule(config, parts, batch["pipeline_batches"]))
    model, parallelism = config.model_spec.model, config.parallelism
    return {
        **batch,
        "layers": [sum(name.startswith("layers.") for name in part) for part in parts],
        "dp_replicate": dims.dp_replicate,
        "dp_shard": dims.dp_shard,
        "tp": dims.tp,
        "cp": dims.cp,
        "pp": dims.pp,
        "ep": dims.ep,
        "sequence_parallel": parallelism.enable_sequence_parallel,
        "reshard": parallelism.fsdp_reshard_after_forward,
        "recompute": type(config.activation_checkpoint).__qualname__ if config.activation_checkpoint is not None else None,
        "seq_length": config.training.seq_len,
        "model": shape(model),
    }


def attempt(stage: str, function: Any) -> Any:
    """Call, with a refusal turned into `Refused`."""
    try:
        return function()
    except SystemExit as e:
        raise Refused(stage, f"exit {e.code}") from e
    except Exception as e:
        raise Refused(stage, f"{type(e).__name__}: {e}") from e


def parse(argv: list[str]) -> Any:
    """The program's own parser. It prints its errors, so both streams are swallowed."""
    import contextlib
    import io

    from torchtitan.config.manager import ConfigManager

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return ConfigManager().parse_args(argv)


def mesh(config: Any, world: int) -> Any:
    """Degrees, checked against the world size; and that expert ranks come out whole."""
    from torchtitan.distributed.parallel_dims import ParallelDims

    dims = ParallelDims.from_config(config.parallelism, world)
    inside = dims.dp_shard * dims.cp * dims.tp
    if inside % dims.ep:  # building the mesh would fail: it needs all processes
        raise ValueError(f"{inside} ranks do not divide into expert groups of {dims.ep}")
    return dims


def split(config: Any, dims: Any) -> list[list[str]]:
    """Module names of every stage."""
    from torchtitan.distributed import pipeline_parallel

    if dims.pp == 1:
        return [[f"layers.{i}" for i in range(len(config.model_spec.model.layers))]]
    stages, layers, first, last = pipeline_parallel._get_pipeline_metadata(dims, config.parallelism, config.model_spec.model)
    parts: list[list[str]] = pipeline_parallel._generate_llm_fqn_per_model_part(stages, layers, first, last)
    return parts


def batches(config: Any, dims: Any) -> dict[str, int]:
    """The trainer's batch arithmetic."""
    local, total = config.training.local_batch_size, config.training.global_batch_size
    data = dims.dp_replicate * dims.dp_shard
    if total % (local * data):
        raise ValueError(f"global batch {total} is not a multiple of {local} x {data}")
    micro = config.parallelism.pipeline_parallel_microbatch_size if dims.pp > 1 else local
    return {
        "global_batch_size": total,
        "micro_batch_size": micro,
        "micro_batches": total // (micro * data),
        "pipeline_batches": local // micro,
    }


def schedule(config: Any, parts: list[list[str]], micro_batches: int) -> None:
    """torch's schedule class, built on stages that are only counted."""
    if config.parallelism.pipeline_parallel_degree == 1:
        return
    import types

    from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class

    kind = get_schedule_class(config.parallelism.pipeline_parallel_schedule)
    ranks = config.parallelism.pipeline_parallel_degree
    chunks = [
        types.SimpleNamespace(
            num_stages=len(parts), group_size=ranks, group_rank=0, is_first=i == 0, is_last=False, has_backward=True,
            stage_index=i * ranks, stage_index_to_group_rank=dict.fromkeys(range(len(parts)), 0), device="cpu", group=None,
        )
        for i in range(len(parts) // ranks)
    ]  # fmt: skip
    for chunk in chunks:
        chunk.stage_index_to_group_rank = {i: i % ranks for i in range(len(parts))}
    if issubclass(kind, PipelineScheduleMulti):
        kind(chunks, n_microbatches=micro_batches, loss_fn=lambda *a: None)
    else:
        kind(chunks[0], n_microbatches=micro_batches, loss_fn=lambda *a: None)


def shape(model: Any) -> dict[str, Any]:
    """What identifies the architecture."""
    first, last = model.layers[0], model.layers[-1]
    dense = getattr(first, "feed_forward", None)
    moe = getattr(last, "moe", None)
    return {
        "layers": len(model.layers),
        "hidden": model.dim,
        "heads": last.attention.n_heads,
        "kv_heads": getattr(last.attention, "n_kv_heads", None),
        "ffn": dense.w1.out_features if dense is not None else 0,
        "experts": moe.num_experts if moe is not None else 0,
        "vocab": model.vocab_size,
    }


def main() -> None:
    """Answer until the input ends."""
    import stand_ins

    stand_ins.quiet()
    stand_ins.without_triton()
    stand_ins.pretend_gpu()
    from importlib.metadata import version

    import torch

    torch.set_num_threads(1)
    print(json.dumps({"ready": True, "torchtitan": version("torchtitan")}), flush=True)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"verdict": "accepted", "facts": ask(json.loads(line))}
        except Refused as e:
            answer = {"verdict": "rejected", "stage": e.stage, "message": e.message}
        except Exception as e:
            answer = {"verdict": "broken", "stage": "worker", "message": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
