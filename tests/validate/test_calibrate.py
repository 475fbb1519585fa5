"""Calibration: reads what users have, fits what the data determine, refuses the rest."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import random
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from autotune.calibrate import Measurements, _errors, calibrate, calibration_yaml, read_measurements, readings_of
from autotune.calibration.gpu_table import GpuTable, parse_gpu_table, read_gpu_table
from autotune.calibration.nccl import Collective, parse_nccl
from autotune.errors import InputError
from autotune.load import load_calibration, load_cluster
from autotune.validate.rows import Row, read_rows
from autotune.validate.tunable import operator_stack
from costmodels.gemm import gemm_s

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "results" / "validation" / "measurements.csv"
NCCL = """# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 4(factor)
# Using devices
{ranks}
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    {a}   20.00   35.00      0    53.00   19.78   34.60      0
  1073741824     268435456     float     sum      -1    {b}  200.00  350.00      0   5400.0  198.00  347.00      0
# Out of bounds values : 0 OK
"""


def log(ranks: int, nodes: int, a: float = 60.0, b: float = 5200.0) -> str:
    lines = [
        f"#  Rank {i:2d} Group  0 Pid {100 + i} on node-{i * nodes // ranks} device {i % 8} [0x1b] NVIDIA H100 80GB HBM3" for i in range(ranks)
    ]
    return NCCL.format(ranks="\n".join(lines), a=a, b=b)


def test_nccl_tests_output_is_read_with_ranks_nodes_and_the_out_of_place_time() -> None:
    rows = parse_nccl(log(16, 2), "all_reduce_perf.txt")
    assert rows == [Collective("all_reduce", 16, 8, 1048576.0, 6e-05), Collective("all_reduce", 16, 8, 1073741824.0, 0.0052)]
    with pytest.raises(InputError, match="collective is not named"):
        parse_nccl(log(8, 1), "log.txt")
    with pytest.raises(InputError, match="number of ranks"):
        parse_nccl(NCCL.format(ranks="", a=1.0, b=1.0), "all_reduce_perf.txt")
    with pytest.raises(InputError, match="time must be positive"):
        parse_nccl(log(8, 1, a=0.0), "all_reduce_perf.txt")


def test_a_log_in_a_domain_fits_nvlink_and_one_across_nodes_fits_the_nics() -> None:
    cluster = load_cluster("h100-rail-1024")
    inside = parse_nccl(log(8, 1), "all_gather_perf.txt", 1 << 28)  # 1 GiB in 5.2 ms: 181 GB/s on 450
    result = calibrate(Measurements(collectives=inside * 4), cluster)
    assert result.calibration.nvlink_efficiency is not None and result.calibration.nvlink_efficiency < 0.5
    assert result.calibration.nic_efficiency is None and not result.constants["nic_efficiency"]["identified"]
    across = parse_nccl(log(64, 8, b=9000.0), "all_gather_perf.txt", 1 << 28)
    result = calibrate(Measurements(collectives=across * 4), cluster)
    assert result.calibration.nic_efficiency is not None and result.calibration.nic_efficiency < 0.6


def gemm_table(efficiency: float) -> GpuTable:
    gpu = [{"m": m, "n": 8192, "k": 8192, "dtype": "bf16"} for m in (2048, 4096, 8192, 16384)]
    rows = [{**g, "seconds": gemm_s(float(g["m"]), 8192.0, 8192.0, efficiency * 989.4e12, 132.0, 0.8 * 3.35e12, 2.0, 80.0)} for g in gpu]  # type: ignore[arg-type]
    return GpuTable("NVIDIA H100 80GB HBM3", gemm=rows * 5)


def test_matrix_timings_fit_the_matrix_rate() -> None:
    result = calibrate(Measurements(tables=[gemm_table(0.6)]), load_cluster("h100-rail-1024"))
    assert result.calibration.gemm_efficiency == pytest.approx(0.6, abs=0.01)
    assert set(result.calibration.model_dump(exclude_none=True)) == {"gemm_efficiency", "notes"}


def test_a_log_of_one_rank_and_times_without_end_are_refused() -> None:
    with pytest.raises(InputError, match="one rank"):
        parse_nccl(log(1, 1), "all_reduce_perf.txt")
    with pytest.raises(InputError, match="no sizes"):  # neither is a number that a log prints
        parse_nccl(log(8, 1).replace("1048576 ", "²48576 ").replace("1073741824 ", "9" * 5000 + " "), "all_reduce_perf.txt")


def test_a_log_of_very_many_hosts_is_read_in_one_pass() -> None:
    ranks = "\n".join(f"# Rank {i} Group 0 Pid 1 on n{i} device 0 [0x1b] H" for i in range(100_000))
    rows = parse_nccl(NCCL.format(ranks=ranks, a=60.0, b=5200.0), "all_reduce_perf.txt")  # a count per host would take minutes
    assert (rows[0].ranks, rows[0].ranks_per_node) == (100_000, 1)


def test_step_times_fit_a_cluster_that_names_its_gpu() -> None:
    """A preset or file gives the GPU by name; the rows' own machines carry the data sheet."""
    rows = [r for r in read_rows(ROWS) if r.system_group == "Jean Zay A100" and r.time_s and r.tier == "A" and r.prefix != "bloom176"][:8]
    slow = [dataclasses.replace(r, time_s=2 * r.time_s) for r in rows if r.time_s]
    cluster = load_cluster("a100-1024")
    assert isinstance(cluster.gpu, str)
    found = calibrate(Measurements(rows=slow), cluster, operator_stack)
    assert found.used["step_times"] == len(slow) == 8 and found.after["mape"] < found.before["mape"]


