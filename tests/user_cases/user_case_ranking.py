"""Checks of ranking: which plan is better, by how much, and how predictions compare with measured times."""

from __future__ import annotations

from typing import Any

from user_case_harness import Case, check, cluster_of, model_of, near, price, setup

from autotune import answers
from autotune.evaluate import Evaluation, evaluate


def spearman(a: list[float], b: list[float]) -> float:
    """Rank correlation of two series without ties."""
    ranks = [[sorted(x).index(v) for v in x] for x in (a, b)]
    n = len(a)
    return 1 - 6 * sum((i - j) ** 2 for i, j in zip(*ranks, strict=True)) / (n * (n * n - 1))


def predictions(case: Case) -> list[Evaluation]:
    return [price(case, option) for option in case.plans()]


def measured(case: Case) -> list[int]:
    """Options that ran."""
    return [i for i, t in enumerate(case.observed["s_per_iter"]) if t is not None]


@check("spearman_at_least")
def spearman_at_least(case: Case, given: dict[str, Any]) -> None:
    ran, found = measured(case), predictions(case)
    got = spearman([found[i].iteration_time_s for i in ran], [case.observed["s_per_iter"][i] for i in ran])
    assert got >= given["value"], f"{got:.2f}: " + " ".join(f"{found[i].iteration_time_s:.1f}/{case.observed['s_per_iter'][i]}" for i in ran)


def fastest(case: Case, slowest: bool = False) -> int:
    """The option predicted fastest (or slowest) among those that ran."""
    found = predictions(case)
    sign = -1 if slowest else 1
    return min(measured(case), key=lambda i: sign * found[i].iteration_time_s)


@check("top1_in")
def top1_in(case: Case, given: dict[str, Any]) -> None:
    assert fastest(case) in given["indices"], fastest(case)


@check("argmin_in")
def argmin_in(case: Case, given: dict[str, Any]) -> None:
    assert fastest(case) in given["indices"], [round(e.iteration_time_s, 1) for e in predictions(case)]


@check("argmin")
def argmin(case: Case, given: dict[str, Any]) -> None:
    assert fastest(case) == given["index"], [round(e.iteration_time_s, 1) for e in predictions(case)]


@check("argmax")
def argmax(case: Case, given: dict[str, Any]) -> None:
    assert fastest(case, slowest=True) == given["index"], [round(e.iteration_time_s, 1) for e in predictions(case)]


@check("prefer_index")
def prefer_index(case: Case, given: dict[str, Any]) -> None:
    found = predictions(case)
    better, worse = found[given["better"]], found[given["worse"]]
    assert better.tokens_per_s_per_gpu > worse.tokens_per_s_per_gpu, (better.tokens_per_s_per_gpu, worse.tokens_per_s_per_gpu)


@check("prefer")
def prefer(case: Case, given: dict[str, Any]) -> None:
    """A plan that fits beats one that does not; of two that fit, the faster per GPU. Over another number of GPUs: in total."""
    better, worse = (_option(case, given[k]) for k in ("plan", "over"))
    if better.plan.gpus != worse.plan.gpus:
        assert better.tokens_per_s_per_gpu * better.plan.gpus > worse.tokens_per_s_per_gpu * worse.plan.gpus
        return
    assert better.fits >= worse.fits
    assert better.tokens_per_s_per_gpu > worse.tokens_per_s_per_gpu, (better.tokens_per_s_per_gpu, worse.tokens_per_s_per_gpu)


def _option(case: Case, wanted: dict[str, Any]) -> Evaluation:
    """The option of the case that has the wanted values, the first where several do."""
    option = next(o for o in case.plans() if all(o.get(k) == v for k, v in wanted.items()))
    return price(case, option)


@check("ratio")
def ratio(case: Case, given: dict[str, Any]) -> None:
    plan = case.inputs["plan"]
    a, b = (price(case, {**plan, **case.inputs["by_batch"].get(given[k], {}), "gbs": given[k]}).model_tflops_per_gpu for k in ("a", "b"))
    near(a / b, given, "ratio of TFLOP/s")


