"""Names and settings out of a user's files never become code."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.emit import LAUNCHERS, TARGETS, Options, emit, find_target
from autotune.emit.neutral import files as neutral_files
from autotune.emit.preflight import files as preflight_files
from autotune.plan import Plan

from .conftest import make_cluster, make_model
from .shellrun import bash_accepts, run

HOSTILE = [
    "$(touch {mark})",
    "`touch {mark}`",
    "a; touch {mark};",
    "a\ntouch {mark}\n",
    "a\rtouch {mark}",
    "' ; touch {mark} ; '",
    '"; touch {mark}; "',
    "a && touch {mark} #",
    "modèle \u2028touch {mark}\u2028",
    '"""\nimport os; os.system("touch {mark}")\n"""',
    "\\",
    "--help",
    "{{ 7*7 }} {% raw %}",
]


def flavored_model(target: str, name: str):
    if target == "torchtitan":
        return make_model(name=name, ffn_hidden_size=14336, vocab_size=128256)
    return make_model(name=name)


@pytest.mark.parametrize("target", list(TARGETS))
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_in_a_name_is_executed(target: str, name: str, tmp_path: Path) -> None:
    mark = tmp_path / "EXECUTED"
    name = name.replace("{mark}", str(mark))
    plan = Plan(tensor_parallel=2, pipeline_parallel=1, data_parallel=4, global_batch_size=8, sequence_parallel=True, zero_stage=2,
                stage_layers=(32,), fabric="rail-only")  # fmt: skip
    if target in ("megatron-lm-2023",):
        plan = Plan(**{**plan._fields(), "zero_stage": 1})
    cluster = make_cluster(8).model_copy(update={"name": name})
    model = flavored_model(target, name)
    expected = emit(target, make_cluster(8), flavored_model(target, "plain"), plan)
    for launcher in (None, "slurm"):
        files = emit(target, cluster, model, plan, Options(launcher))
        script = "launch.sbatch" if launcher == "slurm" else "launch.sh"
        assert bash_accepts(files[script])
        given = {"DATA_PATH": "/d", "TOKENIZER_MODEL": "/t", "RECIPE": "m:f", "SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "n0"}
        folder = tmp_path / (launcher or "default")
        folder.mkdir()
        calls = run(files, script, folder, **given)
        assert not mark.exists()
        if launcher is None:
            plain = tmp_path / "plain"
            plain.mkdir()
            named = {k: [w.replace(str(folder), "") for w in v] for k, v in calls.items()}
            assert named == {k: [w.replace(str(plain), "") for w in v] for k, v in run(expected, script, plain, **given).items()}
    for text in [*files.values(), *preflight_files(cluster, model, plan, "torchrun").values()]:
        if text.startswith("#!/usr/bin/env python3") or '"""' in text.split("\n", 1)[0]:
            compile(text, "emitted.py", "exec")
            assert "os.system" not in text.split('"""')[2]


@pytest.mark.parametrize("name", HOSTILE)
def test_the_plan_file_survives_any_name(name: str, tmp_path: Path) -> None:
    from autotune.load import load_plan

    plan = Plan(data_parallel=8, global_batch_size=8, stage_layers=(32,))
    text = neutral_files(make_cluster(8), make_model(name=name), plan)["plan.yaml"]
    (tmp_path / "plan.yaml").write_text(text)
    assert load_plan(tmp_path / "plan.yaml") == plan


@pytest.mark.parametrize("name", HOSTILE)
def test_manifests_stay_two_documents(name: str) -> None:
    import yaml

    plan = Plan(data_parallel=8, global_batch_size=8, stage_layers=(32,))
    cluster = make_cluster(8, launch={"container_image": "image:1"})
    text = emit("megatron", cluster, make_model(name=name), plan, Options("kubernetes"))["launch.yaml"]
    assert [d["kind"] for d in yaml.safe_load_all(text)] == ["ConfigMap", "JobSet"]


def test_every_target_has_known_launchers() -> None:
    for name in TARGETS:
        assert set(find_target(name).launchers) <= set(LAUNCHERS)
