"""Asks the real Megatron-LM about command lines: one JSON request per line in, one JSON answer per line out.

Request:  {"argv": [...], "env": {...}, "world": 64, "torchrun": [...] or null, "models": [pipeline ranks]}
Answer:   {"verdict": "accepted"|"rejected", "stage": ..., "message": ..., "facts": {...}}

Every request runs in a forked child of one warm process, since Megatron keeps its state in globals. The stages are
Megatron's own code in the order a training job meets it:
launcher, parse, validate, batch, config, groups, layers, schedule, forward, and model for the pipeline ranks asked for.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import sys
import traceback
import types
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Refused(Exception):
    """The real code said no."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(f"{stage}: {message}")
        self.stage, self.message = stage, message


class _ReachedShapes(Exception):
    """The schedule has passed its own checks."""


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """Turns whatever the real code does to say no into `Refused`, and swallows what it prints."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            yield
    except Refused:
        raise
    except SystemExit as e:
        lines = [line for line in printed.getvalue().splitlines() if line.strip()]
        raise Refused(name, lines[-1] if lines else f"exit {e.code}") from e
    except Exception as e:
        text = str(e).strip()
        if not text:  # a bare assert: quote the line
            frame = traceback.extract_tb(e.__traceback__)[-1]
            text = f"{os.path.basename(frame.filename)}:{frame.lineno}: {frame.line}"
        raise Refused(name, f"{type(e).__name__}: {text}") from e


def ask(request: dict[str, Any], rank: int | None = None) -> dict[str, Any]:
    """Run all stages; the facts of an accepted command line, or the model of one rank."""
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    os.environ.update(request.get("env") or {})
    os.environ.update(WORLD_SIZE=str(request["world"]), RANK=str(rank or 0))
    if request.get("torchrun"):
        with stage("launcher"):
            check_torchrun(request["torchrun"], request["world"])
    with stage("parse"):
        args = parse(request["argv"])
    with stage("validate"):
        import megatron.training.arguments as arguments

        arguments.validate_args(args, {"tokenizer_type": "GPT2BPETokenizer"})
    with stage("batch"):
        micro_batches = count_micro_batches(args)
    with stage("config"):
        config = build_configs(args)
    with stage("groups"):
        groups = build_groups(args, request["world"], rank or 0)
    with stage("layers"):
        layers = layers_per_stage(args, config)
    if args.virtual_pipeline_model_parallel_size is not None:
        with stage("schedule"):
            enter_interleaved_schedule(args, config, micro_batches)
    with stage("forward"):
        enter_forward(args, config)
    if rank is not None:
        from megatron_model import build_model

        with stage("model"):
            return build_model(args)
    return facts_of(args, config, micro_batches, groups, layers)


def check_torchrun(argv: list[str], world: int) -> None:
    """torchrun's own parser, and that it starts as many processes as the plan has ranks."""
    import torch.distributed.run as run

    parsed = run.get_args_parser().parse_args([*argv, "program.py"])
    nodes, _ = run.parse_min_max_nnodes(parsed.nnodes)
    if nodes * int(parsed.nproc_per_node) != world:
        raise Refused("launcher", f"{nodes} x {parsed.nproc_per_node} processes, expected {world}")


def parse(argv: list[str]) -> Any:
    """Megatron's argument parser."""
    import megatron.training.arguments as arguments

    kept, sys.argv = sys.argv, ["pretrain_gpt.py", *argv]
    try:
        return arguments.parse_args()
    finally:
        sys.argv = kept


