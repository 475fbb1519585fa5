"""What the batch system is asked for: `#SBATCH` and SGE lines, and the options of sbatch, srun and mpirun."""

from __future__ import annotations

import re
import shlex

_SHORT = {"-N": "nodes", "-n": "ntasks", "-G": "gpus", "-c": "cpus-per-task"}
_KEPT = {"nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres"}


def from_text(text: str) -> dict[str, int]:
    """The counts of `#SBATCH` lines.

    >>> from_text("#SBATCH --nodes=16 # sixteen\\n#SBATCH --gres=gpu:4\\n#SBATCH --ntasks-per-node=1")
    {'nodes': 16, 'gpus_per_node': 4, 'ntasks_per_node': 1}
    """
    words: list[str] = []
    for line in text.splitlines():
        match = re.match(r"\s*#SBATCH\s+(.*)", line)
        if match:
            words += _split(re.sub(r"\s#.*", "", match[1]))
    found = from_words(words)
    sge = re.search(r"^#\$ -l (?:rt_\w+|nodes?)=(\d+)", text, re.MULTILINE)
    if sge and "nodes" not in found:
        found["nodes"] = int(sge[1])
    return found


def from_words(words: list[str]) -> dict[str, int]:
    """The counts among the options of sbatch or srun, in a form common to all.

    >>> from_words(["-N", "2", "--ntasks-per-node=8", "--gpus-per-node", "h100:8", "-l", "./x"])
    {'nodes': 2, 'ntasks_per_node': 8, 'gpus_per_node': 8}
    """
    found: dict[str, int] = {}
    i = 0
    while i < len(words):
        word = words[i]
        name, value = "", None
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
        elif re.fullmatch(r"-[NnGc]\d+(-\d+)?", word):
            name, value = _SHORT[word[:2]], word[2:]
        elif word in _SHORT:
            name = _SHORT[word]
        if name in _KEPT and not value and i + 1 < len(words):
            value = words[i + 1]
            i += 1
        count = _count(name, value or "")
        if count is not None:
            found[{"gres": "gpus_per_node"}.get(name, name.replace("-", "_"))] = count
        i += 1
    return found


def slurm_variables(counts: dict[str, int]) -> dict[str, str]:
    """The variables Slurm sets in a job with these counts.

    >>> slurm_variables({"nodes": 4, "ntasks_per_node": 8})["SLURM_NTASKS"]
    '32'
    """
    result: dict[str, str] = {}
    nodes, tasks, gpus = counts.get("nodes"), counts.get("ntasks_per_node"), counts.get("gpus_per_node")
    total = counts.get("ntasks") or (nodes * tasks if nodes and tasks else None)
    if nodes:
        result |= dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(nodes))
    if tasks:
        result["SLURM_NTASKS_PER_NODE"] = str(tasks)
    if total:
        result |= dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), str(total))
    if gpus:
        result |= dict.fromkeys(("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"), str(gpus))
    return result


def _count(name: str, value: str) -> int | None:
    if name not in _KEPT:
        return None
    if name == "gres" and "gpu" not in value:
        return None
    match = re.search(r"(\d+)\s*$", value.split("-")[0] if name == "nodes" else value.split(",")[0])
    if name == "gres":
        match = re.search(r"gpu(?::[A-Za-z_][\w.-]*)?:(\d+)", value)
    return int(match[1]) if match and 0 < int(match[1]) < 10**7 else None


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
