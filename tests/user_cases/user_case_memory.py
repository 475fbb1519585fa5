"""Checks of memory: states, single tensors, peaks, what fits."""

from __future__ import annotations

import dataclasses
from typing import Any

from user_case_harness import Case, check, cluster_of, model_of, near, plan_of, price, setup

from autotune import answers
from autotune.constants import GB, GIB, model_constants
from autotune.evaluate import Evaluation
from costmodels.parameters import total_parameters
from costmodels.tensors import attention_scores_bytes, expert_tokens, logits_tensor_bytes

MIB = 2**20


def state_GiB(e: Evaluation) -> float:
    """Weights, gradients and optimizer state per GPU, mean over stages."""
    return sum(s.weights + s.gradients + s.optimizer for s in e.stages) / len(e.stages) / GIB


def option(case: Case, given: dict[str, Any]) -> dict[str, Any]:
    """The plan a check is about: its own, or the one its index names."""
    return {**case.plans()[given.get("index", 0)], **given.get("inputs", {})} if "plan" not in given else given["plan"]


@check("static_gib")
def static_gib(case: Case, given: dict[str, Any]) -> None:
    near(state_GiB(price(case, {"seq": case.inputs.get("plan", {}).get("seq", 2048), **given["plan"]})), given, "state GiB")


@check("recommend_sharded_optimizer")
def recommend_sharded_optimizer(case: Case, given: dict[str, Any]) -> None:
    cluster, model, plan = setup(case, {**case.inputs["plan"], "zero": 0})
    changes = answers.what_to_change(cluster, model, answers_evaluate(cluster, model, plan))
    assert any(c["name"] == "zero_stage" for c in changes), [c["text"] for c in changes]


def answers_evaluate(cluster: Any, model: Any, plan: Any) -> Evaluation:
    from autotune.evaluate import evaluate

    return evaluate(cluster, model, plan, rail=False)


@check("tensor_mib")
def tensor_mib(case: Case, given: dict[str, Any]) -> None:
    near(tensor_bytes(given) / MIB, given, given["tensor"])


@check("tensor_gib")
def tensor_gib(case: Case, given: dict[str, Any]) -> None:
    near(tensor_bytes(given) / GIB, given, given["tensor"])


def tensor_bytes(given: dict[str, Any]) -> float:
    i = given["inputs"]
    tokens = float(i["mbs"] * i["seq"])
    if given["tensor"] == "logits_fp32":
        return float(logits_tensor_bytes(tokens, i["vocab"], i.get("pad_to", 128), i.get("tp", 1), 4.0))
    assert given["tensor"] == "attention_scores_fp32", given["tensor"]
    return float(attention_scores_bytes(float(i["mbs"]), i["heads"], i["seq"], i.get("tp", 1), i.get("cp", 1), 4.0))


@check("peak_gib_at_least")
def peak_gib_at_least(case: Case, given: dict[str, Any]) -> None:
    found = price(case, option(case, given)).peak_bytes / GIB
    assert found >= given["value"], f"peak {found:.1f} GiB, at least {given['value']}"


@check("peak_gib_exceeds_user_estimate")
def peak_gib_exceeds_user_estimate(case: Case, given: dict[str, Any]) -> None:
    found = price(case, option(case, given)).peak_bytes / GIB
    assert found > given["value"], f"peak {found:.1f} GiB, more than the {given['value']} someone estimated"


@check("peak_gb_within")
def peak_gb_within(case: Case, given: dict[str, Any]) -> None:
    near(price(case, option(case, given)).peak_bytes / GB, given, "peak GB")


@check("includes_term")
def includes_term(case: Case, given: dict[str, Any]) -> None:
    e = price(case, option(case, given))
    report = answers.oom_report(e)
    if "bucket" in given["term"]:
        assert report["parts_GiB"]["buffers"] > 0 or report["parts_GiB"]["gradients"] > 0, report["parts_GiB"]
        assert "buckets" in report["parts_text"]["buffers"], report["parts_text"]
        return
    assert "optimizer" in given["term"], given["term"]
    by_phase = {p["phase"]: p["GiB"] for p in report["phases"]}
    state = max(s.optimizer for s in e.stages) / GIB
    assert state > 0 and by_phase["first optimizer step"] >= by_phase["load"] + 0.9 * state, by_phase


