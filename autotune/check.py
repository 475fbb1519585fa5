"""Is a plan sound? Legal for its program, within memory, on the rails, and how far from the best on the same GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autotune.check_cluster import (
    STACK_OF,
    for_plan,
    nic_rate,
    node_size,
    quick_cluster,
    single_rate,
    sized,
    with_network,
)
from autotune.constants import GIB
from autotune.errors import InfeasibleError, InputError, Problem
from autotune.evaluate import Evaluation, evaluate
from autotune.legality import violations
from autotune.plan import Plan
from autotune.reader import Recovered, deepspeed_json, deepspeed_rules, model_spec, plan_of
from autotune.reader.recovered import complete
from autotune.specs import ClusterSpec, ModelSpec


def verdict(
    cluster: ClusterSpec, model: ModelSpec, plan: Plan, target: str = "megatron", gpus: int | None = None,
    broken: list[dict[str, Any]] | None = None, search: bool = True, waived: tuple[str, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """The verdict on a plan: `legal`, `violations`, `fits`, `memory_GiB`, `rail`, times, `best`, `gap`, `advice`, `sound`.

    `gpus` is the job's size where it is known apart from the plan, `broken` rules that flags broke already. A plan whose
    degrees cannot exist is judged but not priced. `waived` names rules of the plan that a flag replaces by its own.
    """
    on = single_rate(for_plan(cluster, plan))
    of_plan = [v for v in violations(model, plan, target, gpus) if v["rule"] not in waived]
    found = _merged([*(broken or []), *of_plan])
    e, unpriced = _price(on, model, plan, target)
    best = _best(on, model, plan, target) if search else None
    document: dict[str, Any] = {"legal": not found, "violations": found}
    document |= _numbers(e)
    document["best"] = best.to_dict() if best else None
    document["gap"] = e.iteration_time_s / best.iteration_time_s - 1 if e and best else None
    document["advice"] = [*_repairs(found), *_changes(on, model, e, search_target(model, target))]
    document["sound"] = bool(not found and e is not None and e.fits and e.rail["compatible"])
    if best and best.plan.id != plan.id and (not document["sound"] or document["gap"] > 0.005):
        document["advice"].append(_towards(plan, best, e))
    document["plan"] = plan.to_dict() if plan.global_batch_size >= 1 else None
    document["why"] = _why(found, e, unpriced)
    return document


def _why(found: list[dict[str, Any]], e: Evaluation | None, unpriced: str) -> str:
    """What makes a plan unsound, in a few words; empty for a sound one."""
    reasons = [f"it breaks {', '.join(v['rule'] for v in found)}"] if found else []
    if e is None:
        reasons.append(f"it cannot be priced: {unpriced}")
    else:
        if not e.fits:
            reasons.append(f"it needs {e.peak_bytes / GIB:.1f} of {e.capacity_bytes / GIB:.1f} GiB")
        if not e.rail["compatible"]:
            reasons.append("its traffic needs links between rails that the fabric does not have")
    return "; ".join(reasons)


def _changes(cluster: ClusterSpec, model: ModelSpec, e: Evaluation | None, target: str) -> list[dict[str, Any]]:
    """Single changes that help, those of the plan (free) before those of the job and the hardware."""
    from autotune.answers import what_to_change

    if e is None:
        return []
    rows = what_to_change(cluster, model, e, target)
    ordered = [r for r in rows if r["kind"] == "plan"][:4] + [r for r in rows if r["kind"] != "plan"][:2]
    return [{"text": r["text"], "kind": r["kind"], "change": {r["name"]: r["plan"].get(r["name"])}, "gain": r["gain"], "fits": r["fits"]} for r in ordered]


def _towards(plan: Plan, best: Evaluation, e: Evaluation | None) -> dict[str, Any]:
    time_s = best.iteration_time_s
    return {
        "text": f"the best plan: {summary(best.plan)}, {time_s:.4g} s per iteration", "kind": "best", "change": _differences(plan, best.plan),
        "gain": e.iteration_time_s / time_s - 1 if e else None, "fits": True,
    }  # fmt: skip


def _merged(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry per rule; the first that offers nearest values is kept."""
    by_rule: dict[str, dict[str, Any]] = {}
    for item in found:
        old = by_rule.get(item["rule"])
        if old is None or (not old["nearest"] and item["nearest"]):
            by_rule[item["rule"]] = item
    return list(by_rule.values())


def _price(cluster: ClusterSpec, model: ModelSpec, plan: Plan, target: str) -> tuple[Evaluation | None, str]:
    """The evaluation, or None and why there is none."""
    if plan.micro_batches < 1:
        return None, "there is less than one micro-batch"
    try:
        return evaluate(cluster, model, plan, target), ""
    except (InputError, ValueError, ZeroDivisionError) as error:
        return None, str(error)


