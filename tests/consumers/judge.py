"""Compares our verdict on a plan with the real program's, and the real program's reading with the plan."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import capture
from worker import Worker

from autotune.emit import emit
from autotune.emit.job import layout
from autotune.emit.rank_map import ranks
from autotune.errors import InputError
from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec

# Rules of ours that the program itself does not check before it trains something else or fails far into the job.
OURS_ALONE = {
    "zero_stage": "Megatron-FSDP under pipeline parallelism passes every check, but its wrapper was not made for it",
    "zero_with_pipeline": "the same, as a rule of the target",
    "layers_per_stage": "an empty inner stage is accepted and idles",
    "expert_tensor_parallel": "the program has no such argument, so it cannot be asked",
}


@dataclass(frozen=True)
class Verdict:
    """One plan, judged twice."""

    target: str
    model: str
    plan: Plan
    ours: str  # "legal" or our reason
    keys: tuple[str, ...]
    theirs: str  # "accepted" or stage: message
    stage: str
    differences: tuple[str, ...]

    @property
    def agree(self) -> bool:
        """Both accept and mean the same, or both refuse; rules of ours alone may refuse more."""
        if self.ours == "legal":
            return self.theirs == "accepted" and not self.differences
        return self.theirs != "accepted" or bool(set(self.keys) & set(OURS_ALONE))


def judge_megatron(worker: Worker, cluster: ClusterSpec, model: ModelSpec, plan: Plan, launcher: str = "torchrun") -> Verdict:
    """The plan through `emit` and bash, or for a plan we refuse its bare arguments, against the real Megatron."""
    ours, keys, files = our_verdict("megatron", cluster, model, plan, launcher)
    if files is None:
        request = bare_megatron(model, plan)
    else:
        with tempfile.TemporaryDirectory() as folder:
            script = next(n for n in files if n in ("launch.sh", "launch.sbatch"))
            request = megatron_request(capture.run(files, script, Path(folder)), plan)
    answer = worker.ask(**request)
    accepted = answer["verdict"] == "accepted"
    differences = tuple(differences_megatron(answer["facts"], cluster, model, plan)) if accepted and files is not None else ()
    theirs = "accepted" if accepted else f"{answer['stage']}: {answer['message']}"
    return Verdict("megatron", model.name, plan, ours, keys, theirs, answer.get("stage", ""), differences)


def our_verdict(target: str, cluster: ClusterSpec, model: ModelSpec, plan: Plan, launcher: str | None) -> Any:
    """("legal", (), files) or (reasons, keys, None)."""
    from autotune.emit import Options

    try:
        return "legal", (), emit(target, cluster, model, plan, Options(launcher))
    except InputError as e:
        return e.message.replace("\n", "; "), tuple(p.key for p in e.problems), None


def megatron_request(calls: list[capture.Call], plan: Plan, entry: str = "pretrain_gpt.py") -> dict[str, Any]:
    """What to ask the worker about a captured launch."""
    call, before, argv = capture.of_program(calls, entry)
    keep = ("CUDA_", "NCCL_", "NVTE_")
    env = {k: v for k, v in call.environment.items() if k.startswith(keep)}
    torchrun = before if call.program == "torchrun" else None
    world = int(call.environment["WORLD_SIZE"]) if torchrun is None else plan.gpus
    return {"argv": argv, "env": env, "world": world, "torchrun": torchrun}


def bare_megatron(model: ModelSpec, plan: Plan) -> dict[str, Any]:
    """The arguments of a plan that `emit` refuses."""
    from autotune.emit import megatron

    rows = [row for group in megatron.arguments(model, plan) for row in group.rows]
    argv = [str(w) for row in rows for w in row]
    argv += "--train-iters 10 --lr 1e-4 --eval-iters 0 --mock-data --tokenizer-type NullTokenizer".split()
    connections = megatron.max_connections(plan)
    return {"argv": argv, "env": {"CUDA_DEVICE_MAX_CONNECTIONS": str(connections)}, "world": plan.gpus, "torchrun": None}


def differences_megatron(facts: dict[str, Any], cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> list[str]:
    """Where Megatron's reading of the launch is not the plan."""
    p, m = plan, model
    expected: dict[str, Any] = {
        "tp": p.tensor_parallel,
        "pp": p.pipeline_parallel,
        "cp": p.context_parallel,
        "dp": p.data_parallel,
        "vpp": p.virtual_stages,
        "micro_batch_size": p.micro_batch_size,
        "global_batch_size": p.global_batch_size,
        "micro_batches": p.micro_batches,
        "distributed_optimizer": p.zero_stage >= 1,
        "fsdp": {0: False, 1: False, 2: "optim_grads", 3: "optim_grads_params"}[p.zero_stage],
        "layers": [[n // p.virtual_stages] * p.virtual_stages for n in p.stage_layers],
        "seq_length": m.seq_length,
    }
    if m.num_experts:
        expected |= {"ep": p.expert_parallel, "etp": p.expert_tensor_parallel}
    config: dict[str, Any] = {
        "num_layers": m.num_layers,
        "hidden_size": m.hidden_size,
        "ffn_hidden_size": m.ffn,
        "num_attention_heads": m.num_attention_heads,
        "num_query_groups": m.num_attention_heads if m.multi_latent_attention else m.kv_heads,
        "num_moe_experts": m.num_experts,
        "sequence_parallel": p.sequence_parallel and p.tensor_parallel > 1,
        "recompute_granularity": recompute_of(plan),
    }
    wrong = [f"{k}: {facts[k]!r}, planned {v!r}" for k, v in expected.items() if facts[k] != v]
    wrong += [f"config {k}: {facts['config'][k]!r}, planned {v!r}" for k, v in config.items() if facts["config"][k] != v]
    return wrong + differences_groups(facts["groups"], cluster, model, plan)


def recompute_of(plan: Plan) -> str | None:
    """Megatron's granularity of a plan."""
    if plan.recompute == "none" or (plan.recompute == "full" and plan.recompute_num_layers == 0):
        return None
    return plan.recompute


def differences_groups(groups: dict[str, list[list[int]]], cluster: ClusterSpec, model: ModelSpec, plan: Plan) -> list[str]:
    """Our rank map against the groups of Megatron's own generators."""
    places = [r._asdict() for r in ranks(plan, layout(cluster, plan))]
    wrong = []
    dense = ("tp", "cp", "dp", "pp")
    # A dense model has the default expert grid in Megatron; its plan has none.
    for axes in (dense, ("etp", "ep", "edp", "pp")) if model.num_experts else (dense,):
        for axis in axes:
            found: dict[tuple[int, ...], list[int]] = {}
            for place in places:
                found.setdefault(tuple(place[a] for a in axes if a != axis), []).append(place["rank"])
            if sorted(found.values()) != sorted(groups[axis]):
                wrong.append(f"{axis} groups differ")
    return wrong
