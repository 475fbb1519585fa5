"""`autotune network`: switches, transceivers, dollars, watts, failures, and with a model what each fabric delivers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from autotune.network_report import FabricReport


@click.command()
@click.argument("cluster")
@click.option("--compare", metavar="FABRIC,...", help="Fabrics to compare, or 'all'. Default: the cluster's own.")
@click.option("--model", "model_name", metavar="MODEL", help="Also find the best plan on each fabric.")
@click.option("--prices", "price_name", metavar="SET", help="Price set: rail-only-paper (default), deepseek, hammingmesh.")
@click.option("--gpu-usd", type=click.FloatRange(min=0, min_open=True), help="Price of one GPU with its share of the server.")
@click.option("--failures", is_flag=True, help="Show what fails, and what each fabric can do about it.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for network.csv, network.json and bar charts.")
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    cluster: str,
    compare: str | None,
    model_name: str | None,
    price_name: str | None,
    gpu_usd: float | None,
    failures: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Switches, transceivers, dollars and watts of network fabrics for CLUSTER.

    Costs cover switches, optics and cables between HB domains, not NICs or NVLink.
    """
    from autotune.load import load_cluster, load_model
    from autotune.network_report import fabric_names, prices_of, report
    from autotune.output import note, print_json

    spec = load_cluster(cluster)
    model = load_model(model_name) if model_name else None
    names = fabric_names(spec, compare)
    rows, left_out = report(
        spec,
        names,
        model=model,
        price_name=price_name,
        gpu_usd=gpu_usd,
        skip_impossible=compare is not None and compare.strip() == "all",
    )
    for line in left_out:
        note(f"left out: {line}")
    document = _document(rows, prices_of(spec, price_name)._asdict(), left_out, failures)
    if out:
        _write(out, force, rows, document)
    if as_json:
        print_json(document)
    else:
        _print(rows, document, failures)


def _document(rows: list[FabricReport], price: dict[str, Any], left_out: list[str], failures: bool) -> dict[str, Any]:
    from autotune.network_report import break_even

    document: dict[str, Any] = {"fabrics": [r.to_dict(failures) for r in rows], "prices": price, "left_out": left_out}
    if any(r.evaluation for r in rows):
        document["break_even"] = break_even(rows)
    return document


def _write(out: Path, force: bool, rows: list[FabricReport], document: dict[str, Any]) -> None:
    import json

    from autotune.network_tables import charts, csv_text
    from autotune.outdir import OutputFolder
    from autotune.output import jsonable

    with OutputFolder(out, force) as folder:
        folder.write("network.json", json.dumps(jsonable(document), indent=1) + "\n")
        folder.write("network.csv", csv_text(document["fabrics"]))
        charts(folder, rows)


def _print(rows: list[FabricReport], document: dict[str, Any], failures: bool) -> None:
    from autotune.network_tables import break_even_lines, cost_table, failure_table, throughput_table
    from autotune.output import console

    screen = console()
    screen.print(cost_table(rows))
    screen.print(f"Prices: {document['prices']['source']}", soft_wrap=True)
    if any(r.evaluation or r.reason for r in rows):
        screen.print()
        screen.print(throughput_table(rows))
        for line in break_even_lines(document.get("break_even", [])):
            screen.print(line, soft_wrap=True)
    if failures:
        screen.print()
        screen.print(failure_table(rows))
