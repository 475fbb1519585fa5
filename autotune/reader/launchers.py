"""Peels launchers off a command: srun, mpirun, torchrun, deepspeed, accelerate, python, and what wraps them."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field

from autotune.reader import bash_words as w
from autotune.reader import directives
from autotune.reader.bash_eval import Launch

_TORCH_SWITCHES = {"--standalone", "--no-python", "--no_python", "--run-path", "--run_path", "--use-env", "--use_env"}
_WRAPPERS = {
    "srun", "sbatch", "mpirun", "mpiexec", "orterun", "prun", "docker", "podman", "singularity", "apptainer", "nsys", "ncu", "numactl",
    "env", "sudo", "taskset", "uv", "ray", "conda", "poetry", "enroot", "jsrun", "timeout", "stdbuf", "xargs", "ddtrace-run", "nohup", "exec",
}
_PROGRAMS = {"python", "python3", "torchrun", "deepspeed", "accelerate", "megatron", "composer", "llamafactory-cli", "swift", "primus-cli"}
_TORCH_MODULES = ("torch.distributed.launch", "torch.distributed.run", "torch.distributed.elastic.agent")


@dataclass
class Job:
    """A training program with its arguments and the size its launchers give it (as text, perhaps with markers)."""

    program: str = ""
    arguments: list[str] = field(default_factory=list)
    nodes: str = ""
    per_node: str = ""
    world: str = ""
    launcher: str = ""
    config: str = ""
    mixed_precision: str = ""
    hostfile: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    line: int = 0


def peel(launch: Launch) -> Job:
    """The program behind a launch.

    >>> j = peel(Launch("srun -l torchrun --nnodes 2 --nproc_per_node=8 -m pkg.train --x 1".split(), [], {}, {}, 1))
    >>> j.program, j.arguments, j.nodes, j.per_node
    ('pkg.train', ['--x', '1'], '2', '8')
    """
    job = Job(counts=dict(launch.counts), variables=launch.variables, line=launch.line)
    for outer in launch.outer:
        if outer:
            _wrapper(job, outer)
    words = launch.words
    for _ in range(12):
        if not words:
            break
        name = posixpath.basename(words[0])
        if "=" in words[0] and re.match(r"[A-Za-z_]\w*=", words[0]):
            words = words[1:]
        elif name in _WRAPPERS:
            following = _next_program(words)
            if following is None:
                job.program, job.arguments = words[0], words[1:]
                break
            _wrapper(job, words[:following])
            words = words[following:]
        elif re.fullmatch(r"python[\d.]*", name) or w.only_marker(words[0]):
            rest = _python(job, words[1:])
            if rest is None:
                break
            words = rest
        elif name in ("torchrun", "deepspeed", "accelerate", "composer"):
            _launcher(job, name, words[1:])
            break
        else:
            job.program, job.arguments = words[0], words[1:]
            break
    return job


def _next_program(words: list[str]) -> int | None:
    if "--" in words[1:] and posixpath.basename(words[0]) == "ray":
        return words.index("--") + 1
    for i, word in enumerate(words[1:], start=1):
        base = posixpath.basename(word)
        if base in _PROGRAMS or re.fullmatch(r"python[\d.]*", base):
            return i
        if base in _WRAPPERS and not words[i - 1].startswith("-"):
            return i
        if word.endswith((".py", ".sh")) and not word.startswith("-") and not words[i - 1].startswith("-"):
            return i
    return None


def _wrapper(job: Job, words: list[str]) -> None:
    name = posixpath.basename(words[0])
    if name in ("srun", "sbatch"):
        job.counts |= directives.from_words(words[1:])
        job.launcher = job.launcher or name
    elif name in ("mpirun", "mpiexec", "orterun", "prun"):
        options = _pairs(words[1:])
        job.world = options.get("np") or options.get("n") or job.world
        job.per_node = options.get("npernode") or options.get("ppn") or options.get("N") or job.per_node
        mapping = re.search(r"ppr:(\d+):node", " ".join(words))
        if mapping:
            job.per_node = mapping[1]
        job.launcher = "mpirun"


def _pairs(words: list[str]) -> dict[str, str]:
    """Options with their values, dashes stripped and hyphens written as underscores."""
    result: dict[str, str] = {}
    for i, word in enumerate(words):
        if word.startswith("-") and len(word) > 1:
            name, equals, value = word.lstrip("-").partition("=")
            if not equals and i + 1 < len(words) and not re.match(r"-[A-Za-z-]", words[i + 1]):
                value = words[i + 1]
            result[name.replace("-", "_")] = value
    return result


def _python(job: Job, words: list[str]) -> list[str] | None:
    """What follows `python`: either the rest of a launcher, or None once the program is known."""
    i = 0
    while i < len(words) and (words[i].startswith("-") or w.only_marker(words[i])):
        if words[i] in ("-m", "--module") and i + 1 < len(words):
            module, rest = words[i + 1], words[i + 2 :]
            if module.startswith(_TORCH_MODULES):
                return ["torchrun", *rest]
            if module.startswith(("deepspeed", "accelerate")):
                return [module.split(".")[0], *(["launch"] if module.startswith("accelerate") else []), *rest]
            job.program, job.arguments = module, rest
            return None
        if words[i] == "-c":
            job.program, job.arguments = "-c", words[i + 1 :]
            return None
        i += 2 if words[i] in ("-X", "-W") else 1
    if i < len(words):
        job.program, job.arguments = words[i], words[i + 1 :]
    return None


def _launcher(job: Job, name: str, words: list[str]) -> None:
    if name == "accelerate":
        words = words[1:] if words[:1] == ["launch"] else words
    options, program, rest = _until_program(words)
    job.launcher, job.program, job.arguments = name, program, rest
    first = {k: v for k, v in options.items() if v}
    if name == "torchrun":
        job.nodes = re.sub(r"^\d+:(?=\d+$)", "", first.get("nnodes", "1"))
        job.per_node = first.get("nproc_per_node", "1")
    elif name == "deepspeed":
        job.nodes, job.per_node, job.hostfile = first.get("num_nodes", ""), first.get("num_gpus", ""), first.get("hostfile", first.get("H", ""))
        if re.match(r"[\w.-]+:[\d,]+$", first.get("include", "")):
            job.per_node = str(len(first["include"].split(":")[1].split(",")))
    elif name == "accelerate":
        job.nodes, job.world, job.config = first.get("num_machines", ""), first.get("num_processes", ""), first.get("config_file", "")
        job.mixed_precision = first.get("mixed_precision", "")
    else:
        job.per_node = first.get("nproc", first.get("n", ""))
        job.world = first.get("world_size", "")


def _until_program(words: list[str]) -> tuple[dict[str, str], str, list[str]]:
    options: dict[str, str] = {}
    i = 0
    while i < len(words):
        word = words[i]
        if word in ("-m", "--module") and i + 1 < len(words):
            return options, words[i + 1], words[i + 2 :]
        if word in _TORCH_SWITCHES or w.only_marker(word) or word in ("--multi_gpu", "--use_fsdp", "--use_deepspeed", "--force_multi", "--no_local_rank"):
            i += 1
        elif word.startswith("-"):
            name, equals, value = word.lstrip("-").partition("=")
            if not equals and i + 1 < len(words) and not words[i + 1].startswith("--") and not words[i + 1].endswith(".py"):
                value, i = words[i + 1], i + 1
            options[name.replace("-", "_")] = value
            i += 1
        else:
            return options, word, words[i + 1 :]
    return options, "", []
