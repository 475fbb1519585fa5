"""Checks of legality: verdicts, legal values, layouts, batches, groups, placement."""

from __future__ import annotations

from typing import Any

import numpy as np
from user_case_harness import HOSTS, Case, check, cluster_of, model_of, near, plan_of, preset, price, setup

from autotune import answers
from autotune.legality import violations
from autotune.plan import Plan
from costmodels.parameters import padded_vocab
from costmodels.tensors import expert_token_bytes, off_domain_share

MIB = 2**20


def broken(case: Case, plan: dict[str, Any], target: str) -> list[dict[str, Any]]:
    """The rules a plan of the case breaks, the job being as large as the case says."""
    inputs = case.inputs
    if "model" in plan or "kv_heads" in plan:
        plan = {**inputs.get("plan", {}), **plan}
    model = model_of({**inputs["model"], "kv_heads": plan["kv_heads"], "heads": 4 * plan["kv_heads"]} if "kv_heads" in plan else inputs["model"], plan)
    world = inputs.get("world")
    if world is None and "cluster" in inputs:
        world = (inputs["cluster"].get("nodes") or 1) * inputs["cluster"].get("gpus_per_node", 8)
    inside = plan.get("tp", 1) * plan.get("pp", 1) * plan.get("cp", 1) * plan.get("dp", 1)
    cluster = cluster_of({"gpu": "H100-80GB-SXM", "gpus_per_node": 1, "nodes": max(world or 0, inside)})
    return violations(model, plan_of(plan, model, cluster), target, world)


@check("verdict")
def verdict(case: Case, given: dict[str, Any]) -> None:
    plan = {**case.plans()[given.get("index", 0)], **given.get("plan", {})}
    target = given.get("backend", "megatron")
    expected = given["equals"]
    if expected == "fits":
        for option in case.plans():
            found = answers.verdict(price(case, option, case.inputs.get("target", "megatron")))
            assert found in ("fits", "tight"), (option, found)
        return None
    if expected == "invalid_without_layout":
        return _needs_layout(case, plan, target)
    found = broken(case, plan, target)
    if "layers_per_virtual_stage" in plan:
        problem = answers.chunk_problem(case.inputs["model"]["layers"], plan["pp"], plan["layers_per_virtual_stage"])
        found = [{"message": problem}] if problem else []
    text = " ".join(v["message"] for v in found)
    if expected == "invalid":
        assert found, "no rule is broken"
        if not given.get("plan") and target == "megatron":
            missing = [w for w in case.data["expect"].get("error_contains", []) if str(w) not in text]
            assert not missing, f"{missing} not in: {text}"
        return None
    assert expected in ("valid", "valid_with_replication"), expected
    assert not found, text
    if expected == "valid_with_replication":
        assert answers.replicated_kv_heads(model_of(case.inputs["model"]), plan["tp"]) > 1
    return None