@check("zero1_saving_gib")
def zero1_saving_gib(case: Case, given: dict[str, Any]) -> None:
    plan = case.inputs["plan"]
    peaks = [price(case, {**plan, "zero": z}).peak_bytes / GIB for z in (0, 1)]
    assert abs(peaks[0] - peaks[1] - given["value"]) < 1e-6, peaks


@check("total_state_gb")
def total_state_gb(case: Case, given: dict[str, Any]) -> None:
    model = model_of(case.inputs["model"])
    per_parameter = answers.state_bytes_per_parameter("megatron-core")
    near(per_parameter * int(total_parameters(model_constants(model))) / GB, given, "state GB")


@check("floor_gib_per_gpu")
def floor_gib_per_gpu(case: Case, given: dict[str, Any]) -> None:
    near(answers.state_floor_GiB(model_of(case.inputs["model"]), given["gpus"]), given, "floor GiB")


@check("stored_activation_gib")
def stored_activation_gib(case: Case, given: dict[str, Any]) -> None:
    cluster, model, plan = setup(case, {**case.inputs["plan"], "recompute": given["inputs"]["recompute"]})
    rows = answers.recompute_options(cluster, model, plan)
    near(next(r["stored_GiB"] for r in rows if r["recompute"] == plan.recompute), given, "stored GiB")


@check("monotone")
def monotone(case: Case, given: dict[str, Any]) -> None:
    peaks = [price(case, {**case.inputs["plan"], "recompute": mode}).peak_bytes for mode in given["order"]]
    assert peaks == sorted(peaks) and len(set(peaks)) > 1, peaks


@check("weights_gib")
def weights_gib(case: Case, given: dict[str, Any]) -> None:
    cluster, model, plan = setup(case, {**case.inputs["plan"], **given["plan"]})
    if given.get("tensor") == "routed_experts_bf16":
        found = routed_parameters(model, plan) * 2 / GIB
    else:
        e = answers_evaluate(cluster, model, plan)
        found = max(s.weights for s in e.stages) / GIB
    near(found, given, "weights GiB")


def routed_parameters(model: Any, plan: Any) -> int:
    """Expert parameters on one GPU, all stages together."""
    from costmodels.parameters import layer_parameters, moe_layers_before

    numbers = model_constants(model)
    _, own = layer_parameters(numbers, plan.tensor_parallel, plan.expert_tensor_parallel, plan.expert_parallel, 1)
    return int(moe_layers_before(numbers, numbers.layers) * own) // plan.pipeline_parallel


@check("routed_params_per_rank")
def routed_params_per_rank(case: Case, given: dict[str, Any]) -> None:
    _, model, plan = setup(case, case.inputs["plan"])
    assert routed_parameters(model, plan) == given["value"]


@check("must_not_equal")
def must_not_equal(case: Case, given: dict[str, Any]) -> None:
    _, model, plan = setup(case, case.inputs["plan"])
    assert routed_parameters(model, plan) != given["value"]


@check("expert_tokens")
def tokens_of_experts(case: Case, given: dict[str, Any]) -> None:
    i = given["inputs"]
    assert expert_tokens(float(i["seq"] * i["mbs"]), i["topk"], float(i["tp"]), i["etp"]) == given["value"]


@check("plan_verdict")
def plan_verdict(case: Case, given: dict[str, Any]) -> None:
    kept = {k: v for k, v in case.inputs.get("plan", {}).items() if k in ("seq", "mbs", "gbs", "recompute", "training", "sp")}
    plan = {**kept, **given["plan"]}
    found = answers.verdict(price(case, plan))
    expected = {"fits": ("fits", "tight"), "does_not_fit": ("does_not_fit",)}[given["equals"]]
    assert found in expected, f"{found}: {price(case, plan).peak_bytes / GIB:.1f} GiB"


