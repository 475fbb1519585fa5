"""The documents name every key of the schemas, and every example they and the project show can be loaded."""

import re
from pathlib import Path

import pytest

from autotune.load import load_cluster, load_model
from autotune.schema_errors import nested_schemas
from autotune.specs import ClusterSpec, ModelSpec
from autotune.yaml_lines import parse

ROOT = Path(__file__).resolve().parents[2]
DOCS = {ClusterSpec: ROOT / "docs/cluster.md", ModelSpec: ROOT / "docs/model.md"}


def all_fields(schema):
    for name, info in schema.model_fields.items():
        yield name
        for nested in nested_schemas(info.annotation):
            yield from all_fields(nested)


@pytest.mark.parametrize("schema", DOCS, ids=lambda s: s.__name__)
def test_every_key_is_documented_and_no_other(schema):
    text = DOCS[schema].read_text()
    fields = set(all_fields(schema))
    assert {f for f in fields if f"`{f}`" not in text} == set()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    documented = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert documented - fields == set(), "keys the schema does not have"


@pytest.mark.parametrize("schema", DOCS, ids=lambda s: s.__name__)
def test_examples_in_the_documents_load(schema, tmp_path):
    load = load_cluster if schema is ClusterSpec else load_model
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS[schema].read_text(), re.S)
    assert blocks
    for block in blocks:
        path = tmp_path / "example.yaml"
        path.write_text(block)
        assert load(path).name == parse(block).data["name"]


@pytest.mark.parametrize("path", sorted((ROOT / "examples/clusters").glob("*.yaml")), ids=lambda p: p.stem)
def test_example_clusters_load(path):
    assert load_cluster(path).name == path.stem


@pytest.mark.parametrize("path", sorted((ROOT / "examples/models").glob("*.yaml")), ids=lambda p: p.stem)
def test_example_models_load(path):
    spec = load_model(path)
    assert spec.name == path.stem and spec.training.global_batch_size


@pytest.mark.parametrize("name", ["gpt-175b", "llama-3.1-405b", "mixtral-8x7b", "deepseek-v3"])
def test_example_models_agree_with_the_presets(name):
    """Same model, same count; presets say more (positions) than the examples."""
    from autotune.catalogue.summary import model_parameters

    assert model_parameters(load_model(ROOT / f"examples/models/{name}.yaml")) == model_parameters(load_model(name))
