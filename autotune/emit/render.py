"""Fills the templates of this package. The only module that imports jinja2."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from autotune.emit.shell import comment, word

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    env = Environment(
        loader=PackageLoader("autotune.emit", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="{##",  # bash has ${#array[@]}
        comment_end_string="##}",
        autoescape=False,  # shell and YAML, not HTML: every value goes through `word`, `comment` or a safe-name function
    )
    env.filters.update(comment=comment, word=word)
    return env


def render(template: str, **values: Any) -> str:
    """The text of a template file; a missing value is an error."""
    return _environment().get_template(template).render(**values)
