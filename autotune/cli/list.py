"""`autotune list KIND`: the names a cluster or model file may use, with the figures that tell them apart."""

from __future__ import annotations

from typing import Any

import click

from autotune import catalogue


def _gpus() -> tuple[list[str], list[dict[str, Any]], str]:
    rows = [
        {
            "name": g.name,
            "vendor": g.vendor,
            "memory_GiB": g.memory_GiB,
            "hbm_GBps": g.hbm_GBps,
            "bf16_TFLOPS": g.bf16_TFLOPS,
            "fp8_TFLOPS": g.fp8_TFLOPS,
            "scale_up_GBps": g.scale_up_GBps,
            "scale_up_domain": g.scale_up_domain,
            "nic_Gbps": g.nic_Gbps,
            "power_W": g.power_W,
            "aliases": g.aliases,
        }
        for g in catalogue.gpus()
    ]
    columns = [c for c in rows[0] if c not in ("vendor", "aliases")]
    note = "GiB = 2^30 bytes as the driver reports, GB = 1e9; TFLOPS are dense; scale_up_GBps is per GPU, one direction; nic_Gbps are bits."
    return columns, rows, note


def _models() -> tuple[list[str], list[dict[str, Any]], str]:
    from autotune.catalogue.summary import model_parameters
    from autotune.load import load_model

    rows = []
    for name in catalogue.names("models"):
        spec = load_model(name)
        counts = model_parameters(spec)
        rows.append(
            {
                "name": name,
                "parameters": counts["total"],
                "active": counts["active"],
                "num_layers": spec.num_layers,
                "hidden_size": spec.hidden_size,
                "num_experts": spec.num_experts,
                "seq_length": spec.seq_length,
                "description": spec.description,
            }
        )
    return (
        [c for c in rows[0] if c != "description"],
        rows,
        "parameters and active in units; prediction (MTP) layers are left out.",
    )


def _fabrics() -> tuple[list[str], list[dict[str, Any]], str]:
    from costmodels import fabrics

    found = [fabrics.get(name) for name in fabrics.names()]
    rows: list[dict[str, Any]] = [
        {"name": f.name, "description": f.description, "options": {k: v for k, v in f.options.items()}} for f in found
    ]
    return ["name", "description"], rows, "'autotune show FABRIC' lists the options of one."


def _stacks() -> tuple[list[str], list[dict[str, Any]], str]:
    from autotune.constants import stack_description

    rows = [{"name": name, "description": stack_description(name)} for name in catalogue.names("stacks")]
    return ["name", "description"], rows, "a stack is the documented behaviour of a training framework."


def _instances() -> tuple[list[str], list[dict[str, Any]], str]:
    rows = [{"name": name, **entry} for name, entry in sorted(catalogue.instances().items())]
    common = [
        c for c in ("name", "gpu", "gpus", "hb_domain_size", "nics", "nic_Gbps", "fabric") if any(c in r for r in rows)
    ]
    return common, rows, "'autotune cluster' makes a cluster file from an instance type."


def _clusters() -> tuple[list[str], list[dict[str, Any]], str]:
    rows = []
    for name in catalogue.names("clusters"):
        data = catalogue.document("clusters", name).data
        hb, network = data.get("hb_domain", {}), data.get("network", {})
        rows.append(
            {
                "name": name,
                "gpu": data["gpu"],
                "gpus": data["gpus"],
                "hb_domain_size": hb.get("size"),
                "fabric": network.get("fabric"),
                "nic_Gbps": network.get("nic_Gbps"),
                "description": data.get("description", ""),
            }
        )
    return [c for c in rows[0] if c != "description"], rows, "use a name wherever a command takes a cluster file."


_LISTS = {
    "gpus": _gpus,
    "models": _models,
    "fabrics": _fabrics,
    "stacks": _stacks,
    "instances": _instances,
    "clusters": _clusters,
}


@click.command(name="list")
@click.argument("kind", type=click.Choice(list(_LISTS)))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(kind: str, as_json: bool) -> None:
    """List catalogue entries of one KIND."""
    from autotune.output import console, note, print_json, table

    columns, rows, remark = _LISTS[kind]()
    if as_json:
        print_json({kind: rows})
        return
    cells = [[_cell(row.get(c)) for c in columns] for row in rows]
    numeric = {i for i, c in enumerate(columns) if any(isinstance(r.get(c), (int, float)) for r in rows)}
    console().print(table("", columns, cells, right=numeric))
    note(remark)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and value >= 10**9:
        return f"{value / 1e9:,.1f}e9"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