def test_rows_that_cannot_be_used_say_why() -> None:
    rows = [dataclasses.replace(r, gpu="Z9") for r in read_rows(ROWS)[:2]]
    with pytest.raises(InputError, match="row .*: GPU not in the catalogue"):
        calibrate(Measurements(rows=rows))


def test_a_cluster_of_several_bandwidths_is_named_with_its_line(tmp_path: Path) -> None:
    from autotune.cli.calibrate import command

    rows, cluster = tmp_path / "rows.csv", tmp_path / "mine.yaml"
    rows.write_text("".join(ROWS.read_text(encoding="utf-8").splitlines(keepends=True)[:9]))
    cluster.write_text("name: mine\ngpu: A100-80GB-SXM\ngpus: 64\nnetwork:\n  nic_Gbps: [100, 200]\n")
    with pytest.raises(InputError) as error:
        CliRunner().invoke(command, [str(rows), "--cluster", str(cluster)], catch_exceptions=False)
    (problem,) = error.value.problems
    assert (problem.file, problem.line, problem.key) == (str(cluster), 5, "network.nic_Gbps")


def test_data_that_determine_nothing_are_refused() -> None:
    cluster = load_cluster("h100-rail-1024")
    small = GpuTable("x", gemm=[{"m": 64, "n": 64, "k": 64, "dtype": "bf16", "seconds": 1.0}])
    with pytest.raises(InputError, match="identify any constant|nothing to fit"):
        calibrate(Measurements(tables=[small]), cluster)
    with pytest.raises(InputError, match="give --cluster"):
        calibrate(Measurements(tables=[small]), None)
    with pytest.raises(InputError, match="nothing to fit"):
        calibrate(Measurements(), cluster)


def test_rows_of_two_machines_are_refused() -> None:
    rows = [r for r in read_rows(ROWS) if r.prefix in ("narayanan21-t1", "internevo-tgs")]
    with pytest.raises(InputError, match="more than one machine"):
        calibrate(Measurements(rows=rows))


def _bias(rows: list[Row], values: dict[str, float]) -> float:
    return abs(_errors(readings_of(rows, None, operator_stack), values, operator_stack)["bias"])


@pytest.mark.parametrize("system", ["Jean Zay A100", "Meta Grand Teton H100-96GB-HBM2e", "NVIDIA DGX A100 SuperPOD (NeMo README)"])
def test_eight_step_times_halve_the_bias_on_the_rest_of_a_system(system: str) -> None:
    """Starting from operator values, so that the shipped fits, which saw these rows, play no part."""
    rows = [r for r in read_rows(ROWS) if r.system_group == system and r.time_s and r.tier in ("A", "B") and r.prefix != "bloom176"]
    before, after = [], []
    for seed in range(3):
        chosen = set(random.Random(seed).sample(range(len(rows)), 8))
        rest = [r for i, r in enumerate(rows) if i not in chosen]
        found = calibrate(Measurements(rows=[rows[i] for i in chosen]), None, operator_stack).calibration.model_dump(exclude_none=True)
        found.pop("notes")
        before.append(_bias(rest, {}))
        after.append(_bias(rest, found))
    assert np.mean(after) <= 0.5 * np.mean(before)


