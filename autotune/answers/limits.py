"""What limits a plan: the parts of its iteration that are not useful work, largest first, and how full memory is."""

from __future__ import annotations

from typing import Any

from autotune.constants import GIB
from autotune.evaluate import Evaluation

CAUSES = {
    "recompute": "running layers again to save memory",
    "tensor_comm": "tensor-parallel communication",
    "context_comm": "context-parallel communication",
    "expert_comm": "expert-parallel communication",
    "pipeline_comm": "pipeline transfers",
    "pipeline_bubble": "the pipeline bubble",
    "data_comm": "data-parallel communication",
    "optimizer": "the optimizer step",
    "overhead": "launch and fixed costs",
}
NEARLY_FULL = 0.90  # of what a plan may use
WORTH_NAMING = 0.01  # of the iteration


def limits(evaluation: Evaluation) -> list[dict[str, Any]]:
    """What limits a plan, most limiting first: `{"what", "share", "seconds", "text"}`.

    `share` is of the iteration time, for `memory` of the capacity of a GPU (`seconds` is then 0). Memory comes first when
    the plan does not fit, last when it is nearly full. `compute` closes the list of times: what is left is the useful work.

    >>> from autotune.load import load_cluster, load_model
    >>> from autotune.evaluate import evaluate
    >>> from autotune.plan import Plan
    >>> plan = Plan(tensor_parallel=8, data_parallel=128, global_batch_size=1024, stage_layers=(80,), sequence_parallel=True)
    >>> found = limits(evaluate(load_cluster("h100-superpod-1024"), load_model("llama-3-70b"), plan))
    >>> "tensor_comm" in [f["what"] for f in found]
    True
    """
    total = evaluation.iteration_time_s
    found = []
    for what, cause in CAUSES.items():
        seconds = getattr(evaluation.breakdown, what)
        share = seconds / total if total > 0 else 0.0
        if share >= WORTH_NAMING:
            found.append({"what": what, "share": share, "seconds": seconds, "text": f"{cause}: {share:.1%} of the iteration"})
    found.sort(key=lambda f: -f["share"])
    compute = evaluation.breakdown.compute
    share = compute / total if total > 0 else 0.0
    found.append({"what": "compute", "share": share, "seconds": compute, "text": f"compute: {share:.1%} of the iteration"})
    memory = _memory(evaluation)
    if memory is not None and not evaluation.fits:
        return [memory, *found]
    return found if memory is None else [*found, memory]


def _memory(evaluation: Evaluation) -> dict[str, Any] | None:
    peak, capacity = evaluation.peak_bytes, evaluation.capacity_bytes
    share = peak / capacity
    if share < NEARLY_FULL:
        return None
    if share > 1:
        text = f"memory: {(peak - capacity) / GIB:.1f} GiB more than the {capacity / GIB:.1f} GiB of a GPU"
    else:
        text = f"memory: {share:.0%} of a GPU's {capacity / GIB:.1f} GiB is in use"
    return {"what": "memory", "share": share, "seconds": 0.0, "text": text}