def supported(function: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The values that this version's function has parameters for."""
    return {k: v for k, v in values.items() if k in inspect.signature(function).parameters}


def count_micro_batches(args: Any) -> int:
    """The batch calculator, started as Megatron's global state does it."""
    import megatron.core.num_microbatches_calculator as calculator

    values = {
        "rank": 0,
        "global_batch_size": args.global_batch_size,
        "micro_batch_size": args.micro_batch_size,
        "data_parallel_size": args.data_parallel_size,
        "decrease_batch_size_if_needed": args.decrease_batch_size_if_needed,
        "rampup_batch_size": getattr(args, "rampup_batch_size", None),
        "step_batch_size_schedule": getattr(args, "step_batch_size_schedule", None),
        "seq_length": args.seq_length,
    }
    start = calculator.init_num_microbatches_calculator
    start(**supported(start, values))
    return calculator.get_num_microbatches()


def build_configs(args: Any) -> Any:
    """TransformerConfig and the data-parallel and optimizer configurations."""
    import megatron.training.arguments as arguments
    import megatron.training.training as training
    from stand_ins import fused_adam

    config = arguments.core_transformer_config_from_args(args)
    with fused_adam():
        for name in ("get_megatron_ddp_config", "get_megatron_optimizer_config"):
            if hasattr(training, name):  # not yet in 0.17
                getattr(training, name)(args)
    return config


def build_groups(args: Any, world: int, rank: int) -> dict[str, list[list[int]]]:
    """Process groups on torch's fake backend, and the full lists of the same generators."""
    import megatron.core.parallel_state as state
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if not dist.is_initialized():
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    order = "tp-cp-ep-pp-dp" if args.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp"
    values = {
        "tensor_model_parallel_size": args.tensor_model_parallel_size,
        "pipeline_model_parallel_size": args.pipeline_model_parallel_size,
        "virtual_pipeline_model_parallel_size": args.virtual_pipeline_model_parallel_size,
        "context_parallel_size": args.context_parallel_size,
        "expert_model_parallel_size": args.expert_model_parallel_size,
        "expert_tensor_parallel_size": args.expert_tensor_parallel_size,
        "num_distributed_optimizer_instances": args.num_distributed_optimizer_instances,
        "order": order,
        "create_gloo_process_groups": False,
    }
    state.initialize_model_parallel(**supported(state.initialize_model_parallel, values))
    tp, pp, cp = args.tensor_model_parallel_size, args.pipeline_model_parallel_size, args.context_parallel_size
    ep = args.expert_model_parallel_size
    etp = args.expert_tensor_parallel_size or tp
    dense = state.RankGenerator(tp=tp, ep=1, dp=world // (tp * pp * cp), pp=pp, cp=cp, order=order)
    expert = state.RankGenerator(tp=etp, ep=ep, dp=world // (etp * ep * pp), pp=pp, cp=1, order=order)
    groups = {name: dense.get_ranks(name) for name in ("tp", "cp", "dp", "pp")}
    return groups | {"etp": expert.get_ranks("tp"), "ep": expert.get_ranks("ep"), "edp": expert.get_ranks("dp")}


def layers_per_stage(args: Any, config: Any) -> list[list[int]]:
    """Layers of every chunk of every stage; together they must be the model."""
    import megatron.core.parallel_state as state
    from megatron.core.transformer.transformer_block import get_num_layers_to_build

    chunks = args.virtual_pipeline_model_parallel_size
    stages = []
    for rank in range(args.pipeline_model_parallel_size):
        state.set_pipeline_model_parallel_rank(rank)  # a layout is read for this process's own place
        stages.append([get_num_layers_to_build(config, vp_stage=v if chunks else None, pp_rank=rank) for v in range(chunks or 1)])
    state.set_pipeline_model_parallel_rank(None)
    built = sum(map(sum, stages))
    if built != args.num_layers:  # nothing in Megatron says so: a smaller model would train
        raise Refused("layers", f"the stages hold {built} of {args.num_layers} layers")
    return stages


def enter_interleaved_schedule(args: Any, config: Any, micro_batches: int) -> None:
    """Call the interleaved schedule and leave where its own checks are over."""
    import megatron.core.pipeline_parallel.schedules as schedules
    import torch

    class Chunk(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = config

    def reached(model: Any) -> None:
        raise _ReachedShapes

    real_zeros, real_type = torch.zeros, schedules.get_model_type
    torch.zeros = lambda *a, **k: real_zeros(*a, **{key: v for key, v in k.items() if key != "device"})
    schedules.get_model_type = reached
    for name in ("finalize_model_grads_func", "grad_sync_func", "no_sync_func", "timers"):
        setattr(config, name, None)
    chunks = [Chunk() for _ in range(args.virtual_pipeline_model_parallel_size)]
    try:
        schedules.forward_backward_pipelining_with_interleaving(
            forward_step_func=lambda *a: None, data_iterator=[None] * len(chunks), model=chunks, num_microbatches=micro_batches,
            seq_length=args.seq_length, micro_batch_size=args.micro_batch_size, forward_only=False,
        )  # fmt: skip
    except _ReachedShapes:
        return
    finally:
        torch.zeros, schedules.get_model_type = real_zeros, real_type


def enter_forward(args: Any, config: Any) -> None:
    """What fails only in the first forward pass: sequence shards, and experts under tensor parallelism."""
    import torch

    if args.sequence_parallel:
        from megatron.core.tensor_parallel.mappings import scatter_to_sequence_parallel_region

        scatter_to_sequence_parallel_region(torch.empty(args.seq_length // args.context_parallel_size, 1, 1, device="meta"))
    if args.num_experts:
        from megatron.core.transformer.moe.moe_layer import MoELayer

        group = types.SimpleNamespace(size=lambda: args.tensor_model_parallel_size)

        class Entered(Exception):
            pass

        class Layer:
            training, attn_tp_group = True, group

            def __getattr__(self, name: str) -> Any:
                raise Entered

        layer = Layer()
        layer.config = config
        with contextlib.suppress(Entered):
            MoELayer.forward(layer, None)


def facts_of(args: Any, config: Any, micro_batches: int, groups: dict[str, list[list[int]]], layers: list[list[int]]) -> dict[str, Any]:
    """What the accepted command line means to Megatron."""
    names = (
        "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "num_moe_experts",
        "moe_ffn_hidden_size", "moe_router_topk", "recompute_granularity", "recompute_method", "recompute_num_layers",
        "recompute_modules", "sequence_parallel", "bf16", "fp16", "fp8",
    )  # fmt: skip
    return {
        "tp": args.tensor_model_parallel_size,
        "pp": args.pipeline_model_parallel_size,
        "cp": args.context_parallel_size,
        "ep": args.expert_model_parallel_size,
        "etp": args.expert_tensor_parallel_size,
        "dp": args.data_parallel_size,
        "vpp": args.virtual_pipeline_model_parallel_size or 1,
        "micro_batch_size": args.micro_batch_size,
        "global_batch_size": args.global_batch_size,
        "micro_batches": micro_batches,
        "distributed_optimizer": args.use_distributed_optimizer,
        "fsdp": args.use_megatron_fsdp and args.data_parallel_sharding_strategy,
        "layers": layers,
        "groups": groups,
        "config": {n: getattr(config, n, None) for n in names},
        "seq_length": args.seq_length,
    }


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """One request: the verdict, and the models of the pipeline ranks asked for."""
    result = in_child(request)
    if result["verdict"] != "accepted":
        return result
    ranks = result["facts"]["groups"]["pp"][0]
    models = {}
    for stage_index in request.get("models") or []:
        model = in_child(request, ranks[stage_index])
        if model["verdict"] != "accepted":
            return model
        models[str(stage_index)] = model["facts"]
    result["facts"]["models"] = models
    return result


def in_child(request: dict[str, Any], rank: int | None = None) -> dict[str, Any]:
    """Run the stages in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            result: dict[str, Any] = {"verdict": "accepted", "facts": ask(request, rank)}
        except Refused as e:
            result = {"verdict": "rejected", "stage": e.stage, "message": e.message}
        except BaseException as e:
            result = {"verdict": "broken", "stage": "worker", "message": f"{type(e).__name__}: {e}\n{traceback.format_exc()}"}
        with os.fdopen(writer, "w") as f:
            f.write(json.dumps(result, default=str))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as f:
        text = f.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"verdict": "broken", "stage": "worker", "message": "the child process died"}


def main() -> None:
    """Warm up, say which versions these are, then answer until the input ends."""
    import stand_ins

    if os.environ.get("AUTOTUNE_MEGATRON_DIR"):  # another version than the installed one
        sys.path.insert(0, os.environ["AUTOTUNE_MEGATRON_DIR"])
    stand_ins.quiet()
    stand_ins.without_triton()
    stand_ins.pretend_gpu()
    import megatron.core
    import torch

    stand_ins.pretend_transformer_engine()
    import megatron.core.models.gpt
    import megatron.training.arguments
    import megatron.training.training

    torch.set_num_threads(1)
    print(json.dumps({"ready": True, "megatron-core": megatron.core.__version__, "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
