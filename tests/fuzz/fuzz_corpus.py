"""The good files that get damaged, by kind, and the commands that read each kind.

`KINDS[name]` holds the seeds of a kind and the function that turns a damaged file into a command line.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fuzz_drive import ROOT

from autotune.load import dump_yaml, read_yaml
from autotune.plan import Plan

CLUSTER = "h100-rail-1024"
MODEL = str(ROOT / "examples/models/small-gpt-1b.yaml")
CATALOGUE = ROOT / "autotune/catalogue"
HOSTS = ROOT / "tests/imports/hosts"
SCRIPTS = ROOT / "tests/reader/scripts"
CASES = read_yaml(ROOT / "tests/reader/expected.yaml")
TINY_CLUSTER = "{name: tiny, gpu: H100-80GB-SXM, gpus: 8, hb_domain: {size: 8}, network: {fabric: rail-only, nic_Gbps: 400}}\n"
TINY_MODEL = (
    "{name: tiny, num_layers: 2, hidden_size: 512, num_attention_heads: 8, vocab_size: 1024, seq_length: 128,\n"
    " training: {global_batch_size: 16, precision: bf16}, search: {tensor_parallel: [1, 2], context_parallel: 1}}\n"
)

Arguments = list[str]
# (generator, damaged file, folder for further files) -> command line without `autotune`
Command = Callable[[random.Random, Path, Path], Arguments]


@dataclass(frozen=True)
class Seed:
    """A good file: its bytes, the name the damaged copy gets, and options that belong to it."""

    data: bytes
    name: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kind:
    """Files of one kind: seeds, how they are read, and whether their values (not only their text) can be damaged.

    `lined`: the reader knows the line of every key it complains about.
    """

    seeds: Callable[[], list[Seed]]
    command: Command
    values: bool = False
    lined: bool = False
    kernel: bool = False


def _files(folder: Path, pattern: str, name: str = "") -> list[Seed]:
    found = sorted(p for p in folder.rglob(pattern) if p.is_file())
    assert found, f"no {pattern} in {folder}"
    return [Seed(p.read_bytes(), name or "f" + p.suffix) for p in found]


@cache
def clusters() -> list[Seed]:
    defined = (
        "name: mine\ngpu: {name: g, memory_GiB: 9, hbm_GBps: 1000, bf16_TFLOPS: 100, scale_up_GBps: 50, sources: {a: b}}\ngpus: [8, 16]\n"
        "hb_domain: {size: [1, 8], bandwidth_GBps: {min: 1, max: 9, step: 2}}\n"
        "network: {fabric: fat-tree, nic_Gbps: [100, 200], options: {transport: roce}, latency_us: 5, oversubscription: 2}\n"
        "prices: {gpu_hour_usd: 2, price_set: deepseek}\nfailures: {restart_s: 60}\ncalibration: {gemm_efficiency: 0.5}\nmemory_reserve_GiB: 2\n"
    )
    return _files(ROOT / "examples/clusters", "*.yaml") + _files(CATALOGUE / "clusters", "*.yaml") + [Seed(defined.encode(), "f.yaml")] * 6


@cache
def models() -> list[Seed]:
    return _files(ROOT / "examples/models", "*.yaml") + _files(CATALOGUE / "models", "*.yaml")


@cache
def hub_configurations() -> list[Seed]:
    megatron = {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "padded_vocab_size": 1024, "seq_length": 128, "lr": 1e-4, "swiglu": True}
    return _files(ROOT / "tests/imports/hf", "*.json", "config.json") + [Seed(json.dumps(megatron, indent=1).encode(), "args.json")] * 5


@cache
def plans() -> list[Seed]:
    layers = 24  # of MODEL
    shapes = [
        {"tensor_parallel": 2, "data_parallel": 4, "global_batch_size": 8},
        {"tensor_parallel": 4, "pipeline_parallel": 2, "data_parallel": 8, "global_batch_size": 64, "sequence_parallel": True},
        {"pipeline_parallel": 4, "virtual_stages": 2, "data_parallel": 2, "global_batch_size": 32, "recompute": "full", "zero_stage": 2},
        {"context_parallel": 2, "data_parallel": 4, "global_batch_size": 16, "micro_batch_size": 2, "rank_order": "tp-cp-ep-pp-dp"},
    ]
    found = []
    for shape in shapes:
        stages = shape.get("pipeline_parallel", 1)
        plan = Plan(**shape, stage_layers=(layers // stages,) * stages).to_dict()
        result = {"plans": [{**plan, "mfu": 0.4, "iteration_time_s": 1.5, "rail": {"compatible": True, "groups": [1]}}], "search": {"points_total": 3}, "seed": 0}
        found += [Seed(dump_yaml(plan).encode(), "plan.yaml"), Seed(json.dumps(result, indent=1).encode(), "result.json")]
        found += [Seed(dump_yaml({"plan": plan}).encode(), "plan.yaml"), Seed(dump_yaml(shape).encode(), "plan.yaml")]
    return found


@cache
def calibrations() -> list[Seed]:
    full = (
        "gemm_efficiency: 0.7\nhbm_efficiency: 0.8\nattention_forward_efficiency: 0.5\nattention_backward_efficiency: 0.4\nnvlink_efficiency: 0.8\n"
        "nic_efficiency: 0.9\nlaunch_us: 4.5\niteration_overhead_s: 0.01\nnotes: measured\n"
    )
    return [Seed(t.encode(), "f.yaml") for t in (full, "gemm_efficiency: 0.7\n", "calibration: {nic_efficiency: 0.9, launch_us: 5.0}\n", json.dumps({"gemm_efficiency": 0.6}))]


@cache
def smi_topologies() -> list[Seed]:
    return _files(HOSTS, "topo_*.txt")


@cache
def smi_queries() -> list[Seed]:
    texts = [
        "name, memory.total [MiB]\n" + "NVIDIA H100 80GB HBM3, 81559 MiB\n" * 8, "index, name, memory.total\n0, NVIDIA A100-SXM4-80GB, 81920\n1, NVIDIA A100-SXM4-80GB, 81920\n",
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\nGPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bb)\n",
        "==============NVSMI LOG==============\nAttached GPUs : 1\nGPU 00000000:07:00.0\n    Product Name                    : NVIDIA H100 80GB HBM3\n"
        "    FB Memory Usage\n        Total                       : 81559 MiB\n    BAR1 Memory Usage\n        Total        : 131072 MiB\n",
    ]  # fmt: skip
    return [Seed(t.encode(), "f.csv") for t in texts]


@cache
def nccl_files() -> list[Seed]:
    return _files(HOSTS, "*.xml")


@cache
def slurm_topologies() -> list[Seed]:
    return _files(HOSTS, "slurm*.conf") + _files(HOSTS, "slurm*.yaml")


@cache
def scontrol_dumps() -> list[Seed]:
    node = (
        "NodeName={n} Arch=x86_64 CoresPerSocket=56\n   CPUAlloc=0 CPUEfctv=224 CPUTot=224 CPULoad=0.50\n   Gres=gpu:nvidia_h100_80gb_hbm3:8(S:0-1)\n"
        "   NodeAddr={n} NodeHostName={n} Version=24.05.1\n   State=IDLE ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n   CfgTRES=cpu=224,mem=2000G,billing=224,gres/gpu=8\n\n"
    )
    return [Seed("".join(node.format(n=f"gpu{i:03}") for i in range(count)).encode(), "f.txt") for count in (1, 3)]


@cache
def measurements() -> list[Seed]:
    """Two or three rows at a time of the published runs, from different sources."""
    lines = (ROOT / "results/validation/measurements.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    rng = random.Random(0)
    return [Seed((lines[0] + "".join(rng.sample(lines[1:], 2))).encode(), "f.csv") for _ in range(40)]


@cache
def owners_measurements() -> list[Seed]:
    """What `calibrate` reads, told apart by name: GPU tables, nccl-tests logs, step times, and clusters with a calibration."""
    head = {"format": "autotune-gpu-table", "version": 1, "gpu": "NVIDIA H100 80GB HBM3"}
    gemm = [{"m": m, "n": 8192, "k": 8192, "dtype": kind, "seconds": m * t} for m, kind, t in ((64, "bf16", 1e-6), (4096, "bf16", 2.4e-7), (8192, "fp8", 1.2e-7))]
    attention = [{"batch": 1, "heads": 32, "seq": 4096, "head_dim": 128, "direction": d, "seconds": t} for d, t in (("forward", 5e-4), ("backward", 1.5e-3))]
    collectives = [{"collective": c, "ranks": 8, "nbytes": 2**28, "seconds": t} for c, t in (("all_reduce", 1.6e-3), ("all_gather", 1e-3), ("alltoall", 1.1e-3))]
    tables = [
        {**head, "gemm": gemm * 3, "launch": [{"kernels": 200, "seconds": 1e-3}]}, {**head, "attention": attention * 3, "elementwise": [{"nbytes": 2**30, "seconds": 5e-4}] * 3},
        {**head, "collectives": collectives * 2},
    ]  # fmt: skip
    lines = (ROOT / "results/validation/measurements.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    runs = [line for line in lines[1:] if line.startswith("bigscience-010")]
    found = [Seed(json.dumps(t, indent=i).encode(), "table.json") for t in tables for i in (1, None)]
    logs = (("all_gather", 64, 8, 7.0), ("all_reduce", 8, 1, 5.5), ("sendrecv", 16, 2, 29.0), ("alltoall", 16, 2, 18.0))
    found += [Seed(nccl_log(*log).encode(), f"{name}_perf.txt") for name, *log in logs]
    found += [Seed((lines[0] + "".join(runs[i : i + 2])).encode(), "steps.csv") for i in range(3)]
    found += [Seed(b"gemm_efficiency: 0.7\nnic_efficiency: 0.9\nnotes: measured\n", "constants.yaml")]
    return [*found, Seed(TINY_CLUSTER.replace("}}", "}, calibration: constants.yaml}").encode(), "mine.yaml")] * 2


def nccl_log(ranks: int, hosts: int, us_per_MiB: float) -> str:
    """Text as nccl-tests print it. Times a little off the shipped constants determine one."""
    text = "".join(f"#  Rank {i:2d} Group  0 Pid {100 + i} on node-{i * hosts // ranks} device {i % 8} [0x1b] NVIDIA H100 80GB HBM3\n" for i in range(ranks))
    text += "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    text += "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
    return text + "".join(f"  {size << 20}  {size << 18}   float    none    -1   {size * us_per_MiB:.1f}   20.0   20.0    0   {size * us_per_MiB:.1f}  20.0  20.0   N/A\n" for size in (1, 64, 128, 256, 512, 1024, 2048))


@cache
def scripts() -> list[Seed]:
    """Launch scripts and configurations; the damaged copy lies beside the original, within reach of its other files."""
    found = []
    for case in CASES:
        source = SCRIPTS / case["file"]
        options = [f"--set={k}={v}" for k, v in case.get("settings", {}).items()]
        if case.get("arguments"):
            options += ["--args", " ".join(str(a) for a in case["arguments"])]
        if case.get("launch"):
            options += ["--launch", str(case["launch"])]
        found.append(Seed(source.read_bytes(), str(Path(case["file"]).with_name("fuzzed" + source.suffix)), tuple(options)))
    return found


@cache
def companions() -> list[Seed]:
    """Files that scripts refer to, damaged in place."""
    found = []
    for case in CASES:
        folder = (SCRIPTS / case["file"]).parent
        if folder == SCRIPTS:
            continue
        options = tuple(f"--set={k}={v}" for k, v in case.get("settings", {}).items())
        others = [p for p in folder.rglob("*") if p.is_file() and p != SCRIPTS / case["file"]]
        found += [Seed(p.read_bytes(), str(p.relative_to(SCRIPTS)), (case["file"], *options)) for p in sorted(others)]
    return found


@cache
def deepspeed_files() -> list[Seed]:
    texts = [
        {"train_batch_size": 256, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 1}, "bf16": {"enabled": True}},
        {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "none"}}, "fp16": {"enabled": "auto"}},
    ]  # fmt: skip
    return [Seed(json.dumps(t, indent=1).encode(), "ds.json") for t in texts] + _files(SCRIPTS, "*z*3.json", "ds.json")


def _as_json(rng: random.Random) -> Arguments:
    return ["--json"] if rng.random() < 0.6 else []


def _read_cluster(rng: random.Random, path: Path, folder: Path) -> Arguments:
    choices = [["show", str(path)], ["network", str(path)], ["network", str(path), "--failures"], ["network", str(path), "--compare", "fat-tree,rail-only"]]
    if rng.random() < 0.15:
        return ["network", str(path), "--compare", "all", *_as_json(rng)]
    return [*rng.choice(choices), *_as_json(rng)]


def _read_model(rng: random.Random, path: Path, folder: Path) -> Arguments:
    return ["show", str(path), *_as_json(rng)]


def _read_plan(rng: random.Random, path: Path, folder: Path) -> Arguments:
    target = rng.choice(("megatron", "megatron-bridge", "deepspeed", "torchtitan", "megatron-deepspeed", "megatron-lm-2023"))
    choices = [
        ["traffic", CLUSTER, MODEL, str(path)], ["explain", CLUSTER, MODEL, str(path)], ["check", CLUSTER, MODEL, str(path), "--no-search", "--target", target],
        ["emit", CLUSTER, MODEL, str(path), "--target", target, "--out", str(folder / "out"), "--force"],
    ]  # fmt: skip
    return [*rng.choice(choices), *_as_json(rng)]


def _read_calibration(rng: random.Random, path: Path, folder: Path) -> Arguments:
    cluster = folder / "cluster.yaml"
    cluster.write_text(TINY_CLUSTER.replace("}}", f"}}, calibration: {path.name}}}"))
    return ["explain", str(cluster), MODEL, str(tiny_plan(folder)), *_as_json(rng)] if rng.random() < 0.2 else ["show", str(cluster), *_as_json(rng)]


def tiny_plan(folder: Path) -> Path:
    """A plan of `MODEL` on eight GPUs, written below `folder`."""
    path = folder / "tiny_plan.yaml"
    if not path.exists():
        path.write_text("{tensor_parallel: 2, data_parallel: 4, global_batch_size: 8, stage_layers: [24]}\n")
    return path


def _imports(option: str) -> Command:
    def command(rng: random.Random, path: Path, folder: Path) -> Arguments:
        more = rng.choice(([], ["--nodes", "4"], ["--gpu", "H100-80GB-SXM", "--nodes", "2"], ["--gpu", "A100-80GB-SXM", "--fabric", "rail-only"]))
        return ["cluster", "import", option, str(path), *more, *_as_json(rng)]

    return command


def _validates(rng: random.Random, path: Path, folder: Path) -> Arguments:
    if rng.random() < 0.3:
        return ["validate", str(path), "--infeasible", str(path), *_as_json(rng)]
    return ["validate", str(path), *_as_json(rng)]


def _calibrates(rng: random.Random, path: Path, folder: Path) -> Arguments:
    log, cluster, constants = folder / "all_gather_perf.txt", folder / "mine.yaml", folder / "constants.yaml"
    for good, seed in ((log, nccl_log(8, 1, 3.4)), (cluster, TINY_CLUSTER), (constants, "gemm_efficiency: 0.7\n")):
        if good != path:
            good.write_text(seed.replace("}}", "}, calibration: constants.yaml}") if path == constants else seed)
    if path.suffix == ".yaml":
        return ["calibrate", str(log), "--cluster", str(cluster), *_as_json(rng)]
    if path.suffix == ".csv":
        return ["calibrate", str(path), *(["--cluster", "a100-1024"] if rng.random() < 0.3 else []), *_as_json(rng)]
    more = [str(log)] if path.suffix == ".json" and rng.random() < 0.1 else []
    return ["calibrate", str(path), *more, "--cluster", rng.choice((CLUSTER, str(cluster))), *_as_json(rng)]


def _checks(rng: random.Random, path: Path, folder: Path) -> Arguments:
    return ["check", "--command", str(path), "--gpu", "H100-80GB-SXM", "--no-search", *_as_json(rng)]


def _checks_deepspeed(rng: random.Random, path: Path, folder: Path) -> Arguments:
    return ["check", "a100-1024", MODEL, "--deepspeed", str(path), "--micro", "1", "--no-search", *_as_json(rng)]


def _searches(rng: random.Random, path: Path, folder: Path) -> Arguments:
    cluster, model = folder / "tiny_cluster.yaml", folder / "tiny_model.yaml"
    if not cluster.exists():
        cluster.write_text(TINY_CLUSTER)
        model.write_text(TINY_MODEL)
    pair = [str(path), str(model)] if b"gpus" in path.read_bytes() else [str(cluster), str(path)]
    if rng.random() < 0.3:
        return ["sweep", *pair, "--vary", "nic_Gbps=100,400", *_as_json(rng)]
    return ["search", *pair, "--trials", "2", *_as_json(rng)]


def _tiny() -> list[Seed]:
    return [Seed(TINY_CLUSTER.encode(), "f.yaml"), Seed(TINY_MODEL.encode(), "f.yaml")]


KINDS: dict[str, Kind] = {
    "cluster": Kind(clusters, _read_cluster, values=True, lined=True),
    "model": Kind(models, _read_model, values=True, lined=True),
    "hub": Kind(hub_configurations, _read_model, values=True),
    "plan": Kind(plans, _read_plan, values=True, lined=True, kernel=True),
    "calibration": Kind(calibrations, _read_calibration, values=True, lined=True, kernel=True),
    "smi-topo": Kind(smi_topologies, _imports("--smi-topo")),
    "smi-query": Kind(smi_queries, _imports("--smi-query")),
    "nccl": Kind(nccl_files, _imports("--nccl-topo")),
    "slurm": Kind(slurm_topologies, _imports("--slurm-topology")),
    "scontrol": Kind(scontrol_dumps, _imports("--scontrol")),
    "measurements": Kind(measurements, _validates, kernel=True),
    "calibrate": Kind(owners_measurements, _calibrates, values=True, lined=True, kernel=True),
    "script": Kind(scripts, _checks, kernel=True),
    "companion": Kind(companions, _checks, kernel=True),
    "deepspeed": Kind(deepspeed_files, _checks_deepspeed, values=True, kernel=True),
    "search": Kind(_tiny, _searches, values=True, lined=True, kernel=True),
}


def scripts_copy(folder: Path) -> Path:
    """A copy of the scripts, closed off by a `.git` as a repository would be, so that nothing above it is within reach."""
    copy = folder / "scripts"
    if not copy.exists():
        shutil.copytree(SCRIPTS, copy)
        (copy / ".git").mkdir()
    return copy
