"""Emitted Megatron-LM scripts through the real Megatron: accepted, read as planned, refused where we refuse."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from judge import captured, judge, megatron_request, our_verdict
from plans import MODELS, cluster, draw
from readings import differences_megatron
from worker import Worker

from autotune.constants import model_constants
from autotune.plan import Plan
from autotune.specs import ModelSpec
from costmodels import parameters

pytestmark = pytest.mark.consumers


def test_version_is_the_pinned_one(megatron: Worker) -> None:
    assert megatron.versions["megatron-core"].split("+")[0] == "0.19.2"


@pytest.mark.parametrize("seed", range(5))
def test_random_plans_agree_both_ways(megatron: Worker, seed: int) -> None:
    source = random.Random(1000 + seed)
    verdicts = []
    for _ in range(10):
        model, plan = draw(source)
        launcher = source.choice(["torchrun", "slurm"])
        verdicts.append(judge("megatron", lambda name: megatron, cluster(plan.gpus), model, plan, launcher))
    wrong = [f"{v.model} {v.plan}\n  ours: {v.ours}\n  theirs: {v.theirs} {v.differences}" for v in verdicts if not v.agree]
    assert not wrong, "\n".join(wrong)
    assert {v.ours == "legal" for v in verdicts} == {True, False}


BASE = {"tensor_parallel": 2, "data_parallel": 4, "global_batch_size": 48, "sequence_parallel": True, "fabric": "rail-only"}


def even(model: ModelSpec, stages: int, chunks: int = 1, **fields: Any) -> Plan:
    """A plan with whole chunks on every stage but the first, which takes what is left."""
    per_stage = model.num_layers // stages // chunks * chunks
    first = model.num_layers - per_stage * (stages - 1)
    layers = (first, *[per_stage] * (stages - 1))
    return Plan(**{**BASE, "pipeline_parallel": stages, "virtual_stages": chunks, "stage_layers": layers, **fields})


PARAMETER_CASES = [
    (name, fields)
    for name in MODELS
    for fields in ({"stages": 1}, {"stages": 3}, {"stages": 3, "chunks": 2, "tensor_parallel": 4}, {"stages": 2, "expert_parallel": 4})
    if "expert_parallel" not in fields or MODELS[name].num_experts
]


@pytest.mark.parametrize(("name", "fields"), PARAMETER_CASES, ids=lambda v: v if isinstance(v, str) else "-".join(map(str, v.values())))
def test_parameters_of_every_stage_equal_the_cost_model(megatron: Worker, name: str, fields: dict[str, Any]) -> None:
    model = MODELS[name]
    plan = even(model, **fields)
    if any(n % plan.virtual_stages for n in plan.stage_layers):
        plan = dataclasses.replace(plan, virtual_stages=1)
    ours, _, files = our_verdict("megatron", cluster(plan.gpus), model, plan, None)
    assert ours == "legal", ours
    request = megatron_request(captured(files), plan)
    answer = megatron.ask(**request, models=list(range(plan.pipeline_parallel)))
    assert answer["verdict"] == "accepted", answer
    assert not differences_megatron(answer["facts"], cluster(plan.gpus), model, plan)
    for stage in range(plan.pipeline_parallel):
        found = answer["facts"]["models"][str(stage)]
        assert (found["dense"], found["expert"]) == expected_parameters(model, plan, stage), f"stage {stage}"


def expected_parameters(spec: ModelSpec, plan: Plan, stage: int) -> tuple[int, int]:
    """Dense and expert parameters of one GPU of a stage, from the cost model's formulas."""
    m = model_constants(spec)
    if spec.moe_router_bias == "expert":
        m = m._replace(router_bias=0)  # a buffer in Megatron, and parameters() does not count buffers
    tensor, experts, shards = plan.tensor_parallel, plan.expert_parallel, plan.expert_tensor_parallel
    chunk_sizes = [n // plan.virtual_stages for _ in range(plan.virtual_stages) for n in plan.stage_layers]
    dense = expert = 0
    for chunk in range(stage, len(chunk_sizes), plan.pipeline_parallel):
        first = sum(chunk_sizes[:chunk])
        for layer in range(first, first + chunk_sizes[chunk]):
            moe = parameters.moe_layers_before(m, layer + 1) - parameters.moe_layers_before(m, layer)
            d, e = parameters.layer_parameters(m, tensor, shards, experts, moe)
            dense, expert = dense + d, expert + e
    if stage == 0:
        dense += parameters.embedding_parameters(m, tensor)
    if stage == plan.pipeline_parallel - 1:
        dense += parameters.norm_parameters(m)
        if not (m.tied and plan.pipeline_parallel == 1):
            dense += parameters.head_parameters(m, tensor)
    return dense, expert


def test_a_flag_that_megatron_does_not_know_is_noticed(megatron: Worker) -> None:
    model, plan = MODELS["llama-like"], even(MODELS["llama-like"], 2)
    _, _, files = our_verdict("megatron", cluster(plan.gpus), model, plan, None)
    request = megatron_request(captured(files), plan)
    request["argv"] = [*request["argv"], "--no-such-flag"]
    assert megatron.ask(**request)["stage"] == "parse"


def test_the_environment_matters(megatron: Worker) -> None:
    """Tensor parallelism before Blackwell needs one hardware queue: without our variable Megatron refuses."""
    model, plan = MODELS["llama-like"], even(MODELS["llama-like"], 2)
    _, _, files = our_verdict("megatron", cluster(plan.gpus), model, plan, None)
    request = megatron_request(captured(files), plan)
    assert megatron.ask(**request)["verdict"] == "accepted"
    request["env"] = {}
    assert "CUDA_DEVICE_MAX_CONNECTIONS" in megatron.ask(**request)["message"]


def test_a_smaller_split_is_noticed(megatron: Worker) -> None:
    """The comparison with the plan can fail: drop the interleaving from an emitted command."""
    model, plan = MODELS["llama-like"], even(MODELS["llama-like"], 2, chunks=2)
    _, _, files = our_verdict("megatron", cluster(plan.gpus), model, plan, None)
    request = megatron_request(captured(files), plan)
    at = request["argv"].index("--num-virtual-stages-per-pipeline-rank")
    del request["argv"][at : at + 2]
    answer = megatron.ask(**request)
    assert answer["verdict"] == "accepted"
    assert any(d.startswith("vpp") for d in differences_megatron(answer["facts"], cluster(plan.gpus), model, plan))


def test_arguments_of_2023_still_parse(megatron: Worker) -> None:
    """The generation of late 2023 uses no argument that today's parser has lost, and means the same plan."""
    model = MODELS["llama-like"]
    plan = even(model, 4, chunks=2, recompute="full", recompute_num_layers=1)
    _, _, files = our_verdict("megatron-lm-2023", cluster(plan.gpus), model, plan, None)
    request = megatron_request(captured(files), plan)
    assert "--num-layers-per-virtual-pipeline-stage" in request["argv"]
    answer = megatron.ask(**request)
    assert answer["verdict"] == "accepted", answer
    assert not differences_megatron(answer["facts"], cluster(plan.gpus), model, plan)


def test_a_script_in_a_jobset_starts_the_plan(megatron: Worker) -> None:
    """The pod's command, run with the variables that JobSet sets, gives the node rank and the same arguments."""
    import subprocess
    import tempfile
    from pathlib import Path

    import capture
    import yaml

    model = MODELS["llama-like"]
    plan = Plan(tensor_parallel=4, pipeline_parallel=2, data_parallel=18, global_batch_size=36, sequence_parallel=True,
                stage_layers=(16, 16), hb_domain_size=72, fabric="rail-only")  # fmt: skip
    site = cluster(plan.gpus, launch={"container_image": "registry/image:1"})
    _, _, files = our_verdict("megatron", site, model, plan, "kubernetes")
    config_map, job_set = yaml.safe_load_all(files["launch.yaml"])
    replicated = job_set["spec"]["replicatedJobs"][0]
    container = replicated["template"]["spec"]["template"]["spec"]["containers"][0]
    assert replicated["replicas"] * replicated["template"]["spec"]["completions"] * 4 == plan.gpus
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "work").mkdir()
        command = container["command"][2].replace("/launch/launch.sh", f"{folder}/work/inner.sh")
        (Path(folder) / "work" / "inner.sh").write_text(config_map["data"]["launch.sh"])
        outer = {"outer.sh": command + "\n"}
        env = {"JOBSET_JOB_INDEX": "1", "JOB_COMPLETION_INDEX": "3", "MASTER_ADDR": "first", "MASTER_PORT": "29500"}
        calls = capture.run(outer, "outer.sh", Path(folder), env)
    call, before, _ = capture.of_program(calls, "pretrain_gpt.py")
    assert before[before.index("--node-rank") + 1] == str(18 + 3)
    assert before[before.index("--master-addr") + 1] == "first"
    assert megatron.ask(**megatron_request(calls, plan))["verdict"] == "accepted"
    assert subprocess.run(["bash", "-n"], input=command, text=True, check=False).returncode == 0
