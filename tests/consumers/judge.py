"""Compares our verdict on a plan with the real program's, and the real program's reading with the plan."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import capture
from readings import differences_deepspeed, differences_megatron, differences_torchtitan
from worker import Worker

from autotune.emit import Options, emit
from autotune.errors import InputError
from autotune.plan import Plan
from autotune.specs import ClusterSpec, ModelSpec

# Rules of ours that the program does not check before it trains something else or fails far into the job.
OURS_ALONE = {
    "megatron": {
        "zero_stage": "Megatron-FSDP under pipeline parallelism passes every check, but its wrapper was not made for it",
        "layers_per_stage": "an empty inner stage is accepted and idles",
    },
    "deepspeed": {
        "context_parallel": "no key exists, so the program cannot be asked",
        "virtual_stages": "no key exists, so the program cannot be asked",
        "stage_layers": "the split is the script's; unequal stages cannot be written",
        "*": "the model is the script's: DeepSpeed's configuration knows nothing of heads, layers and sequences",
    },
    "torchtitan": {
        "zero_stage": "stage 1 cannot be expressed: gradients are sharded with the optimizer state",
        "*": "head counts and sequence shards fail only when the model is split on the GPUs",
    },
}
OURS_ALONE["megatron-lm-2023"] = {"*": "today's parser is asked, which allows more than that of 2023"}
OURS_ALONE["megatron-deepspeed"] = OURS_ALONE["deepspeed"]


@dataclass(frozen=True)
class Verdict:
    """One plan, judged twice."""

    target: str
    model: str
    plan: Plan
    launcher: str
    ours: str  # "legal" or our reason
    keys: tuple[str, ...]
    theirs: str  # "accepted", "not asked", or stage: message
    differences: tuple[str, ...]

    @property
    def agree(self) -> bool:
        """Both accept and mean the same, or both refuse; rules of ours alone may refuse more."""
        if self.ours == "legal":
            return self.theirs == "accepted" and not self.differences
        alone = OURS_ALONE[self.target]
        return self.theirs != "accepted" or "*" in alone or bool(set(self.keys) & set(alone))


def judge(target: str, workers: Callable[[str], Worker], cluster: ClusterSpec, model: ModelSpec, plan: Plan, launcher: str) -> Verdict:
    """One plan through `emit` and bash (or, when we refuse it, its bare arguments) against the real program."""
    ours, keys, files = our_verdict(target, cluster, model, plan, launcher)
    calls = captured(files) if files is not None else None
    answer, differences = ASK[target](workers, cluster, model, plan, files, calls)
    accepted = answer["verdict"] == "accepted"
    theirs = answer["verdict"] if accepted or answer["verdict"] == "not asked" else f"{answer['stage']}: {answer['message']}"
    different = tuple(differences(answer["facts"])) if accepted and files is not None else ()
    return Verdict(target, model.name, plan, launcher, ours, keys, theirs, different)


def our_verdict(target: str, cluster: ClusterSpec, model: ModelSpec, plan: Plan, launcher: str | None) -> Any:
    """("legal", (), files) or (reasons, keys, None)."""
    try:
        return "legal", (), emit(target, cluster, model, plan, Options(launcher))
    except InputError as e:
        return e.message.replace("\n", "; "), tuple(p.key for p in e.problems), None


def captured(files: dict[str, str]) -> list[capture.Call]:
    """What the launch script calls. Data and script names are given, as a user would."""
    script = next(n for n in ("launch.sbatch", "launch.sh") if n in files)
    given = {"DATA_PATH": "", "TOKENIZER_MODEL": "", "TRAIN_SCRIPT": "train.py"}
    if "${DATA_PATH:?" in files[script]:
        given |= {"DATA_PATH": "/data/corpus", "TOKENIZER_MODEL": "/data/tokenizer.model"}
    with tempfile.TemporaryDirectory() as folder:
        return capture.run(files, script, Path(folder), given)


# --- Megatron ------------------------------------------------------------------------------------------------------


def ask_megatron(workers: Any, cluster: ClusterSpec, model: ModelSpec, plan: Plan, files: Any, calls: Any) -> Any:
    """The real Megatron about a captured launch or the bare arguments."""
    request = megatron_request(calls, plan) if files is not None else bare_megatron(model, plan)
    return workers("megatron").ask(**request), lambda facts: differences_megatron(facts, cluster, model, plan)


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

    argv = [str(w) for group in megatron.arguments(model, plan) for row in group.rows for w in row]
    if plan.expert_parallel > 1 and not model.num_experts:  # `emit` has no reason to write this one
        argv += ["--expert-model-parallel-size", str(plan.expert_parallel)]
    argv += ["--train-iters", "10", "--lr", "1e-4", "--eval-iters", "0", "--mock-data", "--tokenizer-type", "NullTokenizer"]
    connections = megatron.max_connections(plan)
    return {"argv": argv, "env": {"CUDA_DEVICE_MAX_CONNECTIONS": str(connections)}, "world": plan.gpus, "torchrun": None}


def ask_megatron_2023(workers: Any, cluster: ClusterSpec, model: ModelSpec, plan: Plan, files: Any, calls: Any) -> Any:
    """Today's Megatron about the arguments of 2023, which it still takes."""
    if files is None:
        return {"verdict": "not asked"}, None
    return ask_megatron(workers, cluster, model, plan, files, calls)


