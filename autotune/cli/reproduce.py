"""`autotune reproduce`: rebuild the figures of a published paper and compare them with what was printed."""

from __future__ import annotations

from pathlib import Path

import click

DEFAULT_OUT = Path("results/rail_only")


@click.command()
@click.argument("paper", type=click.Choice(["rail-only"]))
@click.option("--out", type=click.Path(path_type=Path), help=f"Folder to write; default {DEFAULT_OUT}, rebuilt in place.")
@click.option("--force", is_flag=True, help="Write into a folder that is not empty; other files in it are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def command(context: click.Context, paper: str, out: Path | None, force: bool, as_json: bool) -> None:
    """Rebuild every published figure of PAPER and say which hold.

    Each row has an expected value, what the model gives, a tolerance and a grade: A closed form, B reproduces under
    settings inferred here, C shape or order only, D not reproducible. Exit code 4 when a gated row fails.
    """
    from autotune.output import console, note, print_json, table
    from autotune.reproduce.report import document, is_own, row_cells, write_reproduction

    folder = out or DEFAULT_OUT
    rows, files = write_reproduction(folder, force or (out is None and is_own(folder)))
    summary = document(rows, folder, files)
    if as_json:
        print_json(summary)
    else:
        columns = ["id", "claim", "expected", "got", "unit", "grade", "verdict"]
        console().print(table("Rail-only (arXiv 2307.12169)", columns, [row_cells(row) for row in rows], right={2, 3}))
        counts = summary["summary"]
        click.echo(f"\n{counts['pass']} pass, {counts['fail']} fail, {counts['not_gated']} not gated. A pass of grade B or C")
        click.echo("matches published figures under inferred settings; the README in the folder names them.")
    note(f"wrote {len(files)} files to {folder}")
    if summary["summary"]["fail"]:
        context.exit(4)