def _needs_layout(case: Case, plan: dict[str, Any], target: str) -> None:
    # Equal stages would lose layers: that is a broken rule, and the uneven split on offer holds them all.
    layers = model_of(case.inputs["model"]).num_layers
    equal = {**plan, "stages": [layers // plan["pp"]] * plan["pp"]}
    found = broken(case, equal, target)
    rule = next(v for v in found if v["rule"] == "layers_per_stage")
    assert str(sum(equal["stages"])) in rule["message"] and str(layers) in rule["message"], rule
    assert all(sum(s) == layers for s in rule["nearest"]["stage_layers"])
    offered = {k: v for k, v in plan.items() if k != "stages"}
    assert not [v for v in broken(case, offered, target) if v["rule"] == "layers_per_stage"]


@check("layers_sum")
def layers_sum(case: Case, given: dict[str, Any]) -> None:
    layers, stages = case.inputs["model"]["layers"], case.inputs["plan"]["pp"]
    found = answers.layouts(layers, stages)
    assert found and all(sum(layout.stage_layers) == given["equals"] for layout in found)


@check("suggests_any")
def suggests_any(case: Case, given: dict[str, Any]) -> None:
    layers = model_of(case.inputs["model"]).num_layers
    suggested = [layout.stage_layers for layout in answers.layouts(layers, case.inputs["plan"]["pp"])]
    even = answers.even_pipelines(layers, range(1, layers + 1))
    wanted = given["plans"]
    assert any(tuple(w["stages"]) in suggested if "stages" in w else w["pp"] in even for w in wanted), (suggested, even)


@check("valid_values")
def valid_values(case: Case, given: dict[str, Any]) -> None:
    if given["name"] == "layers_per_virtual_stage":
        found = answers.chunk_layer_choices(case.inputs["model"]["layers"], case.inputs["plan"]["pp"])
    else:
        axis = {"tp": "tensor_parallel", "pp": "pipeline_parallel", "ep": "expert_parallel", "cp": "context_parallel"}[given["name"]]
        found = answers.legal_values(model_of(case.inputs["model"]), axis, given["max"], given.get("backend", "megatron"))
    assert found == given["value"], found


@check("min_world")
def min_world(case: Case, given: dict[str, Any]) -> None:
    p = case.inputs["plan"]
    found = answers.smallest_world(p.get("tp", 1), p.get("pp", 1), p.get("cp", 1), p.get("ep", 1), p.get("etp", 1))
    assert found == given["value"], found


@check("expert_group_size")
def expert_group_size(case: Case, given: dict[str, Any]) -> None:
    p = case.inputs["plan"]
    assert answers.smallest_world(pipeline=p["pp"], expert=p["ep"], expert_tensor=p["etp"]) == given["value"]


@check("stage_layers")
def stage_layers(case: Case, given: dict[str, Any]) -> None:
    i = given.get("inputs")
    if i:
        found = answers.edges_counted(i["layers"], i["pp"], i["account_embedding"], i["account_loss"])
    else:
        found = setup(case, case.inputs["plan"])[2].stage_layers
    assert list(found or ()) == given["value"], found


@check("even_pp")
def even_pp(case: Case, given: dict[str, Any]) -> None:
    assert answers.even_pipelines(given["layers"], case.inputs["pp"]) == given["value"]


@check("even_pp_with_embedding_and_loss")
def even_pp_with_edges(case: Case, given: dict[str, Any]) -> None:
    assert answers.even_pipelines(given["layers"], case.inputs["pp"], edges=2) == given["value"]


@check("padded_vocab")
def padded(case: Case, given: dict[str, Any]) -> None:
    from autotune.constants import model_constants

    model = model_constants(model_of({"vocab": given["vocab"], "pad_to": given["multiple"]}))
    assert padded_vocab(model, given["tp"]) == given["value"]


@check("nearest_valid_gbs")
def nearest_valid_gbs(case: Case, given: dict[str, Any]) -> None:
    found = broken(case, case.inputs["plan"], "megatron")
    nearest = next(v["nearest"]["global_batch_size"] for v in found if "global_batch_size" in v["nearest"])
    assert nearest == given["value"], nearest


@check("samples_per_replica")
def samples_per_replica(case: Case, given: dict[str, Any]) -> None:
    i = given["inputs"]
    assert answers.samples_per_replica(i["world"], i["gbs"], tensor=i["mp"]) == given["value"]


@check("seq_multiple")
def seq_multiple(case: Case, given: dict[str, Any]) -> None:
    cp, tp, sp, value = given["cp"], given["tp"], given["sp"], given["value"]
    assert answers.sequence_multiple(tp, cp, sp) == value
    # The rules say the same of the lengths themselves: the multiple is legal, no smaller length is.
    legal = [n for n in range(1, value + 1) if not _sequence_rules(n, tp, cp, sp)]
    assert legal == [value] or cp == tp == 1, legal


def _sequence_rules(seq: int, tp: int, cp: int, sp: bool) -> list[str]:
    model = model_of({"heads": 24, "kv_heads": 24, "hidden": 768, "seq": seq})
    plan = Plan(tensor_parallel=tp, context_parallel=cp, sequence_parallel=sp, stage_layers=(8,))
    return [v["rule"] for v in violations(model, plan) if v["rule"].startswith("sequence_per")]


@check("rule_coverage")
def rule_coverage(case: Case, given: dict[str, Any]) -> None:
    """Every error of the list is caught by a rule that names its numbers, or cannot be written by the emitter."""
    model = preset("llama-3-8b")
    base = {"tp": 1, "pp": 1, "dp": 8, "gbs": 64}

    def rules(plan: dict[str, Any], spec: Any = model, world: int | None = None) -> list[dict[str, Any]]:
        cluster = cluster_of({"gpu": "H100-80GB-SXM", "gpus_per_node": 8, "nodes": 1})
        return violations(spec, plan_of({**base, **plan}, spec, cluster), "megatron", world)

    caught = {
        "world": rules({"tp": 8, "pp": 2, "dp": 1}, world=8),
        "interleaving": rules({"vpp": 2}),
        "heads": rules({"tp": 3, "dp": 1}),
        "experts": rules({"ep": 2}),
        "expert_grid": rules({"ep": 8, "dp": 4, "gbs": 64}, preset("mixtral-8x7b")),
    }
    assert all(caught.values()), {k: bool(v) for k, v in caught.items()}
    assert all(any(c.isdigit() for c in v["message"]) for found in caught.values() for v in found)
    assert all(v["nearest"] for found in caught.values() for v in found[:1]), caught
    flags = " ".join(emitted_text("megatron", {**base, "pp": 2, "dp": 4, "sp": True}).split())
    assert flags.count("--bf16") >= 1 and "--fp16" not in flags and "--sequence-parallel" not in flags
    assert len(caught) + 3 == given["value"]  # dtype with a pipeline, fp16 and bf16 together, sequence parallel without tensor


def emitted_text(target: str, plan: dict[str, Any], model: str = "llama-3-8b", **cluster: Any) -> str:
    """All launch files of a plan in one text."""
    from autotune.emit import emit

    where = cluster_of({"gpu": "H100-80GB-SXM", "gpus_per_node": 8, "nodes": 1, **cluster}, plan)
    spec = model_of(model)
    named = plan_of(plan, spec, where)
    where = where.model_copy(update={"gpus": named.gpus})
    return "\n".join(emit(target, where, spec, named).values())


@check("group_ok")
def group_ok(case: Case, given: dict[str, Any]) -> None:
    from costmodels.topology import UNREACHABLE
    from searchspaces.placement import classify

    code = int(classify(np.array([given["ranks"]]), given["gpus_per_node"])[0])
    assert (code != UNREACHABLE) == given["value"], code


@check("rank_groups")
def rank_groups(case: Case, given: dict[str, Any]) -> None:
    from costmodels.examples import POINT
    from searchspaces.groups import ORDERS, coordinates, members

    p = given["plan"]
    order = ORDERS.index(given.get("order", ORDERS[0]))
    point = POINT._replace(tensor=p.get("tp", 1), pipeline=p.get("pp", 1), data=p.get("dp", 1), context=p.get("cp", 1), order=order)
    axis, rank = given["group"].split("_of_rank")
    if axis == "dp":  # the pure data-parallel group: the gradient group spans context too
        c = coordinates(point)
        same = np.all([c[a] == c[a][int(rank)] for a in ("tp", "cp", "pp")], axis=0)
        found = np.flatnonzero(same).tolist()
    else:
        groups = members(point, {"cp": "context", "pp": "pipeline", "tp": "tensor"}[axis])
        found = next(g.tolist() for g in groups if int(rank) in g)
    assert found == given["value"], found


@check("ep_mib_per_token")
def ep_mib_per_token(case: Case, given: dict[str, Any]) -> None:
    near(_expert_mib(given["inputs"]), given, "MiB per token")


@check("ep_slow_mib_per_token")
def ep_slow_mib_per_token(case: Case, given: dict[str, Any]) -> None:
    i = given["inputs"]
    near(_expert_mib(i) * float(off_domain_share(i["ep"], i["hb"])), given, "MiB per token off the domain")


def _expert_mib(i: dict[str, Any]) -> float:
    return i["layers"] * float(expert_token_bytes(i["hidden"], i["topk"], i["ep"], 2.0)) / MIB


@check("gpu_to_nic")
def gpu_to_nic(case: Case, given: dict[str, Any]) -> None:
    from autotune.importers.run import Request, import_cluster

    result = import_cluster(Request(smi_topo=str(HOSTS / given["file"]), gpu="H800-80GB-SXM"))
    assert result.to_dict(None)["host"]["gpu_to_nic"] == given["value"], result.to_dict(None)["host"]