@check("verdict_for_index")
def verdict_for_index(case: Case, given: dict[str, Any]) -> None:
    expected = {"does_not_fit": {"does_not_fit"}, "does_not_fit_or_tight": {"does_not_fit", "tight"}, "fits": {"fits", "tight"}}[given["equals"]]
    for i in given["indices"]:
        e = price(case, case.plans()[i])
        assert answers.verdict(e) in expected, f"option {i}: {answers.verdict(e)}, {e.peak_bytes / GIB:.1f} of {e.capacity_bytes / GIB:.1f} GiB"


@check("min_gpus")
def min_gpus(case: Case, given: dict[str, Any]) -> None:
    cluster = cluster_of({"gpu": given["gpu"], "gpus_per_node": 8, "nodes": 1})
    model = model_of(case.inputs["model"], batch=case.inputs.get("batch", 1024))
    found = answers.min_gpus(cluster, model)["gpus"]
    assert found is not None and given["at_least"] <= found <= given["at_most"], found


@check("margin")
def margin(case: Case, given: dict[str, Any]) -> None:
    """A plan whose predicted peak leaves less than the margin is called tight, one that leaves more is not."""
    e = price(case, case.inputs["plan"])
    edge = e.peak_bytes / (1 - given["min_fraction"])
    assert answers.verdict(dataclasses.replace(e, capacity_bytes=0.999 * edge)) == "tight"
    assert answers.verdict(dataclasses.replace(e, capacity_bytes=1.001 * edge)) == "fits"
    assert "reserve" in answers.oom_report(e)["parts_GiB"]


@check("mentions")
def mentions(case: Case, given: dict[str, Any]) -> None:
    cluster, model, plan = setup(case, case.inputs["plan"])
    e = answers_evaluate(cluster, model, plan)
    text = " ".join([*answers.oom_report(e)["text"], *(c["text"] for c in answers.what_to_change(cluster, model, e, "deepspeed"))])
    missing = [word for word in given["all"] if word not in text]
    assert not missing, f"{missing} not in: {text}"


@check("heaviest_stage")
def heaviest_stage(case: Case, given: dict[str, Any]) -> None:
    report = answers.oom_report(price(case, case.plans()[given.get("index", 0)]))
    assert report["stage"] == {"first": 0}[given["value"]], report["text"]


@check("difference_gb")
def difference_gb(case: Case, given: dict[str, Any]) -> None:
    a, b = (price(case, case.plans()[i]).peak_bytes / GB for i in given["indices"])
    assert given["at_least"] <= a - b <= given["at_most"], f"{a:.1f} - {b:.1f} GB"


@check("memory_ratio")
def memory_ratio(case: Case, given: dict[str, Any]) -> None:
    plan = case.inputs["plan"]
    chunks = {"1f1b": 1, "interleaved": case.inputs["virtual_stages"]}
    a, b = (price(case, {**plan, "vpp": chunks[given[k]]}).peak_bytes for k in ("a", "b"))
    near(a / b, given, "ratio of peaks")


@check("verdict_per_option")
def verdict_per_option(case: Case, given: dict[str, Any]) -> None:
    inputs = case.inputs
    for i, expected in enumerate(given["value"]):
        if "cluster_options" in inputs:
            found = _any_fits(case, inputs["cluster_options"][i])
        elif "files" in inputs:
            found = _covered(inputs["files"][i])
        else:
            option_ = inputs["plan_options"][i]
            _, model, plan = setup(case, option_)
            from autotune.legality import violations

            found = "invalid" if violations(model, plan) else "valid"
        assert found in expected.split("_or_"), f"option {i}: {found}, expected {expected}"


def _any_fits(case: Case, where: dict[str, Any]) -> str:
    cluster = cluster_of(where)
    model = model_of(case.inputs["model"], batch=64)
    for option_ in case.inputs["plan_options"]:
        if option_["pp"] * option_["tp"] > cluster.gpus:
            continue
        plan = plan_of({**option_, "recompute": "full"}, model, cluster)
        if answers_evaluate(cluster, model, plan).fits:
            return "fits"
    return "does_not_fit"


def _covered(name: str) -> str:
    """`unsupported` when the tool refuses the model and says why in one line, else `exact`."""
    from autotune.errors import InputError

    try:
        model_of(name)
    except InputError as e:
        assert len(e.message.splitlines()) == 1 and e.exit_code == 2, e.message
        return "unsupported"
    return "exact"


