"""Checks of what users see: launch files, messages, exit codes, JSON and CSV, run through the command line."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from user_case_harness import Case, check, config_file
from user_case_rules import broken, emitted_text

ENV = {**os.environ, "NO_COLOR": "1", "COLUMNS": "160", "AUTOTUNE_JOBS": "1"}
DEFAULTS = {"8"}  # CUDA's own value of CUDA_DEVICE_MAX_CONNECTIONS: as good as unset, and safe where a shell exports 1
SMALL = "name: box\ngpu: {gpu}\ngpus: {gpus}\n"
TINY = """name: tiny
num_layers: {layers}
hidden_size: 2048
num_attention_heads: 16
vocab_size: 50304
seq_length: 2048
training: {{global_batch_size: 16}}
"""


class Run(NamedTuple):
    """Outcome of one command."""

    code: int
    out: str
    err: str
    seconds: float


def autotune(*arguments: str, timeout: float = 300) -> Run:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "autotune", *arguments], capture_output=True, text=True, env=ENV, timeout=timeout)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return Run(done.returncode, done.stdout, done.stderr, time.perf_counter() - start)


def files(folder: str, gpu: str = "RTX-4090-24GB", gpus: int = 2, layers: int = 4, cluster: str | None = None) -> tuple[str, str]:
    """A small cluster file and a small model file."""
    c, m = Path(folder) / "cluster.yaml", Path(folder) / "model.yaml"
    c.write_text(cluster or SMALL.format(gpu=gpu, gpus=gpus))
    m.write_text(TINY.format(layers=layers))
    return str(c), str(m)


def infeasible(*options: str) -> Run:
    """A model that no plan fits on one small GPU."""
    with tempfile.TemporaryDirectory() as folder:
        return autotune("search", *files(folder, gpus=1, layers=64), *options)


def offline() -> Run:
    with tempfile.TemporaryDirectory() as folder:
        cluster, _ = files(folder)
        env = {"HF_HUB_OFFLINE": "", "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
        old = {k: ENV.get(k) for k in env}
        ENV.update({k: v for k, v in env.items() if v})
        try:
            return autotune("search", cluster, "meta-llama/Llama-3.1-70B")
        finally:
            for k, v in old.items():
                ENV.pop(k, None)
                if v is not None:
                    ENV[k] = v


def run_of(case: Case) -> Run:
    """The command that a case is about."""
    command = case.inputs["command"]
    if command == "infeasible":
        return infeasible()
    if command == "offline":
        return offline()
    if command == "mixed":
        with tempfile.TemporaryDirectory() as folder:
            text = "name: mixed\ngpu: [RTX-3080-10GB, RTX-4090-24GB]\ngpus: 4\n"
            return autotune("search", *files(folder, cluster=text))
    assert command == "uncovered", command
    return autotune("show", str(config_file(case.inputs["files"][0])))


@check("exit_code_nonzero")
def exit_code_nonzero(case: Case, given: dict[str, Any]) -> None:
    run = run_of(case)
    assert run.code in (2, 3), run


@check("seconds_at_most")
def seconds_at_most(case: Case, given: dict[str, Any]) -> None:
    run = run_of(case)
    assert run.seconds <= given["value"], run.seconds


@check("message")
def message(case: Case, given: dict[str, Any]) -> None:
    run = run_of(case)
    text = (run.out + run.err).lower()
    if "contains_any" in given:
        assert any(w in text for w in given["contains_any"]), text
    words = {"reason counts": "rejected:", "closest plan": "closest miss", "gib over": "gib over"}
    missing = [w for w in given.get("contains_all", []) if words[w] not in text]
    assert not missing, f"{missing}: {text}"


@check("json_valid")
def json_valid(case: Case, given: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = autotune("search", *files(folder), "--json")
    assert run.code == 0, run.err

    def refuse(token: str) -> None:
        raise AssertionError(token)

    document = json.loads(run.out, parse_constant=refuse)
    assert document["plans"]


def search_csv(*options: str) -> list[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        run = autotune("search", *files(folder), "--csv", *options)
    assert run.code == 0, run.err
    return list(csv.DictReader(io.StringIO(run.out)))


@check("csv_valid")
def csv_valid(case: Case, given: dict[str, Any]) -> None:
    rows = search_csv()
    assert rows and all(None not in row and None not in row.values() for row in rows)
    assert all(math.isfinite(float(row["iteration_time_s"])) for row in rows if row["iteration_time_s"])


@check("cli_accepts")
def cli_accepts(case: Case, given: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = autotune("search", *files(folder), "--json", *given["args"].split())
    assert run.code == 0, run.err
    allowed = {int(v) for v in given["args"].split()[1].split(",")}
    assert {p["tensor_parallel"] for p in json.loads(run.out)["plans"]} <= allowed


@check("csv_has_column")
def csv_has_column(case: Case, given: dict[str, Any]) -> None:
    assert given["name"] in search_csv()[0], list(search_csv()[0])


# --- launch files ----------------------------------------------------------------------------------------------------


def exports(text: str, name: str) -> list[str]:
    """Values that launch files give a variable, in shell, YAML or Python form."""
    import re

    return re.findall(rf"(?:export\s+)?\b{name}\b[\"']?\s*[=:]\s*[\"']?([^\s\"';]+)", text)


@check("env")
def env(case: Case, given: dict[str, Any]) -> None:
    cluster = case.inputs["cluster"]
    text = emitted_text("megatron", {"tp": 8, "pp": 1, "dp": cluster["nodes"]}, nodes=cluster["nodes"], fabric=given["topology"])
    assert exports(text, given["name"]) and set(exports(text, given["name"])) == {given["value"]}, exports(text, given["name"])


@check("env_absent")
def env_absent(case: Case, given: dict[str, Any]) -> None:
    """Not set, or set to what leaves the feature on."""
    cluster = case.inputs["cluster"]
    text = emitted_text("megatron", {"tp": 8, "pp": 1, "dp": cluster["nodes"]}, nodes=cluster["nodes"], fabric="rail-only")
    assert set(exports(text, given["name"])) <= {"0"}, exports(text, given["name"])


@check("env_per_option")
def env_per_option(case: Case, given: dict[str, Any]) -> None:
    for option, value in zip(case.inputs["options"], given["value"], strict=True):
        plan = {"tp": option["tp"], "pp": 1, "dp": 8 // option["tp"], "zero": option.get("zero", 1)}
        text = emitted_text(option["backend"], plan, gpu=option["gpu"])
        found = set(exports(text, given["name"])) - DEFAULTS
        assert found == ({value} if value else set()), (option, found)


@check("emitted_flags_present")
def emitted_flags_present(case: Case, given: dict[str, Any]) -> None:
    plan = case.plans()[given["index"]]
    text = emitted_text("megatron-deepspeed", {**plan, "dp": 8 // plan["tp"], "sp": False})
    assert all(flag in text for flag in given["flags"])


@check("emitted_dispatcher")
def emitted_dispatcher(case: Case, given: dict[str, Any]) -> None:
    text = emitted_text("megatron", {**case.inputs["plan"], "dp": 4, "tp": 1}, model="mixtral-8x7b")
    assert set(exports(text.replace("--moe-token-dispatcher-type ", "dispatcher="), "dispatcher")) == {given["value"]}


@check("warn")
def warn(case: Case, given: dict[str, Any]) -> None:
    if "nic" in given["about"]:
        from user_case_harness import cluster_of

        from autotune.answers import cluster_warnings

        cluster = cluster_of({**case.inputs["cluster"], "fabric": "rail-only"})
        names = [f"mlx5_{i}" for i in range(case.inputs["cluster"]["nics"])]
        odd = cluster.model_copy(update={"launch": cluster.launch.model_copy(update={"ib_hca": names})})
        assert any(str(len(names)) in w and "rail" in w for w in cluster_warnings(odd)), cluster_warnings(odd)
        assert not cluster_warnings(cluster)
        return
    found = broken(case, case.inputs["plan"], "megatron")
    assert any(v["rule"] == "world_size" and "16" in v["message"] and "64" in v["message"] for v in found), found