def _script() -> object:
    spec = importlib.util.spec_from_file_location("measure_gpu", ROOT / "scripts" / "measure_gpu.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recorder:
    """A backend without torch: every operator takes a known time."""

    def __init__(self) -> None:
        self.now = 0.0

    def name(self) -> str:
        return "fake"

    def clock(self, run: object) -> float:
        start = self.now
        run()  # type: ignore[operator]
        return self.now - start

    host_clock = clock

    def _spend(self, seconds: float) -> object:
        def run() -> None:
            self.now += seconds

        return run

    def gemm(self, m: int, n: int, k: int) -> object:
        return self._spend(2e-12 * m * n * k / 500)

    def attention(self, batch: int, heads: int, seq: int, head_dim: int, backward: bool) -> object:
        return self._spend(1e-3 * (2 if backward else 1))

    def add(self, nbytes: int) -> object:
        return self._spend(nbytes / 2e12)

    def small_kernels(self, count: int) -> object:
        return self._spend(5e-6 * count)

    def collective(self, name: str, nbytes: int, ranks: int) -> object:
        return self._spend(nbytes / 3e11)


@pytest.mark.parametrize("quick", [True, False])
def test_the_measuring_script_writes_a_table_that_calibrate_reads(tmp_path: Path, quick: bool) -> None:
    table = _script().measure(Recorder(), 8, quick, note=lambda text: None)  # type: ignore[attr-defined]
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps(table))
    read = read_gpu_table(path)
    assert read.launch[0]["seconds"] / read.launch[0]["kernels"] == pytest.approx(5e-6)
    assert {a["direction"] for a in read.attention} == {"forward", "backward"}
    assert {c["collective"] for c in read.collectives} == {"all_reduce", "all_gather", "reduce_scatter", "alltoall"}
    assert len(read_measurements([path]).tables) == 1


def test_damaged_tables_are_refused_with_every_fault(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps({"format": "autotune-gpu-table", "version": 1, "gemm": [{"m": -1, "n": 1, "k": 1, "seconds": 1, "dtype": "int4"}]}))
    with pytest.raises(InputError) as error:
        read_gpu_table(path)
    assert len(error.value.problems) == 2
    for text in ("{", "[]", '{"format": "other"}'):
        path.write_text(text)
        with pytest.raises(InputError):
            read_gpu_table(path)


HEAD = '{"format": "autotune-gpu-table", "version": 1,\n'


@pytest.mark.parametrize(
    ("body", "line", "key", "words"),
    [
        ('"collectives": [\n{"collective": "all_reduce", "ranks": 1, "nbytes": 8, "seconds": 1}]}', 3, "collectives[0].ranks", "from 2 to"),
        ('"collectives": [\n{"collective": "all_reduce", "ranks": 2.5, "nbytes": 8, "seconds": 1}]}', 3, "collectives[0].ranks", "whole"),
        ('"elementwise": [{"nbytes": 1' + "0" * 400 + ',\n"seconds": 1}]}', 2, "elementwise[0].nbytes", "from 1 to 1e\\+15"),
        ('"elementwise": [{"nbytes": 8,\n"seconds": NaN}]}', 3, "elementwise[0].seconds", "from 1e-09"),
        ('"gemm": 5}', 2, "gemm", "must be a list"),
        ('"launch": [\n7]}', 3, "launch[0]", "must be a mapping"),
    ],
)
def test_a_damaged_table_is_refused_with_line_and_key(body: str, line: int, key: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        parse_gpu_table(HEAD + body, "gpu.json")
    assert [(p.file, p.line, p.key) for p in error.value.problems] == [("gpu.json", line, key)]


def test_the_command_writes_a_file_that_cluster_yaml_can_include(tmp_path: Path) -> None:
    from autotune.cli.calibrate import command

    path, out = tmp_path / "gpu.json", tmp_path / "calibration.yaml"
    table = gemm_table(0.6)
    path.write_text(json.dumps({"format": "autotune-gpu-table", "version": 1, "gpu": "H100", "gemm": table.gemm}))
    done = CliRunner().invoke(command, [str(path), "--cluster", "h100-rail-1024", "--out", str(out), "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    assert load_calibration(out).gemm_efficiency == pytest.approx(0.6, abs=0.01)
    (tmp_path / "cluster.yaml").write_text("name: mine\ngpu: H100-80GB-SXM\ngpus: 64\ncalibration: calibration.yaml\n")
    assert load_cluster(tmp_path / "cluster.yaml").calibration.gemm_efficiency == pytest.approx(0.6, abs=0.01)  # type: ignore[union-attr]
    with pytest.raises(InputError, match="already exists"):
        CliRunner().invoke(command, [str(path), "--cluster", "h100-rail-1024", "--out", str(out)], catch_exceptions=False)


def test_the_yaml_holds_only_what_was_fitted() -> None:
    result = calibrate(Measurements(tables=[gemm_table(0.6)]), load_cluster("h100-rail-1024"))
    assert calibration_yaml(result).startswith("gemm_efficiency: ") and "nic_efficiency" not in calibration_yaml(result)