@check("ratio_series")
def ratio_series(case: Case, given: dict[str, Any]) -> None:
    found = [e.tokens_per_s_per_gpu for e in predictions(case)]
    for value, got in zip(given["values"], found, strict=True):
        near(got / found[0], {**given, "value": value}, "ratio of tokens/s per GPU")


@check("derived_gbs")
def derived_gbs(case: Case, given: dict[str, Any]) -> None:
    i, o = given["index"], case.observed
    plan = case.plans()[i]
    gpus = case.inputs["cluster"]["gpus_per_node"] * case.inputs["cluster"]["nodes"]
    near(answers.batch_from_throughput(o["s_per_iter"][i], o["tokens_per_s_per_gpu"][i], gpus, plan["seq"]), given, "global batch")


@check("time_s_within")
def time_s_within(case: Case, given: dict[str, Any]) -> None:
    near(price(case, case.inputs["plan"]).iteration_time_s, given, "seconds per iteration")


@check("spread_at_most")
def spread_at_most(case: Case, given: dict[str, Any]) -> None:
    times = [e.iteration_time_s for e in predictions(case)]
    assert max(times) / min(times) - 1 <= given["value"], times


@check("best_plan")
def best_plan(case: Case, given: dict[str, Any]) -> None:
    from autotune.search import SearchOptions, search

    cluster = cluster_of(case.inputs["cluster"])
    model = model_of(case.inputs["model"], {"seq": case.inputs["seq"]}, case.inputs["batch"])
    best = search(cluster, model, SearchOptions(study=False, top=1)).plans[0].plan
    found = {"tp": best.tensor_parallel, "pp": best.pipeline_parallel, "dp": best.data_parallel}
    assert found == given["value"], found


@check("feature")
def feature(case: Case, given: dict[str, Any]) -> None:
    """One search over several node counts, in which the doubled plan is a legal candidate on the larger."""
    assert given["what"] == "search over node counts", given
    from autotune.limits import lattice_limits
    from autotune.setting import grid, setting_axes

    counts = case.inputs["gpu_counts"]
    cluster = cluster_of(case.inputs["cluster"]).model_copy(update={"gpus": counts})
    model = model_of(case.inputs["model"], {"seq": case.inputs["plan"]["seq"]}, case.inputs["plan"]["gbs"])
    settings = grid(setting_axes(cluster, model))
    assert settings is not None and sorted(s.gpus for s in settings) == sorted(counts) and not lattice_limits(model)
    for count in counts:
        here = {k: v for k, v in case.inputs["plan"].items() if k != "dp"} | {"gpus": count}
        _, spec, plan = setup(case, here)
        e = evaluate(cluster.model_copy(update={"gpus": count}), spec, plan, rail=False)
        assert plan.gpus == count and not e.violations, e.violations


@check("output_has")
def output_has(case: Case, given: dict[str, Any]) -> None:
    where = cluster_of({"gpu": "H100-80GB-SXM", "gpus_per_node": 8, "nodes": 8})
    model = model_of(case.inputs.get("model", "llama-3-70b"), {"training": {"tokens": 15e12}}, 1024)
    if "cluster_hash" in given["fields"]:
        from autotune.search import SearchOptions, inputs_of

        found: dict[str, Any] = inputs_of(where, model, SearchOptions())
        other = answers.fingerprint(where.model_copy(update={"gpus": 128}), model)
        assert found["cluster_hash"] != other["cluster_hash"] and found["model_hash"] == other["model_hash"]
    else:
        row = answers.gpu_count_table(where, model, [64])[0]
        found = {**row, "min_gpus": answers.min_gpus(where, model)["gpus"]}
    assert all(found.get(f) for f in given["fields"]), found


@check("assumption_listed")
def assumption_listed(case: Case, given: dict[str, Any]) -> None:
    cluster, model, plan = setup(case, case.inputs["plan"])
    lines = answers.assumptions(cluster, model, plan)
    assert any(given["what"].lower() in line.lower() for line in lines), lines


@check("caveat")
def caveat(case: Case, given: dict[str, Any]) -> None:
    cluster, model, plan = setup(case, case.plans()[0])
    lines = answers.assumptions(cluster, model, plan)
    assert any("zero-bubble" in line and "not priced" in line for line in lines), lines