# --- DeepSpeed -----------------------------------------------------------------------------------------------------


def ask_deepspeed(workers: Any, cluster: ClusterSpec, model: ModelSpec, plan: Plan, files: Any, calls: Any) -> Any:
    """The real DeepSpeed about ds_config.json; the launcher line must start every rank with it."""
    import json

    from autotune.emit import deepspeed

    launcher = None
    if files is None:
        text, topology = json.dumps(deepspeed.config(model, plan)), None
    else:
        text, topology = files["ds_config.json"], files.get("model_parallel.py")
        launcher = check_deepspeed_launch(calls, plan)
    request: dict[str, Any] = {"launcher": launcher, "hostfile": files and files.get("hostfile")} if launcher else {}
    request |= {"config": text, "world": plan.gpus, "tp": plan.tensor_parallel, "pp": plan.pipeline_parallel, "topology": topology}
    return workers("deepspeed").ask(**request), lambda facts: differences_deepspeed(facts, cluster, model, plan)


def check_deepspeed_launch(calls: list[capture.Call], plan: Plan) -> list[str] | None:
    """The launcher gets hosts x GPUs = ranks, and the program gets the configuration file. Arguments of the deepspeed command."""
    entry = "pretrain_gpt.py" if any("pretrain_gpt.py" in w for c in calls for w in c.argv) else "train.py"
    call, before, after = capture.of_program(calls, entry)
    if call.program == "deepspeed":
        counts = [int(before[before.index(n) + 1]) for n in ("--num_nodes", "--num_gpus")]
    else:
        counts = [int(before[before.index(n) + 1]) for n in ("--nnodes", "--nproc-per-node")]
    assert counts[0] * counts[1] == plan.gpus, (before, plan.gpus)
    assert after[after.index("--deepspeed_config") + 1].endswith("/work/ds_config.json"), after
    return before if call.program == "deepspeed" else None


# --- torchtitan ----------------------------------------------------------------------------------------------------


def ask_torchtitan(workers: Any, cluster: ClusterSpec, model: ModelSpec, plan: Plan, files: Any, calls: Any) -> Any:
    """The real torchtitan about a captured launch or the bare overrides."""
    from autotune.emit import torchtitan

    flavor = torchtitan.flavor(model)
    if files is not None:
        _, _, argv = capture.of_program(calls, "torchtitan.train")
    elif flavor is None:
        return {"verdict": "not asked"}, None
    else:
        argv = ["--module", flavor.module, "--config", flavor.config]
        argv += [str(w) for row in torchtitan.rows(model, plan) for w in row]
        argv.append(f"activation-checkpoint:{'full' if plan.recompute == 'full' else 'none'}")
    return workers("torchtitan").ask(argv=argv, world=plan.gpus), lambda facts: differences_torchtitan(facts, model, plan)


ASK: dict[str, Any] = {
    "megatron": ask_megatron,
    "megatron-lm-2023": ask_megatron_2023,
    "deepspeed": ask_deepspeed,
    "megatron-deepspeed": ask_deepspeed,
    "torchtitan": ask_torchtitan,
}
LAUNCHERS = {
    "megatron": ("torchrun", "slurm"),
    "megatron-lm-2023": ("torchrun", "slurm"),
    "deepspeed": ("pdsh", "torchrun"),
    "megatron-deepspeed": ("pdsh", "torchrun"),
    "torchtitan": ("torchrun",),
}
