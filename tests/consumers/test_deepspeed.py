"""Emitted DeepSpeed configurations through the real DeepSpeed."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from plans import MODELS, cluster
from readings import differences_deepspeed
from worker import Worker

from autotune.emit import emit
from autotune.emit.deepspeed import config
from autotune.plan import Plan

pytestmark = pytest.mark.consumers

PLAN = Plan(tensor_parallel=2, data_parallel=8, micro_batch_size=2, global_batch_size=64, stage_layers=(32,), fabric="rail-only")


def ask(worker: Worker, document: dict[str, Any], plan: Plan = PLAN) -> dict[str, Any]:
    text = json.dumps(document)
    return worker.ask(config=text, world=plan.gpus, tp=plan.tensor_parallel, pp=plan.pipeline_parallel, topology=None)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_every_stage_and_format(deepspeed: Worker, zero: int, precision: str, recompute: str) -> None:
    model = MODELS["llama-like"].model_copy(update={"training": MODELS["llama-like"].training.model_copy(update={"precision": precision})})
    plan = dataclasses.replace(PLAN, zero_stage=zero, recompute=recompute)
    files = emit("deepspeed", cluster(plan.gpus), model, plan)
    answer = ask(deepspeed, json.loads(files["ds_config.json"]), plan)
    assert answer["verdict"] == "accepted", answer
    assert answer["facts"]["autotp_size"] == 2
    assert not differences_deepspeed(answer["facts"], cluster(plan.gpus), model, plan)


def test_the_launcher_check_can_fail(deepspeed: Worker) -> None:
    good = ["--hostfile", "hostfile", "--num_nodes", "2", "--num_gpus", "8", "--launcher", "pdsh"]
    hosts = "# comment\na slots=8\nb slots=8\n"
    base = {"config": json.dumps(config(MODELS["llama-like"], PLAN)), "world": PLAN.gpus, "tp": 2, "pp": 1}
    assert deepspeed.ask(**base, launcher=good, hostfile=hosts)["verdict"] == "accepted"
    assert deepspeed.ask(**base, launcher=[*good, "--no_such"], hostfile=hosts)["stage"] == "launcher"
    assert deepspeed.ask(**base, launcher=good, hostfile="a slots=8\n")["stage"] == "launcher"


def test_experts_by_configuration(deepspeed: Worker) -> None:
    plan = dataclasses.replace(PLAN, expert_parallel=8, zero_stage=2)
    answer = ask(deepspeed, config(MODELS["experts"], plan), plan)
    assert answer["verdict"] == "accepted", answer
    assert answer["facts"]["autoep_size"] == 8


@pytest.mark.parametrize(
    ("change", "stage"),
    [
        ({"train_batch_size": 63}, "config"),
        ({"zero_optimisation": {"stage": 1}}, "unread"),
        ({"pipeline": {"stage": 4}}, "unread"),
        ({"activation_checkpointing": {"partition": True}}, "unread"),
        ({"zero_optimization": {"stage": 4}}, "config"),
        ({"fp16": {"enabled": True}}, "config"),
    ],
)
def test_the_check_can_fail(deepspeed: Worker, change: dict[str, Any], stage: str) -> None:
    answer = ask(deepspeed, config(MODELS["llama-like"], PLAN) | change)
    assert answer["verdict"] == "rejected" and answer["stage"] == stage, answer
