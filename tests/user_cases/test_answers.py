"""The answers hold: gains are what re-pricing gives, the rule of thumb never beats the optimum, parts add up."""

from __future__ import annotations

import dataclasses

import pytest
from user_case_harness import cluster_of, model_of, plan_of, preset

from autotune import answers
from autotune.evaluate import Evaluation, evaluate
from autotune.legality import violations
from autotune.plan import Plan
from autotune.search import SearchOptions, search
from autotune.specs import ClusterSpec, ModelSpec

NODE = {"gpu": "H100-80GB-SXM", "gpus_per_node": 8, "nodes": 2}
CASES = {
    "dense": (NODE, "llama-3-8b", {"tp": 2, "pp": 2, "gbs": 64, "recompute": "selective"}),
    "experts": (NODE, "mixtral-8x7b", {"tp": 2, "pp": 2, "ep": 4, "gbs": 64, "recompute": "full"}),
    "consumer": ({"gpu": "RTX-4090-24GB", "gpus_per_node": 8, "nodes": 1}, "llama-3.2-1b", {"tp": 1, "pp": 2, "gbs": 64}),
}


def priced(name: str) -> tuple[ClusterSpec, ModelSpec, Evaluation]:
    where, what, short = CASES[name]
    cluster = cluster_of(where)
    model = model_of(what, {"seq": 4096}, short["gbs"])
    return cluster, model, evaluate(cluster, model, plan_of(short, model, cluster))


@pytest.mark.parametrize("name", CASES)
def test_every_change_is_legal_and_gains_what_it_says(name: str) -> None:
    cluster, model, e = priced(name)
    changes = answers.what_to_change(cluster, model, e)
    assert changes and [c["gain"] for c in changes] == sorted((c["gain"] for c in changes), reverse=True)
    for change in changes:
        assert change["fits"] and change["gain"] > 0
        if change["kind"] != "plan":
            continue
        plan = Plan.from_dict(change["plan"])
        again = evaluate(cluster, model, plan)
        assert not violations(model, plan) and again.fits and plan.gpus == e.plan.gpus
        assert again.tokens_per_s_per_gpu / e.tokens_per_s_per_gpu - 1 == pytest.approx(change["gain"])


@pytest.mark.parametrize("name", CASES)
def test_single_changes_do_not_beat_the_proved_optimum(name: str) -> None:
    cluster, model, _ = priced(name)
    best = search(cluster, model, SearchOptions(study=False, top=1)).plans[0]
    for change in answers.what_to_change(cluster, model, best):
        assert change["kind"] != "plan" or change["gain"] < 0.01, change["text"]  # uneven middles lie outside the lattice
    thumb = answers.rule_of_thumb(cluster, model, best)
    assert thumb["plan"] is None or (thumb["gap"] >= -1e-9 and thumb["plan"].fits and not thumb["plan"].violations)


def test_a_plan_that_does_not_fit_is_told_what_would() -> None:
    cluster, model, e = priced("dense")
    heavy = dataclasses.replace(e.plan, recompute="none", micro_batch_size=8)
    over = evaluate(cluster, model, heavy)
    assert not over.fits
    changes = answers.what_to_change(cluster, model, over)
    assert changes and all(c["fits"] for c in changes) and any(c["name"] == "micro_batch_size" for c in changes)
    report = answers.oom_report(over)
    assert report["over_GiB"] > 0 and report["largest"]["part"] == "activations" and report["first_exceeded"]["phase"] != "load"
    assert answers.limits(over)[0]["what"] == "memory"


@pytest.mark.parametrize("name", CASES)
def test_limits_account_for_the_whole_iteration(name: str) -> None:
    _, _, e = priced(name)
    times = [x for x in answers.limits(e) if x["what"] != "memory"]
    assert 0.9 < sum(x["share"] for x in times) <= 1 + 1e-9
    shares = [x["share"] for x in times if x["what"] != "compute"]
    assert shares == sorted(shares, reverse=True)


def test_phases_end_at_the_peak() -> None:
    _, _, e = priced("dense")
    report = answers.oom_report(e)
    by_phase = {p["phase"]: p["GiB"] for p in report["phases"]}
    assert by_phase["second iteration"] == pytest.approx(report["peak_GiB"]) == pytest.approx(sum(report["parts_GiB"].values()))
    assert by_phase["load"] < by_phase["first forward"] <= by_phase["loss"] <= by_phase["first backward"]
    assert report["first_exceeded"] is None and report["fits"]
    tight = dataclasses.replace(e, capacity_bytes=0.999 * e.peak_bytes)
    assert "can look healthy" in " ".join(answers.oom_report(tight)["text"])


def test_fewest_gpus_cannot_be_undercut() -> None:
    cluster = cluster_of({"gpu": "A100-80GB-SXM", "gpus_per_node": 8, "nodes": 1})
    model = model_of("gpt-neox-20b", batch=64)
    found = answers.min_gpus(cluster, model)
    for fewer in range(1, found["gpus"]):
        smaller = cluster.model_copy(update={"gpus": fewer, "hb_domain": cluster.hb_domain.model_copy(update={"size": fewer})})
        assert answers.smallest_memory_plan(smaller, model, answers.default_setting(smaller, model)) is None
    assert found["floor_GiB_per_gpu"] < 80


