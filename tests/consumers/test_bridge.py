"""Every field that the Megatron-Bridge overrides set exists in the real configuration classes.

The package cannot be imported without CUDA builds, so the classes of its wheel are read as source; those of Megatron Core, which
they inherit from, too.
"""

from __future__ import annotations

import ast

import pytest
import yaml
from plans import MODELS, cluster
from worker import PYTHON, Worker

from autotune.emit import emit
from autotune.plan import Plan

pytestmark = pytest.mark.consumers

CLASSES = {
    "model": ["bridge/models/gpt_provider.py:GPTModelProvider", "core/transformer/transformer_config.py:TransformerConfig",
              "core/transformer/transformer_config.py:MLATransformerConfig", "core/model_parallel_config.py:ModelParallelConfig"],
    "train": ["bridge/training/config.py:TrainingConfig"],
    "ddp": ["core/distributed/distributed_data_parallel_config.py:DistributedDataParallelConfig"],
    "optimizer": ["core/optimizer/optimizer_config.py:OptimizerConfig"],
    "dist": ["bridge/training/config.py:DistributedInitConfig"],
    "checkpoint": ["bridge/training/config.py:CheckpointConfig"],
}  # fmt: skip


def fields(place: str) -> set[str]:
    """Annotated fields of a class, from its source."""
    path, name = place.split(":")
    package = next(PYTHON.parents[1].glob("lib/python3*/site-packages/megatron"))
    tree = ast.parse((package / path).read_text())
    found = next(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name)
    return {n.target.id for n in found.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}


@pytest.mark.parametrize("name", list(MODELS))
def test_fields_exist(megatron: Worker, name: str) -> None:
    model = MODELS[name]
    first = model.num_layers - 2 * (model.num_layers // 3)
    plan = Plan(tensor_parallel=2, pipeline_parallel=3, data_parallel=4, global_batch_size=24, sequence_parallel=True, recompute="full",
                recompute_num_layers=1, stage_layers=(first, model.num_layers // 3, model.num_layers // 3), fabric="rail-only")  # fmt: skip
    overrides = yaml.safe_load(emit("megatron-bridge", cluster(plan.gpus), model, plan)["overrides.yaml"])
    for section, values in overrides.items():
        known: set[str] = set().union(*(fields(place) for place in CLASSES[section]))
        assert set(values) <= known, section


def test_the_precision_names_exist() -> None:
    if not PYTHON.exists():
        pytest.skip("no consumers environment")
    from autotune.emit.bridge import PRECISION

    package = next(PYTHON.parents[1].glob("lib/python3*/site-packages/megatron"))
    tree = ast.parse((package / "bridge/training/mixed_precision.py").read_text())
    assert set(PRECISION.values()) <= {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


def test_the_driver_imports_what_exists(megatron: Worker) -> None:
    package = next(PYTHON.parents[1].glob("lib/python3*/site-packages/megatron"))
    plan = Plan(tensor_parallel=2, data_parallel=4, global_batch_size=8, sequence_parallel=True, stage_layers=(32,))
    source = emit("megatron-bridge", cluster(8), MODELS["llama-like"], plan)["pretrain.py"]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("megatron."):
            tree = ast.parse((package.parent / (node.module.replace(".", "/") + ".py")).read_text())
            defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
            assert {a.name for a in node.names} <= defined
