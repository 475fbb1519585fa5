"""When nothing fits: the reject counts, the closest miss, and the smallest change that would fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autotune.constants import GIB
from autotune.errors import InfeasibleError, InputError
from autotune.evaluate import evaluate
from autotune.plan_points import plan_of
from autotune.setting import Setting
from autotune.specs import ClusterSpec, ModelSpec

if TYPE_CHECKING:
    from autotune.cells import CellSearch
    from autotune.search import Account, SearchOptions

MAX_DOUBLINGS = 12


def explain_infeasible(
    cluster: ClusterSpec,
    model: ModelSpec,
    setting: Setting,
    account: Account,
    cells: CellSearch,
    options: SearchOptions,
    report: dict[str, Any],
) -> InfeasibleError:
    """The error for a setting without a feasible plan, with what would help."""
    rejected = report["rejected"]
    lines = ["no plan is legal and fits"]
    details: dict[str, Any] = {"search": report, "rejected": rejected}
    main = sorted(((n, k) for k, n in rejected.items()), reverse=True)[:6]
    lines.append("rejected: " + ", ".join(f"{k} {n:,}" for n, k in main) if main else f"no allowed degrees multiply to {setting.gpus} GPUs")
    over, number, index = account.miss
    if index >= 0:
        plan = plan_of(cells.lattice.point(cells.cell(number), index), model.num_layers, setting, cluster.stack)
        close = evaluate(cluster, model, plan, options.target)
        details["closest_miss"] = {"over_GiB": over / GIB, "plan": close.to_dict()}
        lines.append(
            f"closest miss: {over / GIB:.1f} GiB over the {close.capacity_bytes / GIB:.1f} GiB of a GPU with "
            f"T={plan.tensor_parallel} P={plan.pipeline_parallel} D={plan.data_parallel} C={plan.context_parallel} "
            f"E={plan.expert_parallel} micro-batch {plan.micro_batch_size} recompute {plan.recompute} ZeRO {plan.zero_stage}"
        )
    change = smallest_change(cluster, model, setting, options)
    details["smallest_change"] = change
    lines.append("smallest change that would fit: " + (change["text"] if change else "none found among more GPUs and larger GPUs"))
    return InfeasibleError("\n".join(lines), **details)


def smallest_change(cluster: ClusterSpec, model: ModelSpec, setting: Setting, options: SearchOptions) -> dict[str, Any] | None:
    """More GPUs (doubling), or the smallest catalogue GPU of the same vendor with which the model fits; None if neither helps.

    Limits in the model file are named first when they are what excludes every plan.
    """
    from autotune.search import feasible_exists
    from autotune.specs import SearchSpec

    if model.search != SearchSpec():
        free = model.model_copy(update={"search": SearchSpec()})
        if _fits(feasible_exists, cluster, free, setting, options):
            return {"kind": "limits", "text": "lift the limits in the model file's `search` section"}
    found = []
    for doubling in range(1, MAX_DOUBLINGS):
        larger = replace(setting, gpus=setting.gpus << doubling)
        if _fits(feasible_exists, cluster.model_copy(update={"gpus": larger.gpus}), model, larger, options):
            found.append(f"{larger.gpus} GPUs instead of {setting.gpus}")
            break
    bigger = _bigger_gpu(cluster, model, setting, options)
    if bigger:
        found.append(f"{setting.gpus} x {bigger}")
    if not found:
        return None
    return {"kind": "hardware", "text": ", or ".join(found), "options": found}


def _bigger_gpu(cluster: ClusterSpec, model: ModelSpec, setting: Setting, options: SearchOptions) -> str | None:
    from autotune import catalogue
    from autotune.cluster_checks import gpu_of
    from autotune.search import feasible_exists

    own = gpu_of(cluster)
    candidates = sorted(
        (g for g in (catalogue.find_gpu(n) for n in catalogue.names("gpus")) if g.vendor == own.vendor and g.memory_GiB > own.memory_GiB),
        key=lambda g: g.memory_GiB,
    )
    for gpu in candidates:
        if _fits(feasible_exists, cluster.model_copy(update={"gpu": gpu.name}), model, setting, options):
            return gpu.name
    return None


def _fits(feasible: Any, cluster: ClusterSpec, model: ModelSpec, setting: Setting, options: SearchOptions) -> bool:
    try:
        return bool(feasible(cluster, model, setting, options))
    except InputError:
        return False
