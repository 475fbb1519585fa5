"""Launch files: a plan in the form that real training programs take.

`emit("megatron", cluster, model, plan)` returns relative file name -> text. Files that start with `#!` are programs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from autotune.emit.base import CAPABILITIES, LAUNCHERS, Files, Options, Target, beyond, is_executable, refuse
from autotune.errors import InputError, Problem, did_you_mean

if TYPE_CHECKING:
    from autotune.outdir import OutputFolder
    from autotune.plan import Plan
    from autotune.specs import ClusterSpec, ModelSpec

# name -> module; a module is imported only when its target is asked for.
TARGETS: dict[str, str] = {
    "megatron": "megatron",
    "megatron-lm-2023": "megatron_2023",
    "megatron-bridge": "bridge",
    "megatron-deepspeed": "megatron_deepspeed",
    "deepspeed": "deepspeed",
    "torchtitan": "torchtitan",
}
ALIASES = {"megatron-lm": "megatron", "megatron-core": "megatron", "bridge": "megatron-bridge", "nemo": "megatron-bridge"}

__all__ = ["CAPABILITIES", "LAUNCHERS", "TARGETS", "Files", "Options", "emit", "find_target", "is_executable", "write_targets"]


def find_target(name: str) -> Target:
    """The target of that name, with a did-you-mean for a wrong one.

    >>> find_target("megatron").name
    'megatron'
    >>> find_target("megatorn")
    Traceback (most recent call last):
    autotune.errors.InputError: unknown target 'megatorn' (did you mean 'megatron'?); known: ...
    """
    name = ALIASES.get(name, name)
    if name not in TARGETS:
        raise InputError.of(f"unknown target '{name}'{did_you_mean(name, list(TARGETS))}; known: {', '.join(TARGETS)}")
    target: Target = importlib.import_module(f"autotune.emit.{TARGETS[name]}").TARGET
    return target


def emit(target: str, cluster: ClusterSpec, model: ModelSpec, plan: Plan, options: Options | None = None) -> Files:
    """The launch files of a plan for one target: relative file name -> text.

    Raises InputError with every reason when the target's program would refuse the plan or cannot express it.
    """
    from autotune.legality import violations

    found = find_target(target)
    options = options or Options()
    if options.launcher and options.launcher not in found.launchers:
        raise InputError.of(f"target {found.name} has no launcher '{options.launcher}'; it has {', '.join(found.launchers)}")
    problems = [Problem(v["message"], key=v["rule"]) for v in violations(model, plan, found.name)]
    problems += beyond(found.accepts, model, plan)
    refuse([Problem(f"{found.name}: {p.message}", key=p.key) for p in problems])
    return found.build(cluster, model, plan, options)


def write_targets(
    out: OutputFolder, targets: list[str], cluster: ClusterSpec, model: ModelSpec, plan: Plan, options: Options | None = None
) -> dict[str, list[str]]:
    """Write `plan.yaml`, `ranks.csv` and one folder per target; returns target -> file names. All or nothing."""
    from autotune.emit import neutral, preflight

    options = options or Options()
    sets = {find_target(t).name: emit(t, cluster, model, plan, options) for t in targets}
    shared = neutral.files(cluster, model, plan)
    for name, text in shared.items():
        out.write(name, text)
    for target, files in sets.items():
        files.update(preflight.files(cluster, model, plan, options.launcher or find_target(target).launchers[0]))
        for name, text in files.items():
            out.write(f"{target}/{name}", text, executable=is_executable(text))
    return {"plan": list(shared), **{t: list(f) for t, f in sets.items()}}
