"""`autotune cluster import` as a user calls it, and `hf://` names with and without a hub."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from autotune.errors import InputError
from autotune.hf.hub import is_hub_name, load_hub_config
from autotune.load import load_cluster

HOSTS = Path(__file__).parent / "hosts"


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "autotune", "cluster", "import", *args], capture_output=True, text=True, timeout=120)


def test_import_writes_a_file_that_loads(tmp_path: Path) -> None:
    out = tmp_path / "cluster.yaml"
    done = run("--smi-topo", str(HOSTS / "topo_h800_8gpu_9nic.txt"), "--hostlist", "node[001-016]", "--name", "mine", "--out", str(out))
    assert done.returncode == 0 and done.stdout == "" and "GUESSED" in done.stderr
    cluster = load_cluster(out)
    assert (cluster.name, cluster.gpus, cluster.hb_domain.size) == ("mine", 128, 8)
    again = run("--instance", "p5.48xlarge", "--count", "2", "--out", str(out))
    assert again.returncode == 2 and "--force" in again.stderr and "mine" in out.read_text()
    assert run("--instance", "p5.48xlarge", "--count", "2", "--out", str(out), "--force").returncode == 0
    assert load_cluster(out).gpus == 16


def test_json_is_one_document() -> None:
    done = run("--smi-topo", str(HOSTS / "topo_h100_8gpu_12nic.txt"), "--nodes", "2", "--json")
    document = json.loads(done.stdout)
    assert document["host"]["gpu_to_nic"] == [0, 3, 4, 5, 6, 9, 10, 11]
    assert document["cluster"]["gpus"] == 16 and document["unknown"] and all(line["why"] for line in document["lines"])


def test_errors_exit_2_without_a_traceback(tmp_path: Path) -> None:
    broken = tmp_path / "t.xml"
    broken.write_text("<system><cpu></system>")
    done = run("--nccl-topo", str(broken), "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["problems"][0]["line"] == 1
    assert "Traceback" not in done.stderr
    assert run().returncode == 2
    assert run("--count", "0").returncode == 2


def test_without_out_the_text_goes_to_stdout(tmp_path: Path) -> None:
    done = run("--instance", "gb200-nvl72", "--count", "18")
    path = tmp_path / "c.yaml"
    path.write_text(done.stdout)
    assert load_cluster(path).hb_domain.size == 72


def test_hub_names() -> None:
    assert is_hub_name("hf://org/name") and not is_hub_name("org/name")
    for bad in ("hf://", "hf://a b", "hf://../../etc", "hf://a/b/c", "hf://a/b?x"):
        with pytest.raises(InputError, match="hf://org/name"):
            load_hub_config(bad)


def test_without_the_client_the_error_says_what_to_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match="huggingface_hub") as caught:
        load_hub_config("hf://org/name")
    assert "https://huggingface.co/org/name/resolve/main/config.json" in str(caught.value)


def _client(monkeypatch: pytest.MonkeyPatch, download) -> None:  # type: ignore[no-untyped-def]
    module = types.ModuleType("huggingface_hub")
    module.hf_hub_download = download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)


def test_the_cache_is_used_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama"}')
    calls = []

    def download(name: str, file: str, revision: str | None, local_files_only: bool) -> str:
        calls.append((name, file, revision, local_files_only))
        return str(path)

    _client(monkeypatch, download)
    assert load_hub_config("hf://org/name@v1") == ({"model_type": "llama"}, str(path))
    assert calls == [("org/name", "config.json", "v1", True)]


def test_offline_and_not_cached_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*args: object, **kwargs: object) -> str:
        raise ConnectionError("no route")

    _client(monkeypatch, download)
    with pytest.raises(InputError, match="not cached") as caught:
        load_hub_config("hf://meta-llama/Llama-3.1-70B")
    assert "offline" in str(caught.value) and "preset" in str(caught.value)


def test_a_hub_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.hf.hub.LONGEST_WAIT_S", 0.05)
    _client(monkeypatch, lambda *a, **k: time.sleep(5))
    start = time.perf_counter()
    with pytest.raises(InputError, match="no answer"):
        load_hub_config("hf://org/name")
    assert time.perf_counter() - start < 2


def test_a_cached_file_that_is_not_a_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    _client(monkeypatch, lambda *a, **k: str(path))
    for text in ("[1]", "{", "<html>", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(InputError):
            load_hub_config("hf://org/name")
