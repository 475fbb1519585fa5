"""`autotune list` and `autotune show` as a user runs them: output, exit codes, never a traceback."""

import json
import subprocess
import sys

import pytest

from autotune import catalogue, cli


@pytest.fixture
def autotune(monkeypatch, capsys):
    def run(*args):
        monkeypatch.setattr(sys, "argv", ["autotune", *map(str, args)])
        code = 0
        try:
            cli.main()
        except SystemExit as e:
            code = e.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return run


@pytest.mark.parametrize("kind", catalogue.KINDS)
def test_list(autotune, kind):
    code, out, _ = autotune("list", kind)
    assert code == 0
    code, listed, err = autotune("list", kind, "--json")
    rows = json.loads(listed)[kind]
    assert code == 0 and err == "" and [r["name"] for r in rows] == catalogue.names(kind)
    assert all(r["name"][:20] in out for r in rows)


def test_list_of_an_unknown_kind(autotune):
    code, _, err = autotune("list", "planets")
    assert code == 2 and "gpus" in err


@pytest.mark.parametrize(
    ("name", "kind", "key", "value"),
    [
        ("H100", "gpu", "name", "H100-80GB-SXM"),
        ("NVIDIA A100-SXM4-80GB", "gpu", "memory_GiB", 80.0),
        ("llama-3.1-405b", "model", "num_layers", 126),
        ("gb200-nvl72-576", "cluster", "gpu", "GB200-186GB"),
        ("rail-only", "fabric", "name", "rail-only"),
        ("megatron-core", "stack", "name", "megatron-core"),
    ],
)  # fmt: skip
def test_show(autotune, name, kind, key, value):
    code, out, _ = autotune("show", name, "--json")
    shown = json.loads(out)
    assert code == 0 and shown["kind"] == kind and shown[key] == value
    code, out, _ = autotune("show", name)
    assert code == 0 and out.strip()


def test_show_model_counts_parameters(autotune):
    _, out, _ = autotune("show", "mixtral-8x7b", "--json")
    assert json.loads(out)["parameters"] == {"total": 46_702_792_704, "active": 12_879_925_248}
    _, out, _ = autotune("show", "gpt-175b", "--json")
    assert "first_k_dense" not in json.loads(out), "keys of experts say nothing about a dense model"


def test_show_files(autotune, tmp_path):
    model = tmp_path / "m.yaml"
    model.write_text(
        "name: m\nnum_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nvocab_size: 100\nseq_length: 8\n"
    )
    code, out, _ = autotune("show", model, "--json")
    assert code == 0 and json.loads(out)["parameters"]["total"] > 0
    cluster = tmp_path / "c.yaml"
    cluster.write_text("name: c\ngpu: H100\ngpus: 16\n")
    code, out, _ = autotune("show", cluster, "--json")
    assert code == 0 and json.loads(out)["hb_domain"] == {"size": 8, "bandwidth_GBps": 450.0}


def test_conventions_are_said_where_people_mix_them_up(autotune):
    _, _, err = autotune("show", "H100")
    assert "one direction" in err and "dense" in err and "2^30" in err
    _, _, err = autotune("-q", "list", "gpus")
    assert err == ""


def test_refusals_exit_2_and_name_the_place(autotune, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: c\ngpu: H100\ngpus: 17\nnetwork: {fabric: rails}\n")
    code, out, err = autotune("show", bad)
    assert code == 2 and out == "" and "bad.yaml:3, gpus" in err and "bad.yaml:4, network.fabric" in err
    code, out, _ = autotune("show", bad, "--json")
    document = json.loads(out)
    assert (
        code == 2
        and document["exit_code"] == 2
        and {p["key"] for p in document["problems"]} == {"gpus", "network.fabric"}
    )


@pytest.mark.parametrize("name", ["no-such-thing", "no/such/file.yaml", "", "mixtrall-8x7b", "\x1b[31m"])
def test_unknown_names_exit_2(autotune, name):
    code, _, err = autotune("show", name)
    assert code == 2 and "error:" in err


def test_an_architecture_that_cannot_be_priced_is_named(autotune, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 9})
    )
    code, _, err = autotune("show", tmp_path)
    assert code == 2 and "mamba" in err


def test_through_the_interpreter(tmp_path):
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text("a: &a [*a]\ngpus: 8\n")
    result = subprocess.run(
        [sys.executable, "-m", "autotune", "show", str(bomb)], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 2 and "Traceback" not in result.stderr and "bomb.yaml:1" in result.stderr
