"""The figures of the reproduction: each a table of numbers, and the charts drawn from it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune import plotting
from autotune.reproduce.cost_values import table_ii
from autotune.reproduce.settings import (
    GH200_CHUNKS,
    GH200_RUN,
    INFERRED_PORT_W,
    MEGATRON_RUNS,
    R1_EFFICIENCY,
    R1_GPUS,
    R1_MODELS,
)
from autotune.reproduce.strategies import SearchLimits
from autotune.reproduce.time_values import (
    bandwidth_gain_percent,
    percent_change,
    r1_best,
    relative_performance_percent,
    system_changes,
)
from autotune.reproduce.traffic_values import run_edges, run_traffic, traffic_percent
from costmodels.rail_only_paper import PaperOptions
from costmodels.rail_only_traffic import binned_pair_bytes

HB_SIZES = [2**i for i in range(R1_GPUS.bit_length())]
BANDWIDTH_FACTORS = [0.5, 1.0, 2.0, 4.0, 8.0]
SWEPT_HB_SIZES = (8, 32, 256)
BATCHES = [256, 512, 1024, 2048, 4096]
HEAT_MAP_BINS = 192


@dataclass(frozen=True)
class Figure:
    """A table (its CSV is `name`.csv) and a function that draws it into a folder."""

    name: str
    caption: str
    columns: list[str]
    rows: list[list[Any]]
    draw: Callable[[Path], Any] | None = None

    def csv(self) -> str:
        """The table as CSV text, numbers to six digits so that it is the same on every machine."""
        return csv_text(self.columns, self.rows)


def rounded(value: Any) -> Any:
    """Six significant digits for floats; anything else as it is.

    >>> rounded(1234.56789), rounded(7), rounded("a")
    ('1234.57', 7, 'a')
    """
    return f"{value:.6g}" if isinstance(value, float) else value


def csv_text(columns: list[str], rows: Iterable[Iterable[Any]]) -> str:
    """CSV text with one header line.

    >>> csv_text(["a", "b"], [[1, 0.125]])
    'a,b\\n1,0.125\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[rounded(value) for value in row] for row in rows])
    return text.getvalue()


def traffic_share() -> Figure:
    """Share of bytes by kind, for the four GPTs on DGX A100 and GPT-1T on GH200."""
    shares = {run.name: traffic_percent(run_traffic(run)) for run in MEGATRON_RUNS}
    shares[GH200_RUN.name] = traffic_percent(run_traffic(GH200_RUN, GH200_CHUNKS))
    kinds = ["tensor", "data", "pipeline"]

    def draw(folder: Path) -> None:
        series = {kind: [share[kind] for share in shares.values()] for kind in kinds}
        plotting.bar_chart(folder / "traffic_share", "Bytes sent in an iteration", list(shares), series, "share, %", stacked=True)

    rows = [[name, *(share[kind] for kind in kinds)] for name, share in shares.items()]
    return Figure("traffic_share", traffic_share.__doc__ or "", ["model", *(f"{k}_percent" for k in kinds)], rows, draw)


def pair_heat_map() -> Figure:
    """Bytes between blocks of 16 GPUs, GPT-1T on 3,072 A100, tensor groups as meshes."""
    run = MEGATRON_RUNS[-1]
    matrix = binned_pair_bytes(run_edges(run, tensor_mesh=True), run.gpus, HEAT_MAP_BINS)
    block = run.gpus // HEAT_MAP_BINS

    def draw(folder: Path) -> None:
        label = f"block of {block} GPUs"
        title = f"Bytes between GPUs, {run.name}"
        plotting.heat_map(folder / "pair_heat_map", title, matrix, f"to {label}", f"from {label}", "bytes an iteration", log=True)

    rows = [[i, j, float(matrix[i, j])] for i, j in zip(*matrix.nonzero(), strict=True)]
    return Figure("pair_heat_map", pair_heat_map.__doc__ or "", ["from_block", "to_block", "bytes"], rows, draw)


def hb_size_sweep() -> Figure:
    """Iteration time against the size of the high-bandwidth domain, best strategy at each."""
    rows: list[list[Any]] = []
    for name in R1_MODELS:
        ideal = r1_best(name, R1_GPUS).time_s
        for hb_size in HB_SIZES:
            best = r1_best(name, hb_size)
            rows.append([name, hb_size, best.time_s, percent_change(best.time_s, ideal), *best.strategy])

    def draw(folder: Path) -> None:
        series = {name: (HB_SIZES, [1 + row[3] / 100 for row in rows if row[0] == name]) for name in R1_MODELS}
        title = "Iteration time and domain size, rail-only"
        plotting.line_chart(folder / "hb_size", title, "GPUs in a domain", "time, ideal = 1", series, logx=True)

    columns = ["model", "hb_size", "iteration_time_s", "above_ideal_percent", "t", "p", "d", "v", "b"]
    return Figure("hb_size", hb_size_sweep.__doc__ or "", columns, rows, draw)


