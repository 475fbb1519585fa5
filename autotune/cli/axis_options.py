"""Options that limit search axes from the command line, as comma lists: --tp 1,2,4,8."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from autotune.specs import ModelSpec

AXES = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "cp": "context_parallel",
    "ep": "expert_parallel",
    "etp": "expert_tensor_parallel",
    "vpp": "virtual_stages",
    "micro": "micro_batch_size",
    "zero": "zero_stage",
    "recompute": "recompute",
}


class CommaList(click.ParamType):
    """Values between commas: whole numbers, or words where `words` are given."""

    name = "list"

    def __init__(self, words: tuple[str, ...] = (), least: int = 1) -> None:
        self.words, self.least = words, least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        """The values in the order given, each once."""
        if isinstance(value, list):
            return value
        return list(dict.fromkeys(self._one(part.strip(), param, ctx) for part in str(value).split(",")))

    def _one(self, part: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if self.words:
            if part not in self.words:
                self.fail(f"'{part}' is none of {', '.join(self.words)}", param, ctx)
            return part
        if not (part.isascii() and part.isdigit() and len(part) <= 9) or int(part) < self.least:
            self.fail(f"'{part}' is no whole number of at least {self.least}; give values as 1,2,4", param, ctx)
        return int(part)


def axis_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a click command; they arrive under the names of `AXES` (`None` where not given)."""
    kinds = {"recompute": CommaList(("none", "selective", "full")), "zero": CommaList(least=0)}
    for short, axis in reversed(AXES.items()):
        text = f"Only these values of {axis.replace('_', ' ')}, separated by commas."
        command = click.option(f"--{short}", axis, type=kinds.get(short, CommaList()), help=text)(command)
    return command


def limited(model: ModelSpec, given: dict[str, Any]) -> ModelSpec:
    """The model with its search limited to the values given, which win over the file's. Takes them out of `given`.

    >>> from autotune.load import load_model
    >>> limited(load_model("llama-3-8b"), {"tensor_parallel": [1, 2]}).search.tensor_parallel
    [1, 2]
    """
    values = {axis: given.pop(axis) for axis in AXES.values() if axis in given}
    values = {axis: v for axis, v in values.items() if v is not None}
    return model.model_copy(update={"search": model.search.model_copy(update=values)}) if values else model
