"""All claims of the Rail-only paper against the model."""

from __future__ import annotations

from autotune.reproduce.claims import Row, judge, load_claims
from autotune.reproduce.cost_values import cost_values
from autotune.reproduce.time_values import time_values
from autotune.reproduce.traffic_values import traffic_values


def reproduce_rows() -> list[Row]:
    """Every claim with its verdict, in the order of the claims file.

    >>> rows = {row.claim.id: row for row in reproduce_rows()}
    >>> rows["M1"].verdict, rows["M8"].verdict
    ('pass', 'not-gated')
    """
    claims = load_claims()
    published = next(list(claim.expected) for claim in claims if claim.id == "C1")
    values = traffic_values() | time_values() | cost_values(published)
    return [judge(claim, values[claim.id]) for claim in claims]