def _numbers(e: Evaluation | None) -> dict[str, Any]:
    if e is None:
        return dict.fromkeys(("fits", "memory_GiB", "rail", "iteration_time_s", "mfu", "tokens_per_s_per_gpu", "breakdown_s"))
    whole = e.to_dict()
    whole["rail"] = {**whole["rail"], **cleanliness(e)}
    return {"fits": e.fits, **{k: whole[k] for k in ("memory_GiB", "rail", "iteration_time_s", "mfu", "tokens_per_s_per_gpu", "breakdown_s")}}


def cleanliness(e: Evaluation) -> dict[str, Any]:
    """`clean`: every group stays in its HB domain or on rails, and tensor groups do not leave the domain; `reasons` if not."""
    t, k = e.plan.tensor_parallel, e.plan.hb_domain_size
    reasons = []
    if not e.rail.get("rail_only_compatible", e.rail["compatible"]):
        kinds = sorted({g["kind"] for g in e.rail["groups"] if g["class"] == "illegal"})
        reasons.append(f"{', '.join(kinds) or 'some'} groups need links between rails")
    if t > k or k % t:
        spans = -(-t // k) if t % k == 0 else "several"
        reasons.append(f"tensor groups of {t} GPUs span {spans} HB domains of {k}")
    return {"clean": not reasons, "reasons": reasons}


def _best(cluster: ClusterSpec, model: ModelSpec, plan: Plan, target: str) -> Evaluation | None:
    from autotune.search import SearchOptions, search

    training = model.training.model_copy(update={"global_batch_size": plan.global_batch_size})
    asked = model.model_copy(update={"training": training})
    try:
        found = search(cluster, asked, SearchOptions(target=search_target(model, target), top=1, study=False))
    except InfeasibleError:
        return None
    return found.plans[0] if found.plans else None


def search_target(model: ModelSpec, target: str) -> str:
    """The launch target whose plans a script's plan is compared with."""
    if target == "deepspeed":
        return "deepspeed" if model.num_experts else "megatron-deepspeed"
    return "megatron" if target == "nanotron" else target


def _repairs(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    advice = []
    for item in found:
        for field, values in item["nearest"].items():
            listed = " or ".join(str(list(v) if isinstance(v, tuple) else v) for v in values)
            advice.append({"text": f"{item['rule']}: set {field} to {listed}", "kind": "rule", "change": {field: values[0]}, "gain": None, "fits": None})
            break
    return advice


def summary(plan: Plan) -> str:
    """The plan in one line."""
    more = f" C={plan.context_parallel}" if plan.context_parallel > 1 else ""
    more += f" E={plan.expert_parallel} X={plan.expert_tensor_parallel}" if plan.expert_parallel > 1 or plan.expert_tensor_parallel > 1 else ""
    more += f" V={plan.virtual_stages}" if plan.virtual_stages > 1 else ""
    return (
        f"T={plan.tensor_parallel} P={plan.pipeline_parallel} D={plan.data_parallel}{more} micro-batch {plan.micro_batch_size}, "
        f"recompute {plan.recompute}, ZeRO {plan.zero_stage}, sequence parallel {'on' if plan.sequence_parallel else 'off'}"
    )


def _differences(plan: Plan, best: Plan) -> dict[str, Any]:
    a, b = plan.to_dict(), best.to_dict()
    return {k: v for k, v in b.items() if a[k] != v and k not in ("id", "micro_batches", "distributed_optimizer")}


# --- scripts -----------------------------------------------------------------------------------------------------------


def supply(found: Recovered, model: ModelSpec | None, given: dict[str, int | None]) -> None:
    """Put in what the user gives beside the script: a model, and facts of the plan by name."""
    if model is not None:
        stated = {k: found.model[k] for k in ("seq_length",) if found.model.get(k)}
        found.model = {**model.model_dump(exclude={"training", "search", "description", "source"}, exclude_none=True), **stated}
        found.derived.update(dict.fromkeys(found.model))
        found.missing = {k: v for k, v in found.missing.items() if k != "MODEL" and not k.endswith((".yaml", ".yml"))}
    for key, value in given.items():
        if value is not None:
            section = found.model if key == "seq_length" else found.plan
            section[key] = value
            found.missing.pop({"micro_batch_size": "MICRO_BATCH_SIZE"}.get(key, key), None)
    if model is not None or any(v is not None for v in given.values()):
        if found.plan.get("stage_layers") and sum(found.plan["stage_layers"]) != found.model.get("num_layers"):
            del found.plan["stage_layers"]
        if given.get("micro_batch_size") is not None and given.get("global_batch_size") is None and "global_batch_size" in found.derived:
            found.plan.pop("global_batch_size", None)
            found.plan.pop("gradient_accumulation", None)
        complete(found)


def check_script(
    found: Recovered, cluster: ClusterSpec | None, gpu: str | None, hb_size: int | None, nic_Gbps: float | None, fabric: str | None,
    stack: str | None = None, search: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """The verdict on what a script would start, with what was recovered from it. InputError names what is missing."""
    _tokens_as_micro_batch(found)
    model = model_spec(found)
    gpus = found.launch.get("world_size")
    network = _plan(found, cluster, gpu, hb_size, nic_Gbps, fabric, stack) if gpus else None
    if network is None:
        plan_of(found, "megatron-core", 8, 400.0, "rail-only")  # names what the plan lacks
    if model is None or network is None or found.missing:
        raise _unreadable(found)
    on, named = network
    waived = ("micro_batches_per_chunk_group",) if found.launch.get("chunk_group") else ()
    document = verdict(on, model, named, found.target, gpus, found.violations, search, waived)
    return {**document, "recovered": {**found.to_dict(), "model": {**found.model, "vocab_size": model.vocab_size}}, "gpus": gpus}


def _plan(found: Recovered, cluster: ClusterSpec | None, gpu: str | None, hb_size: int | None, nic_Gbps: float | None, fabric: str | None, stack: str | None) -> tuple[ClusterSpec, Plan] | None:
    gpus = found.launch["world_size"]
    if cluster is None:
        if gpu is None:
            raise InputError.of("needs a network to judge the script on: a CLUSTER, or --gpu NAME", key="--gpu")
        cluster = quick_cluster(gpu, gpus, hb_size, nic_Gbps, fabric or "rail-optimized")
    else:
        cluster = with_network(cluster, nic_Gbps, fabric)
        if hb_size:
            cluster = cluster.model_copy(update={"hb_domain": cluster.hb_domain.model_copy(update={"size": hb_size})})
        limit = max(cluster.gpus) if isinstance(cluster.gpus, list) else cluster.gpus
        if gpus > limit:
            found.note(f"the script asks for {gpus} GPUs, the cluster has {limit}; it is priced on {gpus}")
        cluster = sized(cluster, gpus)
    cluster = cluster.model_copy(update={"stack": stack or STACK_OF.get(found.kind, cluster.stack)})
    size = cluster.hb_domain.size
    plan = plan_of(found, cluster.stack, size if isinstance(size, int) else 8, nic_rate(cluster), cluster.network.fabric)
    return (cluster, plan) if plan else None


def _tokens_as_micro_batch(found: Recovered) -> None:
    """Dynamic batching: sequences of full length that fill the token limit stand for the micro-batch."""
    tokens, seq = found.plan.get("tokens_per_gpu"), found.model.get("seq_length")
    if not tokens or found.plan.get("micro_batch_size"):
        return
    if not seq:
        found.model["seq_length"] = tokens
        found.assumed.append(f"seq_length {tokens}: the token limit of a GPU")
    found.plan["micro_batch_size"] = max(1, tokens // found.model["seq_length"])
    complete(found)


def _unreadable(found: Recovered) -> InputError:
    problems = [Problem(f"cannot be known from the script; needed for {why}", key=name) for name, why in found.missing.items()]
    if not problems:
        problems = [Problem("the script does not say enough to make a plan", key="NNODES")]
    error = InputError(problems)
    error.message = "missing: " + "; ".join(f"{name} ({why})" for name, why in found.missing.items()) + ". Give values with --set NAME=VALUE"
    error.details |= {"missing": found.missing, "recovered": found.to_dict()}
    return error


def check_deepspeed(
    path: str, cluster: ClusterSpec, model: ModelSpec, given: dict[str, int | None], stack: str | None = None, search: bool = True
) -> dict[str, Any]:
    """The verdict on a DeepSpeed configuration for a model on a cluster; degrees come from `given`, else 1."""
    from autotune.textfile import read_text

    config = deepspeed_json.read_text(read_text(path), path)
    found = Recovered("deepspeed", target="deepspeed")
    deepspeed_json.apply(found, config)
    deepspeed_rules.check(found, config)
    tensor = config.get("tensor_parallel")
    if isinstance(tensor, dict) and isinstance(tensor.get("autotp_size"), int) and tensor["autotp_size"] > 0:
        found.plan["tensor_parallel"] = tensor["autotp_size"]
    pipeline = config.get("pipeline")
    if isinstance(pipeline, dict) and isinstance(pipeline.get("stages"), int) and pipeline["stages"] > 0:
        found.plan["pipeline_parallel"] = pipeline["stages"]
    found.launch["world_size"] = max(cluster.gpus) if isinstance(cluster.gpus, list) else cluster.gpus
    found.derive("plan", "recompute", "full" if isinstance(config.get("activation_checkpointing"), dict) else "none")
    found.launch["program"] = Path(path).name
    supply(found, model, given)
    complete(found)
    deepspeed_json.batch(found)
    complete(found)
    if not found.plan.get("precision"):
        found.plan["precision"] = model.training.precision
    return check_script(found, cluster, None, None, None, None, stack, search)


def default_per_node(cluster: ClusterSpec | None, gpu: str | None, hb_size: int | None) -> int | None:
    """GPUs of a node where a script does not say."""
    if cluster is not None:
        return node_size(cluster)
    return None if gpu is None else min(8, hb_size or 8)
