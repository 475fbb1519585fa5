"""The command line: one module per command, imported only when that command runs.

Each module of this package defines a click command named `command`. `main` turns errors into one message and
an exit code; `--debug` is the only way to see a traceback.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

import autotune

# name -> (module, one-line help); the help is repeated here so that `autotune --help` imports nothing else.
COMMANDS: dict[str, tuple[str, str]] = {
    "search": ("search", "Find the fastest plans that fit, and write their launch files."),
    "explain": ("explain", "Show where the time and the memory of a plan go."),
    "emit": ("emit", "Write launch files for a plan."),
    "check": ("check", "Price a plan or an existing launch script: legal, fits, rail-clean, how far from the best."),
    "sweep": ("sweep", "Sensitivity curves: vary hardware or batch, re-optimise at each point."),
    "size": ("size", "How many GPUs a model needs, and what more of them buy."),
    "network": ("network", "Switches, transceivers, dollars and watts of network fabrics."),
    "traffic": ("traffic", "Bytes between GPUs, by kind; heat map and per-rail totals."),
    "validate": ("validate", "Score the model against measured runs."),
    "calibrate": ("calibrate", "Fit a cluster's efficiency constants from your own measurements."),
    "cluster": ("cluster", "Import cluster files from machine dumps and cloud instance names."),
    "list": ("list", "List catalogue entries: gpus, models, fabrics, stacks, instances, clusters."),
    "show": ("show", "Show one catalogue entry or model in full."),
    "reproduce": ("reproduce", "Rebuild the figures of a published paper."),
    "bench": ("bench", "Measure the speed of the search kernel."),
}


class LazyGroup(click.Group):
    """A click group that imports a command's module only when it is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, (module, _) in COMMANDS.items() if _exists(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS or not _exists(COMMANDS[cmd_name][0]):
            return None
        command: click.Command = importlib.import_module(f"autotune.cli.{COMMANDS[cmd_name][0]}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        from autotune.errors import did_you_mean

        if args and args[0] not in self.list_commands(ctx):
            ctx.fail(f"no such command '{args[0]}'{did_you_mean(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)] or [("", "")])


def _exists(module: str) -> bool:
    return os.path.exists(os.path.join(os.path.dirname(__file__), module + ".py"))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(autotune.__version__, prog_name="autotune")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no notes.")
@click.option("-v", "--verbose", is_flag=True, help="More notes.")
@click.option("--debug", is_flag=True, help="Show a traceback when something goes wrong.")
def cli(quiet: bool, verbose: bool, debug: bool) -> None:
    """Choose how to split and launch a large-model training job, and the network under it. No GPU needed."""
    from autotune.output import set_verbosity

    set_verbosity(2 if debug else -1 if quiet else 1 if verbose else 0)


def main() -> None:
    """Run the command line and exit with its code."""
    from autotune.errors import AutotuneError, printable

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal's encoding lacks is no reason to stop
    argv = sys.argv[1:]
    flags = [a for a in argv if a in ("--debug", "-q", "--quiet", "-v", "--verbose")]
    try:
        cli.main(args=flags + [a for a in argv if a not in flags], prog_name="autotune", standalone_mode=False)
    except click.exceptions.Exit as e:
        sys.exit(e.exit_code)
    except click.ClickException as e:
        e.show()
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except AutotuneError as e:
        if "--debug" in argv:
            raise
        if "--json" in argv:
            from autotune.output import print_json

            print_json({"error": e.message, "exit_code": e.exit_code, **e.details})
        print(f"error: {printable(e.message)}", file=sys.stderr)
        sys.exit(e.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as e:
        if "--debug" in argv:
            raise
        print(f"error: {e.strerror or e}: {e.filename}" if e.filename else f"error: {e}", file=sys.stderr)
        sys.exit(2)
    except Exception as e:
        if "--debug" in argv:
            raise
        print(f"error: internal: {type(e).__name__}: {e} (run again with --debug for a traceback)", file=sys.stderr)
        sys.exit(1)
