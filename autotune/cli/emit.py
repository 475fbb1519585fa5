"""`autotune emit`: launch files of a plan."""

from __future__ import annotations

import click

# Repeated from autotune.emit so that --help imports no schemas; a test holds the two together.
LAUNCHERS = ("torchrun", "slurm", "pdsh", "kubernetes")


@click.command("emit", help="Write launch files for PLAN (a plan.yaml or JSON from `search`).")
@click.argument("cluster")
@click.argument("model")
@click.argument("plan")
@click.option("--target", "targets", default="megatron", show_default=True, help="Comma-separated: megatron, deepspeed, ...")
@click.option("--out", type=click.Path(), required=True, help="Folder to write: plan.yaml, ranks.csv, one folder per target.")
@click.option("--launcher", type=click.Choice(LAUNCHERS), default=None, help="How processes are started; default: the target's own.")
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(cluster: str, model: str, plan: str, targets: str, out: str, launcher: str | None, force: bool, as_json: bool) -> None:
    """Write launch files for a plan."""
    from autotune.cli.input_warnings import warn_of_cluster, warn_of_origin
    from autotune.emit import TARGETS, Options, find_target, write_targets
    from autotune.errors import InputError, about
    from autotune.load import load_cluster, load_model, load_plan_and_origin
    from autotune.outdir import OutputFolder
    from autotune.output import note, print_json
    from autotune.plan_files import line_finder

    names = [t.strip() for t in targets.split(",") if t.strip()]
    if not names:
        raise InputError.of(f"no target named; known: {', '.join(TARGETS)}", key="--target")
    for name in names:
        find_target(name)  # a wrong name is no fault of the plan, which the errors below are about
    the_cluster, the_model = load_cluster(cluster), load_model(model)
    the_plan, origin = load_plan_and_origin(plan)
    warnings = warn_of_cluster(the_cluster, as_json) + warn_of_origin(origin, the_cluster, the_model, as_json)
    with OutputFolder(out, force) as folder, about(plan, line_finder(plan)):
        written = write_targets(folder, names, the_cluster, the_model, the_plan, Options(launcher))
    if as_json:
        files = {t: [n if t == "plan" else f"{t}/{n}" for n in names] for t, names in written.items()}
        print_json({"out": out, "plan_id": the_plan.id, "gpus": the_plan.gpus, "files": files, "warnings": warnings})
        return
    for target, files_of in written.items():
        for name in files_of:
            click.echo(f"{out}/{name}" if target == "plan" else f"{out}/{target}/{name}")
    note(f"plan {the_plan.id}: {the_plan.gpus} GPUs")
