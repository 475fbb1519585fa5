"""Files made to harm the reader, in every place where the command line takes a file; and hostile names and options."""

import json
import os
import random
import resource
import socket

import pytest
from fuzz_corpus import CLUSTER, MODEL, nccl_log, tiny_plan
from fuzz_drive import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# Where a file may stand; FILE is replaced by its path.
PLACES = {
    "show": ["show", "FILE"],
    "network": ["network", "FILE"],
    "search cluster": ["search", "FILE", MODEL],
    "search model": ["search", CLUSTER, "FILE"],
    "sweep": ["sweep", "FILE", MODEL, "--vary", "nic_Gbps=100,200"],
    "explain": ["explain", CLUSTER, MODEL, "FILE"],
    "emit": ["emit", CLUSTER, MODEL, "FILE", "--out", "OUT"],
    "traffic": ["traffic", CLUSTER, MODEL, "FILE"],
    "check plan": ["check", CLUSTER, MODEL, "FILE"],
    "check script": ["check", "--command", "FILE", "--gpu", "H100-80GB-SXM"],
    "check second file": ["check", "--command", "SCRIPT.yaml", "--command", "FILE", "--gpu", "H100-80GB-SXM"],
    "check deepspeed": ["check", CLUSTER, MODEL, "--deepspeed", "FILE"],
    "smi-topo": ["cluster", "import", "--smi-topo", "FILE"],
    "smi-query": ["cluster", "import", "--smi-query", "FILE"],
    "nccl-topo": ["cluster", "import", "--nccl-topo", "FILE"],
    "slurm-topology": ["cluster", "import", "--slurm-topology", "FILE"],
    "scontrol": ["cluster", "import", "--scontrol", "FILE"],
    "validate": ["validate", "FILE"],
    "validate infeasible": ["validate", "GOOD.csv", "--infeasible", "FILE"],
    "calibration": ["show", "CALIBRATED"],
    "calibrate": ["calibrate", "FILE", "--cluster", CLUSTER],
    "calibrate cluster": ["calibrate", "all_gather_perf.txt", "--cluster", "FILE"],
    "calibrate calibration": ["calibrate", "all_gather_perf.txt", "--cluster", "CALIBRATED"],
}
MIB = 1 << 20
BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(b"%c: &%c [%s]\n" % (c + 1, c + 1, b",".join([b"*%c" % c] * 9)) for c in range(97, 106))
ENTITIES = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (c + 1, b"&%c;" % c * 10) for c in range(97, 106))
    + b']><system version="1">&j;</system>'
)


def sparse(path):
    with open(path, "wb") as f:
        f.truncate(100 * MIB)


