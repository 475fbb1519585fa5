"""Reading measured rows and turning them into plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.errors import InputError
from autotune.validate.mapping import Unscorable, scenarios
from autotune.validate.rows import Row, parse_row, read_rows
from autotune.validate.stages import even_split

HEADER = "id,layers,hidden,heads,vocab,seq_len,gpu,n_gpus,tp,pp,global_batch,micro_batch,recompute,iteration_time_s\n"


def base(**changes: object) -> Row:
    values: dict[str, object] = {
        "id": "t-1", "framework": "Megatron-LM 2022", "layers": 24, "hidden": 1024, "heads": 16, "vocab": 51200, "seq_len": 1024,
        "gpu": "A100-80GB-SXM", "n_gpus": 16, "gpus_per_node": 8, "tp": 2, "pp": 2, "vpp": 1, "dp": 4, "micro_batch": 2,
        "global_batch": 32, "recompute": "full", "time_s": 1.0,
    }  # fmt: skip
    return Row(**{**values, **changes})  # type: ignore[arg-type]


def test_a_printed_row_has_one_reading_with_its_degrees() -> None:
    [scenario] = scenarios(base())
    plan = scenario.plan
    assert (plan.tensor_parallel, plan.pipeline_parallel, plan.data_parallel, plan.micro_batches) == (2, 2, 4, 4)
    assert plan.stage_layers == (12, 12) and plan.recompute == "full" and plan.stack == "megatron-2022"
    assert scenario.choices == ""
    assert scenario.model.num_layers == 24 and not scenario.model.swiglu


def test_open_choices_become_alternatives_and_are_named() -> None:
    found = scenarios(base(recompute="", vpp=None, micro_batch=None))
    assert {s.plan.recompute for s in found} == {"none", "selective", "full"}
    assert {s.plan.micro_batch_size for s in found} == {1, 2, 4, 8}
    assert all(s.plan.micro_batches % 2 == 0 for s in found if s.plan.virtual_stages > 1)  # Megatron's rule
    assert all("recompute=" in s.choices and "micro_batch=" in s.choices for s in found)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": "lora"}, "low-rank"),
        ({"tp": None}, "not known: tp"),
        ({"dp": 3}, "do not multiply"),
        ({"micro_batch": 3}, "not divisible"),
        ({"gpu": "Abacus 9000"}, "not in the catalogue"),
        ({"mla": "yes"}, "latent attention"),
    ],
)
def test_rows_that_cannot_be_scored_say_why(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(Unscorable, match=reason):
        scenarios(base(**changes))


def test_zero_and_sequence_parallel_follow_the_framework_when_not_printed() -> None:
    core = scenarios(base(framework="NeMo 24.07"))[0].plan
    assert (core.zero_stage, core.sequence_parallel) == (1, True)
    old = scenarios(base(framework="Megatron-LM 2021"))[0].plan
    assert (old.zero_stage, old.sequence_parallel) == (0, False)


def test_stage_shares_sum_to_the_layers() -> None:
    for layers in range(4, 130):
        for stages in (1, 2, 3, 4):
            split = even_split(layers, stages)
            assert sum(split) == layers and max(split) - min(split) <= 2


def test_rows_are_read_with_time_from_any_of_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(HEADER + "a-1,24,1024,16,51200,1024,A100-80GB-SXM,8,1,1,64,2,full,0.5\n")
    [row] = read_rows(path)
    assert row.time_s == 0.5 and row.prefix == "a" and row.layers == 24


def test_bad_files_are_refused_with_every_problem_and_its_line(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(HEADER + "a-1,two,1024,16,51200,1024,A,8,1,1,64,2,full,0.5\nb,2.5,1024,16,51200,1024,A,8,1,1,64,2,full,-1\n")
    with pytest.raises(InputError) as error:
        read_rows(path)
    assert [p.line for p in error.value.problems] == [2, 3]
    path.write_text("id,layers\n")
    with pytest.raises(InputError, match="columns missing: hidden"):
        read_rows(path)
    with pytest.raises(InputError, match="no such file"):
        read_rows(tmp_path / "none.csv")


def test_memory_is_read_in_decimal_gigabytes() -> None:
    assert parse_row({"id": "x", "memory_gb_measured": "80"}).memory_bytes == 80e9