def test_memory_falls_with_replicas_where_state_is_sharded() -> None:
    cluster = cluster_of({"gpu": "H100-80GB-SXM", "gpus_per_node": 8, "nodes": 16})
    model = model_of("llama-3-70b", batch=1024)
    plan = plan_of({"tp": 8, "pp": 2, "gbs": 1024, "recompute": "full"}, model, cluster)
    found = answers.data_parallel_dependence(cluster, model, plan)
    peaks = [r["peak_GiB"] for r in found["by_data_parallel"]]
    assert found["parts"] == ["optimizer"] and peaks == sorted(peaks, reverse=True) and peaks[0] > peaks[-1] + 40
    whole = answers.data_parallel_dependence(cluster, model, dataclasses.replace(plan, zero_stage=0))
    flat = [r["peak_GiB"] for r in whole["by_data_parallel"]]
    assert whole["depends_GiB"] == 0 and max(flat) - min(flat) < 0.01 * max(flat)


def test_odd_gpu_counts_leave_some_idle_only_when_that_is_faster() -> None:
    cluster = cluster_of({"gpu": "H100-80GB-SXM", "gpus_per_node": 7, "nodes": 1})
    model = model_of("llama-3-8b", {"seq": 4096}, 256)
    found = answers.useful_gpu_counts(cluster, model, 7)
    rows = {r["gpus"]: r["tokens_per_s"] for r in found["rows"]}
    assert found["best"] == max(rows, key=rows.__getitem__) and found["idle"] == 7 - found["best"]


def test_different_shape_differs_by_a_factor_of_two() -> None:
    cluster, model, _ = priced("dense")
    plans = search(cluster, model, SearchOptions(study=False, top=10)).plans
    other = answers.different_shape(plans)
    assert other is not None and answers.shape(other.plan) != answers.shape(plans[0].plan)
    assert answers.different_shape(plans[:1]) is None and answers.different_shape([]) is None


# --- adapters and other optimizer states ------------------------------------------------------------------------------


def with_training(model: ModelSpec, **training: object) -> ModelSpec:
    return model.model_copy(update={"training": model.training.model_copy(update=training)})


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_adapters_need_little_more_than_the_weights(name: str, zero: int) -> None:
    cluster, model, e = priced(name)
    plan = dataclasses.replace(e.plan, zero_stage=zero)
    full, lora = (evaluate(cluster, m, plan, rail=False) for m in (model, with_training(model, lora_rank=16)))
    for a, b in zip(full.stages, lora.stages, strict=True):
        assert a.weights < b.weights < 1.05 * a.weights
        assert b.gradients + b.optimizer < 0.05 * (a.gradients + a.optimizer)
        assert b.activations == a.activations
    # No weight gradients: a third of the matrix work of a step is gone, never more.
    assert 0.6 < lora.breakdown.compute / full.breakdown.compute < 0.95
    assert lora.breakdown.data_comm <= full.breakdown.data_comm and lora.breakdown.optimizer < full.breakdown.optimizer
    assert lora.mfu < 1


def test_higher_rank_costs_more() -> None:
    cluster, model, e = priced("dense")
    peaks = [evaluate(cluster, with_training(model, lora_rank=r), e.plan, rail=False).peak_bytes for r in (4, 16, 64, 256)]
    assert peaks == sorted(peaks) and len(set(peaks)) == 4


@pytest.mark.parametrize(
    ("training", "bytes_per_parameter"),
    [
        ({}, 18), ({"optimizer_moments": "bf16"}, 14), ({"optimizer_moments": "8bit"}, 12), ({"master_weights": False}, 8),
        ({"master_weights": False, "optimizer_moments": "8bit"}, 6),
    ],
)  # fmt: skip
def test_bytes_per_parameter(training: dict[str, object], bytes_per_parameter: float) -> None:
    cluster = cluster_of({"gpu": "H100-80GB-SXM", "gpus_per_node": 1, "nodes": 1})
    model = with_training(model_of("llama-3.2-1b", batch=8), **training)
    e = evaluate(cluster, model, plan_of({"gbs": 8}, model, cluster), rail=False)
    s = e.stages[0]
    assert (s.weights + s.gradients + s.optimizer) / s.weights * 2 == pytest.approx(bytes_per_parameter)


def test_known_adapter_counts() -> None:
    # Printed by peft for rank 16 on all linear layers of Llama-3-8B and rank 8 on those of Qwen2.5-7B.
    from autotune.training_state import trained_share

    for name, rank, count, total in (("llama-3-8b", 16, 41_943_040, 8_030_261_248), ("qwen2.5-7b", 8, 20_185_088, 7_615_616_512)):
        assert round(trained_share(with_training(preset(name), lora_rank=rank)) * total) == count


def test_launch_files_are_refused_for_what_they_cannot_express() -> None:
    from autotune.emit import emit
    from autotune.errors import InputError

    cluster, model, e = priced("dense")
    for training in ({"lora_rank": 8}, {"optimizer_moments": "8bit"}, {"master_weights": False}):
        with pytest.raises(InputError, match="priced but not emitted"):
            emit("megatron", cluster, with_training(model, **training), e.plan)


def test_gradients_of_adapters_are_all_that_crosses_the_network() -> None:
    cluster, model, e = priced("dense")
    plan = dataclasses.replace(e.plan, zero_stage=1)
    full, lora = (evaluate(cluster, m, plan).rail["groups"] for m in (model, with_training(model, lora_rank=16)))
    by_kind = [{g["kind"]: g["bytes"] for g in groups} for groups in (full, lora)]
    assert by_kind[1]["data"] < 0.02 * by_kind[0]["data"] and by_kind[1]["tensor"] == by_kind[0]["tensor"]
