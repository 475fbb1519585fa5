"""The table of architectures that torchtitan ships, and that its parser would notice a wrong option."""

from __future__ import annotations

import pytest
from plans import TITAN_MODELS
from worker import Worker

from autotune.emit.torchtitan import FLAVORS, Flavor, rows
from autotune.plan import Plan

pytestmark = pytest.mark.consumers


@pytest.mark.parametrize("flavor", FLAVORS, ids=lambda f: f.config)
def test_shipped_configurations_have_the_shape_we_match(torchtitan: Worker, flavor: Flavor) -> None:
    alone = {"training.global_batch_size": 1, "training.local_batch_size": 1}
    for degree in ("tensor", "context", "pipeline", "expert"):
        alone[f"parallelism.{degree}_parallel_degree"] = 1
    argv = ["--module", flavor.module, "--config", flavor.config, "--training.disable_cuda_graphs"]
    answer = torchtitan.ask(argv=argv + [w for k, v in alone.items() for w in (f"--{k}", str(v))], world=1)
    assert answer["verdict"] == "accepted", answer
    shape = answer["facts"]["model"]
    wanted = {"layers": flavor.layers, "hidden": flavor.hidden, "heads": flavor.heads, "experts": flavor.experts, "vocab": flavor.vocab}
    assert {k: shape[k] for k in wanted} == wanted
    assert shape["kv_heads"] in (None, flavor.kv_heads)
    assert shape["ffn"] == flavor.ffn


@pytest.mark.parametrize(
    ("extra", "stage"),
    [
        (["--parallelism.no_such_degree", "2"], "parse"),
        (["--parallelism.tensor_parallel_degree", "7"], "mesh"),
        (["--parallelism.pipeline_parallel_layers_per_stage", "5"], "stages"),
        (["--training.global_batch_size", "63"], "batch"),
        (["--parallelism.pipeline_parallel_schedule", "NoSuchSchedule"], "stages"),
    ],
)
def test_the_check_can_fail(torchtitan: Worker, extra: list[str], stage: str) -> None:
    model = TITAN_MODELS["llama3-8b"]
    plan = Plan(tensor_parallel=2, pipeline_parallel=2, data_parallel=2, global_batch_size=16, sequence_parallel=True, zero_stage=2,
                stage_layers=(16, 16))  # fmt: skip
    argv = ["--module", "llama3", "--config", "llama3_8b", *(str(w) for row in rows(model, plan) for w in row)]
    assert torchtitan.ask(argv=argv, world=8)["verdict"] == "accepted"
    answer = torchtitan.ask(argv=argv + extra, world=8)
    assert answer["verdict"] == "rejected" and answer["stage"] == stage, answer
