"""The network report as tables, CSV and charts."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

from autotune.output import table

if TYPE_CHECKING:
    from rich.table import Table

    from autotune.network_report import FabricReport
    from autotune.outdir import OutputFolder


def _number(value: float | None, scale: float = 1.0, digits: int = 2) -> str:
    """A figure for a table; an unknown one is a dash.

    >>> _number(1234567, 1e6), _number(float("nan")), _number(None)
    ('1.23', '-', '-')
    """
    return "-" if value is None or not math.isfinite(value) else f"{value / scale:,.{digits}f}"


def _label(row: FabricReport, rows: list[FabricReport]) -> str:
    """The fabric, with size and domain where several are in the report."""
    sizes = {(r.network.gpus, r.network.hb_size) for r in rows}
    return row.fabric if len(sizes) == 1 else f"{row.fabric} {row.network.gpus:,} K={row.network.hb_size}"


def cost_table(rows: list[FabricReport]) -> Table:
    """Inventory, dollars and watts."""
    columns = ["fabric", "GPUs", "K", "pairs", "tiers", "switches", "transceivers", "links", "M$", "$/GPU", "MW", "max GPUs"]
    lines = [
        [
            row.fabric,
            f"{row.network.gpus:,}",
            f"{row.network.hb_size:,}",
            "any" if row.network.any_to_any else "rail",
            row.bill.tiers,
            f"{row.bill.switches:,}",
            f"{row.bill.transceivers:,}",
            f"{row.bill.links:,}",
            _number(row.cost_usd, 1e6),
            _number(row.cost_usd / row.network.gpus, digits=0),
            _number(row.power_W, 1e6),
            f"{row.bill.max_gpus:,}",
        ]
        for row in rows
    ]
    return table("", columns, lines, right=set(range(1, len(columns))) - {3})


def throughput_table(rows: list[FabricReport]) -> Table:
    """The best plan of each fabric and what a token/s costs."""
    columns = ["fabric", "T P D C E", "iteration s", "tokens/s", "goodput", "goodput tokens/s", "$ per token/s"]
    lines = []
    for row in rows:
        if row.evaluation is None:
            lines.append([_label(row, rows), f"no plan: {row.reason.splitlines()[0]}" if row.reason else "", *[""] * 5])
            continue
        plan, entry = row.evaluation.plan, row.to_dict()
        degrees = (
            plan.tensor_parallel,
            plan.pipeline_parallel,
            plan.data_parallel,
            plan.context_parallel,
            plan.expert_parallel,
        )
        lines.append(
            [
                _label(row, rows),
                " ".join(map(str, degrees)),
                _number(row.evaluation.iteration_time_s, digits=3),
                _number(row.tokens_per_s, digits=0),
                f"{100 * row.goodput.goodput:.1f} %",
                _number(row.goodput_tokens_per_s, digits=0),
                _number(entry["usd_per_tokens_per_s"], digits=4 if entry["usd_per_tokens_per_s"] < 1 else 2),
            ]
        )
    with_gpus = any(row.gpu_usd is not None for row in rows)
    title = "Best plan on each fabric; dollars of the network " + ("and the GPUs" if with_gpus else "alone")
    return table(title, columns, lines, right={2, 3, 4, 5, 6})


def break_even_lines(entries: list[dict[str, Any]]) -> list[str]:
    """One sentence per dearer fabric."""
    lines = []
    for e in entries:
        gain = 100 * (e["throughput_ratio"] - 1)
        start = f"{e['fabric']} against {e['against']}: {gain:+.2f} % throughput for {e['extra_cost_usd'] / 1e6:+,.2f} M$"
        if e["breakeven_gpu_usd"] is None:
            lines.append(f"{start}; no GPU price makes it pay")
            continue
        verdict = {True: ", so it pays here", False: ", so it does not pay here", None: ""}[e["worth_it"]]
        lines.append(f"{start}; pays when a GPU costs more than {e['breakeven_gpu_usd']:,.0f} ${verdict}")
    return lines


def failure_table(rows: list[FabricReport]) -> Table:
    """Failure classes by fabric with the response chosen."""
    columns = ["fabric", "failure", "per day", "GPUs hit", "stops job", "response", "lost", "spare GPUs", "note"]
    lines = []
    for row in rows:
        for c in row.classes:
            lines.append(
                [
                    _label(row, rows),
                    c.name,
                    f"{c.per_day:.3g}",
                    c.gpus_hit,
                    "yes" if c.stops_job else "no",
                    c.chosen.action,
                    f"{100 * c.chosen.loss:.2f} %",
                    c.chosen.spare_gpus,
                    c.chosen.note,
                ]
            )
        g = row.goodput
        summary = f"useful {100 * g.useful_fraction:.1f} % x in service {100 * g.in_service:.1f} % = {100 * g.goodput:.1f} %"
        hours = _number(g.mtbf_s, 3600, 1)
        lines.append([_label(row, rows), "all", "", "", "", summary, "", g.spare_gpus, f"a stop every {hours} h"])
    return table("Failures and the cheapest response on each fabric", columns, lines, right={2, 3, 6, 7})


def csv_text(entries: list[dict[str, Any]]) -> str:
    """One line per fabric; nested values left out.

    >>> csv_text([{"fabric": "ideal", "gpus": 8, "plan": {"x": 1}}])
    'fabric,gpus\\r\\nideal,8\\r\\n'
    """
    flat = [{k: v for k, v in e.items() if not isinstance(v, (dict, list))} for e in entries]
    columns = list(dict.fromkeys(k for e in flat for k in e))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def charts(folder: OutputFolder, rows: list[FabricReport]) -> None:
    """Bars of dollars and watts, and of throughput where there are plans. Unknown figures are left out."""
    from autotune.plotting import bar_chart

    def bars(name: str, title: str, ylabel: str, values: list[float | None]) -> None:
        known = [(_label(r, rows), v) for r, v in zip(rows, values, strict=True) if v is not None and math.isfinite(v)]
        if known:
            bar_chart(folder.file(name), title, [k for k, _ in known], {ylabel: [v for _, v in known]}, ylabel)

    bars("cost", "Cost of the network", "M$", [r.cost_usd / 1e6 for r in rows])
    bars("power", "Power of switches and transceivers", "MW", [r.power_W / 1e6 for r in rows])
    bars("throughput", "Throughput of the best plan, failures taken off", "tokens/s", [r.goodput_tokens_per_s for r in rows])
