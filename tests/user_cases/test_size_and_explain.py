"""`autotune size`, and what `autotune explain` says of memory, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autotune.cli import cli
from autotune.plan import Plan

MODEL = """name: m
num_layers: 32
hidden_size: 4096
num_attention_heads: 32
vocab_size: 50304
seq_length: 2048
training: {global_batch_size: 64, tokens: 1e12}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    cluster, model = tmp_path / "c.yaml", tmp_path / "m.yaml"
    cluster.write_text("name: c\ngpu: A100-80GB-SXM\ngpus: 16\n")
    model.write_text(MODEL)
    return str(cluster), str(model)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def test_size_compares_counts(files: tuple[str, str]) -> None:
    result = run("size", *files, "--gpus", "8,16,9", "--json")
    assert result.exit_code == 0, result.output
    d = json.loads(result.stdout)
    rows = {r["gpus"]: r for r in d["by_gpus"]}
    assert d["min_gpus"] == 2 and Plan.from_dict(d["plan"]).gpus == 2
    assert rows[16]["tokens_per_s"] > rows[8]["tokens_per_s"] and rows[9]["plan"] is None
    assert rows[8]["days_to_train"] == pytest.approx(1e12 / rows[8]["tokens_per_s"] / 86400)


def test_size_table_and_bad_lists(files: tuple[str, str]) -> None:
    result = run("size", *files)
    assert result.exit_code == 0 and "fewest that fits" in result.output and "tokens/s/GPU" in result.output
    assert run("size", *files, "--gpus", "8,many").exit_code == 2


@pytest.mark.parametrize(("micro", "words"), [(1, "memory peaks on stage"), (64, "exceeds the GPU by")])
def test_explain_says_where_memory_goes(files: tuple[str, str], tmp_path: Path, micro: int, words: str) -> None:
    plan = Plan(tensor_parallel=4, pipeline_parallel=2, data_parallel=2, global_batch_size=128, micro_batch_size=micro, stage_layers=(16, 16))
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.to_dict()))
    result = run("explain", *files, str(path))
    assert result.exit_code == 0, result.output
    flat = " ".join(result.output.split())
    assert words in flat and "data-parallel ranks:" in flat and "MFU is over the dense bf16 peak" in flat
    document = json.loads(run("explain", *files, str(path), "--json").stdout)
    assert document["memory_phases"]["fits"] == document["fits"] and document["data_parallel"]["parts"] == ["optimizer"]
    assert document["conventions"] and document["assumptions"]
