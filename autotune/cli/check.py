"""`autotune check`: price a plan, or a launch script that already exists."""

from __future__ import annotations

from typing import Any

import click

_HELP = """Price a plan or an existing launch script: is it legal, does it fit, is it rail-clean, how far is it from the best?

\b
  autotune check CLUSTER MODEL PLAN
  autotune check [CLUSTER] --command launch.sh [--set NNODES=8]
  autotune check CLUSTER MODEL --deepspeed ds_config.json

Scripts are read, never run. Exit code 0: sound; 4: not sound; 2: something is missing or wrong.
"""


@click.command("check", help=_HELP)
@click.argument("inputs", nargs=-1, metavar="[CLUSTER] [MODEL] [PLAN]")
@click.option("--command", "commands", multiple=True, type=click.Path(), help="Launch script or configuration; repeat for files that belong together.")
@click.option("--deepspeed", type=click.Path(), help="DeepSpeed configuration, for MODEL on CLUSTER.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A variable the script does not set, or to replace.")
@click.option("--args", "arguments", default="", help="Positional arguments of the script, as one quoted text.")
@click.option("--launch", "which", type=click.IntRange(1), help="Which training command, when the script has several.")
@click.option("--model", "model_name", help="The model, when the script does not describe it.")
@click.option("--gpu", help="GPU of the catalogue, instead of a CLUSTER.")
@click.option("--hb-size", type=click.IntRange(1), help="GPUs joined by NVLink.")
@click.option("--nic-Gbps", "nic", type=click.FloatRange(min=0, min_open=True), help="NIC rate per GPU.")
@click.option("--fabric", help="Network fabric (`autotune list fabrics`).")
@click.option("--stack", help="Framework profile (`autotune list stacks`); default: what the script is written for.")
@click.option("--micro", type=click.IntRange(1), help="Micro-batch size, when nothing states it.")
@click.option("--global-batch", type=click.IntRange(1), help="Global batch size, when nothing states it.")
@click.option("--seq", type=click.IntRange(1), help="Sequence length, when nothing states it.")
@click.option("--tp", type=click.IntRange(1), help="Tensor parallel degree, with --deepspeed.")
@click.option("--pp", type=click.IntRange(1), help="Pipeline parallel degree, with --deepspeed.")
@click.option("--target", default="megatron", show_default=True, help="Program whose rules apply to a PLAN.")
@click.option("--no-search", is_flag=True, help="Do not look for the best plan.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(inputs: tuple[str, ...], commands: tuple[str, ...], deepspeed: str | None, as_json: bool, **options: Any) -> None:
    """Check a plan or a script."""
    from autotune.errors import CheckFailed
    from autotune.output import print_json

    if bool(commands) + bool(deepspeed) > 1:
        raise click.UsageError("--command and --deepspeed exclude each other")
    if commands:
        document = _script(inputs, commands, options, as_json)
    elif deepspeed:
        document = _deepspeed(inputs, deepspeed, options, as_json)
    else:
        document = _plan(inputs, options, as_json)
    if as_json:
        print_json(document)
    else:
        from autotune.check_output import show

        show(document)
    if not document["sound"]:
        if as_json:
            raise SystemExit(CheckFailed.exit_code)  # the document is the one JSON of this run; no second for the error
        raise CheckFailed("the plan is not sound: " + document["why"])


def _plan(inputs: tuple[str, ...], options: dict[str, Any], as_json: bool) -> dict[str, Any]:
    from autotune.check import verdict
    from autotune.cli.input_warnings import warn_of_cluster, warn_of_origin
    from autotune.emit import find_target
    from autotune.errors import about
    from autotune.load import load_cluster, load_model, load_plan_and_origin
    from autotune.plan_files import line_finder

    if len(inputs) != 3:
        raise click.UsageError(f"needs CLUSTER MODEL PLAN, or --command; got {len(inputs)} argument(s)")
    find_target(options["target"])
    cluster, model = load_cluster(inputs[0]), load_model(inputs[1])
    plan, origin = load_plan_and_origin(inputs[2], model, consistent=False)  # what does not add up is judged, not refused
    warnings = warn_of_cluster(cluster, as_json) + warn_of_origin(origin, cluster, model, as_json)
    with about(inputs[2], line_finder(inputs[2])):
        document = verdict(cluster, model, plan, options["target"], search=not options["no_search"])
    return {**document, "warnings": warnings}


def _script(inputs: tuple[str, ...], commands: tuple[str, ...], options: dict[str, Any], as_json: bool) -> dict[str, Any]:
    import shlex

    from autotune.check import check_script, default_per_node, supply
    from autotune.check_cluster import with_network
    from autotune.cli.input_warnings import warn_of_cluster
    from autotune.errors import about
    from autotune.load import load_cluster, load_model
    from autotune.reader import read

    if len(inputs) > 2:
        raise click.UsageError("--command takes at most a CLUSTER and a MODEL beside it")
    cluster = load_cluster(inputs[0]) if inputs else None
    name = options["model_name"] or (inputs[1] if len(inputs) > 1 else None)
    model = load_model(name) if name else None
    try:
        words = shlex.split(options["arguments"])
    except ValueError as e:
        raise click.UsageError(f"--args: {e}") from None
    per_node = default_per_node(cluster, options["gpu"], options["hb_size"])
    settings = _settings(options["settings"])
    network = (cluster, options["gpu"], options["hb_size"], options["nic"], options["fabric"], options["stack"])
    warnings = warn_of_cluster(with_network(cluster, options["nic"], options["fabric"]), as_json) if cluster else []
    with about(commands[0]):
        found = read(commands[0], settings, words, options["which"], per_node, list(commands[1:]))
        supply(found, model, _given(options))
        return {**check_script(found, *network, not options["no_search"]), "warnings": warnings}


def _deepspeed(inputs: tuple[str, ...], path: str, options: dict[str, Any], as_json: bool) -> dict[str, Any]:
    from autotune.check import check_deepspeed
    from autotune.cli.input_warnings import warn_of_cluster
    from autotune.errors import about
    from autotune.load import load_cluster, load_model

    names = [*inputs, *([options["model_name"]] if options["model_name"] else [])]
    if len(names) != 2:
        raise click.UsageError("--deepspeed needs a CLUSTER and a MODEL")
    cluster, model = load_cluster(names[0]), load_model(names[1])
    warnings = warn_of_cluster(cluster, as_json)
    with about(path):
        return {**check_deepspeed(path, cluster, model, _given(options), options["stack"], not options["no_search"]), "warnings": warnings}


def _given(options: dict[str, Any]) -> dict[str, int | None]:
    return {
        "micro_batch_size": options["micro"], "global_batch_size": options["global_batch"], "seq_length": options["seq"],
        "tensor_parallel": options["tp"], "pipeline_parallel": options["pp"],
    }  # fmt: skip


def _settings(pairs: tuple[str, ...]) -> dict[str, str]:
    result = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--set takes NAME=VALUE, got '{pair}'")
        result[name] = value
    return result