def big_text(path):
    path.write_bytes(b"key: value\n" * (9 * MIB // 11))


def full_of(path):
    path.write_bytes(b"{" * 200 + b"9" * (7 * MIB))


def linked(target):
    return lambda path: os.symlink(target, path)


def loop(path):
    os.symlink(path, path)


def unix_socket(path):
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is limited to some 100 bytes
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path.name)
    finally:
        os.chdir(here)


OBJECTS = {
    "missing": lambda path: None,
    "folder": os.mkdir,
    "pipe": os.mkfifo,
    "socket": unix_socket,
    "zero device": linked("/dev/zero"),
    "terminal": linked("/dev/tty"),
    "dangling link": linked("nowhere"),
    "link to itself": loop,
    "link out of the tree": linked("/etc/passwd"),
    "process memory": linked("/proc/self/mem"),
    "100 MB of zeros": sparse,
    "9 MiB of text": big_text,
    "7 MiB number": full_of,
    "empty": lambda path: path.write_bytes(b""),
    "blank": lambda path: path.write_bytes(b"\n \n"),
    "NUL": lambda path: path.write_bytes(b"name: x\0y\n"),
    "UTF-16": lambda path: path.write_bytes("name: x\n".encode("utf-16")),
    "not UTF-8": lambda path: path.write_bytes(b"name: \xff\xfa\n"),
    "alias bomb": lambda path: path.write_bytes(BOMB),
    "alias of itself": lambda path: path.write_bytes(b"name: &a [*a]\n"),
    "deep YAML": lambda path: path.write_bytes(b"a: " + b"[" * 50_000),
    "deep JSON": lambda path: path.write_bytes(b"[" * 100_000 + b"]" * 100_000),
    "deep mapping": lambda path: path.write_bytes(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "python tag": lambda path: path.write_bytes(b"name: !!python/object/apply:os.mkdir [HARMED]\n"),
    "python tag in a script": lambda path: path.write_bytes(b"!!python/object/new:os.system ['mkdir HARMED']\n"),
    "entities": lambda path: path.write_bytes(ENTITIES),
    "external entity": lambda path: path.write_bytes(b'<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><system>&x;</system>'),
    "escape sequences": lambda path: path.write_bytes(b"\x1b]0;owned\x07\x1b[2J: \x1b[31m\n"),
    "binary": lambda path: path.write_bytes(random.Random(1).randbytes(100_000)),
    "program": lambda path: path.write_bytes(b"\x7fELF" + bytes(1000)),
}


def write_companions(folder, path):
    (folder / "SCRIPT.yaml").write_text("a: 1\n")
    (folder / "GOOD.csv").write_text("id,layers,hidden,heads,seq_len,gpu,n_gpus,tp,pp,global_batch\na-1,2,64,4,8,H100-80GB-SXM,1,1,1,1\n")
    (folder / "all_gather_perf.txt").write_text(nccl_log(8, 1, 3.4))
    (folder / "CALIBRATED").write_text(f"{{name: x, gpu: H100-80GB-SXM, gpus: 8, calibration: {json.dumps(str(path))}}}\n")


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("place", PLACES)
def test_hostile_files_are_refused(place, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "hostile"
    OBJECTS[name](path)
    write_companions(tmp_path, path)
    before = sorted(os.listdir(tmp_path))
    args = [str(path) if a == "FILE" else a for a in PLACES[place]]
    done = run(args, wall_limit_s=20)
    assert done.code == 2, (done.code, done.out[-300:], done.err[-300:])
    assert "error: " in done.err and "hostile" in done.err and "internal" not in done.err
    assert "\x1b" not in done.out + done.err and "\0" not in done.err
    assert sorted(os.listdir(tmp_path)) == before
    assert len(done.err) < 10_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < 1_000_000_000


@pytest.mark.parametrize("place", PLACES)
def test_unreadable_files_are_refused(place, tmp_path, monkeypatch):
    """As a user without the right to read sees it; the superuser may read everything, so the refusal is put in."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "hostile"
    path.write_bytes(b"name: x\n")
    path.chmod(0)
    write_companions(tmp_path, path)
    real = os.open

    def refuse(name, *args, **kwargs):
        if os.fspath(name) in (str(path), "hostile"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(name, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    done = run([str(path) if a == "FILE" else a for a in PLACES[place]])
    assert done.code == 2 and "Permission denied" in done.err and "hostile" in done.err


LAUNCH = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 128 --micro-batch-size 1\n"


@pytest.mark.parametrize("name", ["folder", "pipe", "socket", "zero device", "dangling link", "link to itself", "link out of the tree", "100 MB of zeros", "9 MiB of text", "binary"])
@pytest.mark.parametrize("line", ["source hostile", ". ./hostile", "X=$(cat hostile)", "python x.py --deepspeed_config hostile", "CONFIG=hostile"])
def test_what_a_script_names_is_not_waited_for(line, name, tmp_path, warm):
    warm("script")
    (tmp_path / ".git").mkdir()
    OBJECTS[name](tmp_path / "hostile")
    script = tmp_path / "job.sh"
    script.write_text(f"{line}\n{LAUNCH}")
    done = run(["check", "--command", str(script), "--gpu", "H100-80GB-SXM", "--no-search"], wall_limit_s=30)
    assert done.code in (0, 2, 4), done.err[-300:]
    assert "internal" not in done.err and "root:x:0" not in done.out + done.err


# Each is repeated to the greatest length that is read: texts that double, arrays that grow, what the parser finds hard.
GROWING = [
    "X=$X$X\n", "X=1$X\n", 'X="$X $(seq 1 5000)"\n', 'X=$(printf "%0999d" 1)$X\n', "X=${X//a/aaaaaaaa}a\n", "A=(${A[@]} ${A[@]} x)\n", "A+=(x x x x)\n",
    "X=${X[*]};A+=($X $X)\n", "set -- $@ $@ x\n", "f() { f $@ $@; }; f a\n", "for i in $X x; do X=\"$X $i\"; done\n", "[[ a =~ (a+)+ ]] && ", "$((1+", "X=$((9**9**9))\n",
    ")", "(", "a|", "a;", "a && ", "{1..9}", "{a,", "${a:-", "`", "$(", "<(", "if a; then ", "case a in ", "for i in 1 2 3; do ", "f(){ ", "cat <<E\n", "\\\n", "'", '"$a', "<x> ", ">a ",
]  # fmt: skip


@pytest.mark.parametrize("text", GROWING)
def test_scripts_that_grow_are_cut_short(text, tmp_path, warm):
    warm("script")
    script = tmp_path / "job.sh"
    script.write_text((text * 99_000)[:98_000] + "\n" + LAUNCH)
    done = run(["check", "--command", str(script), "--gpu", "H100-80GB-SXM", "--no-search"])
    assert done.code in (0, 2, 4), (done.code, done.err[-300:])
    assert "internal" not in done.err and len(done.err) < 10_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < 1_000_000_000


@pytest.mark.parametrize("name", ["pipe", "zero device", "dangling link", "link to itself", "folder", "100 MB of zeros"])
def test_a_model_folder_with_a_hostile_configuration(name, tmp_path):
    OBJECTS[name](tmp_path / "config.json")
    done = run(["show", str(tmp_path)])
    assert done.code == 2 and str(tmp_path) in done.err


@pytest.mark.parametrize("name", ["", " ", "a" * 300, "x/" * 3000, "new\nline", "esc\x1b[31m", "\udcff", "~", "/", "/dev/null", "-1", "$HOME", "*", "file://x", "http://x/y.yaml", "..", "é", "CON", "[/]", ":smile:"])
@pytest.mark.parametrize("place", PLACES)
def test_hostile_names_are_refused(place, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_companions(tmp_path, name.encode("utf-8", "replace").decode())
    done = run([name if a == "FILE" else a for a in PLACES[place]])
    assert done.code == 2, (done.code, done.err[-300:])
    assert "rror: " in done.err and "internal" not in done.err and "\x1b" not in done.err and "\0" not in done.err
    assert "OUT" not in os.listdir(tmp_path)


OPTIONS = [
    ["show", "TEXT"], ["network", CLUSTER, "--compare", "TEXT"], ["network", CLUSTER, "--prices", "TEXT"], ["network", CLUSTER, "--gpu-usd", "TEXT"],
    ["sweep", CLUSTER, MODEL, "--vary", "TEXT"], ["search", CLUSTER, "TEXT"], ["search", CLUSTER, MODEL, "--target", "TEXT", "--trials", "0"],
    ["explain", CLUSTER, MODEL, "PLAN", "--target", "TEXT"], ["emit", CLUSTER, MODEL, "PLAN", "--target", "TEXT", "--out", "OUT"],
    ["check", CLUSTER, MODEL, "PLAN", "--target", "TEXT", "--no-search"], ["check", "--command", "SCRIPT", "--args", "TEXT"], ["check", "--command", "SCRIPT", "--set", "TEXT"],
    ["check", "--command", "SCRIPT", "--gpu", "TEXT"], ["cluster", "import", "--gpu", "A100-80GB-SXM", "--hostlist", "TEXT"], ["cluster", "import", "--gpu", "TEXT"],
    ["cluster", "import", "--instance", "TEXT"], ["cluster", "import", "--gpu", "A100-80GB-SXM", "--nodes", "2", "--fabric", "TEXT"],
    ["cluster", "import", "--gpu", "A100-80GB-SXM", "--nodes", "2", "--name", "TEXT"], ["list", "TEXT"], ["TEXT"], ["validate", "--max-mape", "TEXT"],
]  # fmt: skip
TEXTS = st.text(max_size=40) | st.from_regex(r"[a-z_]{1,12}=[0-9:.,x-]{0,20}", fullmatch=True) | st.sampled_from(
    ["nic_Gbps=1:2:0", "nic_Gbps=1:1e9:1e-9", "gpus=8,8,9999999999", "fabric=x", "global_batch_size=0", "nic_Gbps=nan", "n[1-999999999]", "n[01-9]" * 9, "1e999", "nan", "--", "-h", "%s"]
)  # fmt: skip


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(args=st.sampled_from(OPTIONS), text=TEXTS)
def test_any_text_in_any_option(args, text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("options", numbered=True)
    (folder / "job.sh").write_text(LAUNCH)
    names = {"TEXT": text, "PLAN": str(tiny_plan(folder)), "SCRIPT": str(folder / "job.sh"), "OUT": str(folder / "out")}
    done = run([names.get(a, a) for a in args], cpu_limit_s=120)  # the first use of a kernel compiles it
    assert done.code in (0, 2, 3, 4), (done.code, done.err[-500:])
    assert "internal" not in done.err
    assert done.code == 0 or done.err.strip()