def bandwidth_sensitivity() -> Figure:
    """Change of iteration time when HB or NIC bandwidth is multiplied, best strategy at each."""
    rows: list[list[Any]] = [
        [hb_size, name, link, factor, bandwidth_gain_percent(name, hb_size, link, factor)]
        for hb_size in (8, 256)
        for name in R1_MODELS
        for link in ("HB", "NIC")
        for factor in BANDWIDTH_FACTORS
    ]

    def draw(folder: Path) -> None:
        for hb_size in (8, 256):
            series = {
                f"{name}, {link}": (BANDWIDTH_FACTORS, [row[4] for row in rows if row[:3] == [hb_size, name, link]])
                for name in R1_MODELS
                for link in ("HB", "NIC")
            }
            title = f"Bandwidth and iteration time, domains of {hb_size}"
            path = folder / f"bandwidth_hb{hb_size}"
            plotting.line_chart(path, title, "bandwidth, times the reference", "change of time, %", series, logx=True)

    columns = ["hb_size", "model", "link", "bandwidth_factor", "time_change_percent"]
    return Figure("bandwidth", bandwidth_sensitivity.__doc__ or "", columns, rows, draw)


def batch_sweep() -> Figure:
    """GPT-1T, performance relative to the ideal machine against global batch."""
    rows: list[list[Any]] = [
        [hb_size, batch, relative_performance_percent("GPT-1T", hb_size, batch)] for hb_size in SWEPT_HB_SIZES for batch in BATCHES
    ]

    def draw(folder: Path) -> None:
        series = {f"domains of {k}": (BATCHES, [row[2] for row in rows if row[0] == k]) for k in SWEPT_HB_SIZES}
        plotting.line_chart(folder / "batch", "GPT-1T and batch size", "global batch", "of ideal, %", series, logx=True)

    return Figure("batch", batch_sweep.__doc__ or "", ["hb_size", "global_batch", "relative_performance_percent"], rows, draw)


def cost_table() -> Figure:
    """Table II: a rail-optimised Clos against rail-only, domains of 256 GPUs."""
    table = table_ii()
    rows = [
        [row.gpus, row.radix, *row.clos, *row.rail, row.clos_usd / 1e6, row.saved_usd / 1e6, row.cost_saved_percent]
        + [row.clos_w() / 1e6, row.saved_w() / 1e6, row.power_saved_percent()]
        + [row.saved_w(INFERRED_PORT_W) / 1e6, row.power_saved_percent(INFERRED_PORT_W)]
        for row in table
    ]

    def draw(folder: Path) -> None:
        series = {
            "cost": [row.cost_saved_percent for row in table],
            "power": [row.power_saved_percent() for row in table],
        }
        labels = [f"{row.gpus:,} GPUs\nradix {row.radix}" for row in table]
        plotting.bar_chart(folder / "cost_table", "Saved by rail-only against a Clos", labels, series, "saved, %")

    counts = [f"{net}_{what}" for net in ("clos", "rail_only") for what in ("tiers", "switches", "transceivers")]
    money = ["clos_musd", "saved_musd", "cost_saved_percent", "clos_mw", "saved_mw", "power_saved_percent"]
    columns = ["gpus", "radix", *counts, *money, "saved_mw_17_5w", "power_saved_percent_17_5w"]
    return Figure("cost_table", cost_table.__doc__ or "", columns, rows, draw)


def setting_sensitivity() -> Figure:
    """How far M1-M4, M6 and M7 hang on what the paper leaves open: one change to setting R1 at a time."""
    base, free = PaperOptions(), SearchLimits()
    variants: dict[str, tuple[PaperOptions, SearchLimits, float]] = {
        "R1": (base, free, R1_EFFICIENCY),
        "efficiency 0.4": (base, free, 0.4),
        "efficiency 0.6": (base, free, 0.6),
        "efficiency 1.0": (base, free, 1.0),
        "no recomputation": (base._replace(flops_factor=72.0), free, R1_EFFICIENCY),
        "12 collectives a layer": (base._replace(tensor_collectives=12.0), free, R1_EFFICIENCY),
        "transfers delay the steady phase": (base._replace(pipeline_in_steady=1), free, R1_EFFICIENCY),
        "transfers not split over t": (base._replace(pipeline_sharded=0), free, R1_EFFICIENCY),
        "fp32 gradients": (base._replace(gradient_bytes=4.0), free, R1_EFFICIENCY),
        "p divides m": (base, SearchLimits(whole_rounds=1), R1_EFFICIENCY),
        "v = 1": (base, SearchLimits(interleave=0), R1_EFFICIENCY),
        "t <= 8": (base, SearchLimits(largest_tensor=8), R1_EFFICIENCY),
    }
    changes = {name: system_changes(*variant) for name, variant in variants.items()}
    rows: list[list[Any]] = [[name, *values.values()] for name, values in changes.items()]
    return Figure("sensitivity", setting_sensitivity.__doc__ or "", ["setting", *changes["R1"]], rows)


def all_figures() -> list[Figure]:
    """Every figure of the reproduction."""
    return [
        traffic_share(),
        pair_heat_map(),
        hb_size_sweep(),
        bandwidth_sensitivity(),
        batch_sweep(),
        cost_table(),
        setting_sensitivity(),
    ]
