"""`autotune calibrate`: fit a cluster's efficiency constants from its owner's measurements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--cluster", "cluster_name", help="The cluster the measurements come from (file or preset). Default: told by the rows.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write, for `calibration:` in cluster.yaml.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(files: tuple[Path, ...], cluster_name: str | None, out: Path | None, force: bool, as_json: bool) -> None:
    """Fit a cluster's efficiency constants from your own measurements.

    FILES, in any order: a CSV of step times (columns as for `validate`), nccl-tests text output, and tables written by
    scripts/measure_gpu.py. Constants the data cannot tell from their shipped values are named and left alone.
    """
    from autotune.calibrate import calibrate, calibration_yaml, read_measurements
    from autotune.errors import InputError
    from autotune.load import load_cluster
    from autotune.output import note, print_json

    if out is not None and out.exists() and not force:
        raise InputError.of(f"{out} already exists; choose another name or pass --force")
    cluster = load_cluster(cluster_name) if cluster_name else None
    data = read_measurements(files)
    with _about_inputs(files, cluster_name):
        result = calibrate(data, cluster)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(calibration_yaml(result), encoding="utf-8")
        note(f"wrote {out}; put `calibration: {out.name}` into cluster.yaml")
    if as_json:
        print_json({**result.to_dict(), "file": str(out) if out else None})
    else:
        _print(result)


@contextmanager
def _about_inputs(files: tuple[Path, ...], cluster_name: str | None) -> Iterator[None]:
    """Errors that name no file get theirs: the cluster's where its network or GPU is at fault, else all that went into the fit."""
    from autotune.errors import InputError
    from autotune.load import cluster_line_finder

    try:
        yield
    except InputError as e:
        if cluster_name and all(p.key.startswith(("network", "hb_domain", "gpu")) for p in e.problems):
            e.place(cluster_name, cluster_line_finder(cluster_name))
        e.place(", ".join([*map(str, files), *([cluster_name] if cluster_name else [])]), lambda key: 0)
        raise


def _print(result: Any) -> None:
    from autotune.output import console, table

    show = console()
    lines = [
        [name, f"{c['shipped']:.4g}", f"{c['fitted']:.4g}" if c["identified"] else "unchanged", f"{c['error']:.2g}",
         "" if c["identified"] else "the data do not determine it"]
        for name, c in result.constants.items()
    ]  # fmt: skip
    show.print(table("Constants", ["constant", "shipped", "fitted", "std. dev.", "note"], lines, right={1, 2, 3}))
    if result.before:
        b, a = result.before, result.after
        show.print(f"step times: mean error {100 * b['mape']:.1f} -> {100 * a['mape']:.1f} %, bias {100 * b['bias']:+.1f} -> {100 * a['bias']:+.1f} %")
    show.print(f"used: {result.used['step_times']} step times, {result.used['collectives']} collectives, {result.used['operators']} operator timings")
