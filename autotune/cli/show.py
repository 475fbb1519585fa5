"""`autotune show NAME`: one catalogue entry, or a model or cluster file, with every value in force."""

from __future__ import annotations

from typing import Any

import click

_REMARKS = {
    "gpu": "GiB = 2^30 bytes, GB = 1e9. TFLOPS are dense (vendors often print the sparse figure, twice as much). "
    "scale_up_GBps is per GPU and one direction (vendors often print the sum of both).",
    "cluster": "bandwidth_GBps is per GPU and one direction, in 1e9 bytes; nic_Gbps are bits per second per GPU.",
    "model": "parameters count the unpadded vocabulary; prediction (MTP) layers are left out.",
    "stack": "each constant with its unit, its source, and the stack it was written for.",
}


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(name: str, as_json: bool) -> None:
    """Show a GPU, model, cluster, fabric, stack or instance type. NAME may also be a model or cluster file."""
    from autotune.catalogue.summary import describe
    from autotune.output import console, note, print_json, table

    kind, values = describe(name)
    if as_json:
        print_json({"kind": kind, **values})
        return
    if kind == "stack":
        note(values["description"])
        rows = [[k, f"{e['value']:g}", e["unit"], e["stack"], e["source"]] for k, e in values["constants"].items()]
        console().print(
            table(f"stack {values['name']}", ["constant", "value", "unit", "from", "source"], rows, right={1})
        )
    else:
        console().print(table(f"{kind} {values.get('name', name)}", ["key", "value"], _rows(values)))
    if kind in _REMARKS:
        note(_REMARKS[kind])


def _rows(values: dict[str, Any], prefix: str = "") -> list[list[str]]:
    rows = []
    for key, value in values.items():
        if isinstance(value, dict):
            rows += _rows(value, f"{prefix}{key}.")
        elif value not in (None, "", []):
            rows.append([prefix + key, _text(value)])
    return rows


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(_text(v) for v in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
