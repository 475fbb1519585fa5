"""Where process groups lie on HB domains and rails.

Ranks fill domains in order: rank r is in domain r // K on rail r % K. A group is

- "in-domain": all members share one domain;
- "one-rail": all members are on one rail;
- "whole-domains": every domain it touches holds members on the same rails, more than one: a hierarchical collective
  stays on rails, and a sender has, inside the group, a relay on every rail it may send to (NCCL's PXN relays only
  through members of the communicator);
- "illegal": anything else. On a fabric that joins only equal rails it would need links that do not exist.
"""

from __future__ import annotations

import numpy as np

from costmodels.topology import CLASS_NAMES, IN_DOMAIN, ONE_RAIL, UNREACHABLE, WHOLE_DOMAINS
from costmodels.types import Point
from searchspaces.groups import KINDS, group_shape, members


def domain_and_rail(ranks: np.ndarray, hb_size: int) -> tuple[np.ndarray, np.ndarray]:
    """(domain, rail) of ranks.

    >>> [a.tolist() for a in domain_and_rail(np.array([0, 7, 8, 19]), 8)]
    [[0, 0, 1, 2], [0, 7, 0, 3]]
    """
    return ranks // hb_size, ranks % hb_size


def classify(groups: np.ndarray, hb_size: int) -> np.ndarray:
    """Class code (`costmodels.topology`) of each row of an ascending (groups, members) array.

    >>> rows = np.array([[0, 1], [7, 8], [0, 8]])
    >>> [CLASS_NAMES[c] for c in classify(rows, 8)]
    ['in-domain', 'illegal', 'one-rail']
    >>> [CLASS_NAMES[c] for c in classify(np.array([[0, 4, 8, 12], [0, 1, 8, 10]]), 8)]
    ['whole-domains', 'illegal']
    """
    domain, rail = domain_and_rail(groups, hb_size)
    result = np.full(len(groups), UNREACHABLE, dtype=np.int64)
    per_domain = (domain == domain[:, :1]).sum(axis=1)
    size = groups.shape[1]
    for x in np.unique(per_domain):
        if x == 1 or size % x:
            continue
        rows = np.flatnonzero(per_domain == x)
        d, r = domain[rows].reshape(len(rows), -1, x), rail[rows].reshape(len(rows), -1, x)
        equal = (r == r[:, :1]).all(axis=(1, 2)) & (d == d[:, :, :1]).all(axis=(1, 2)) & (np.diff(d[:, :, 0], axis=1) > 0).all(axis=1)
        result[rows[equal]] = WHOLE_DOMAINS
    result[(rail == rail[:, :1]).all(axis=1)] = ONE_RAIL
    result[(domain == domain[:, :1]).all(axis=1)] = IN_DOMAIN
    return result


def class_counts(point: Point, hb_size: int, kind: str) -> dict[str, int]:
    """How many groups of a kind fall in each class.

    >>> from costmodels.examples import POINT
    >>> class_counts(POINT._replace(tensor=4, data=16), 8, "data")
    {'whole-domains': 4}
    """
    codes, counts = np.unique(classify(members(point, kind), hb_size), return_counts=True)
    return {CLASS_NAMES[c]: int(n) for c, n in zip(codes, counts, strict=True)}


def worst_class(point: Point, hb_size: int, kind: str) -> str:
    """The class of a kind's worst group."""
    return CLASS_NAMES[int(classify(members(point, kind), hb_size).max())]


def illegal_kinds(point: Point, hb_size: int, tied: bool = False, experts: bool = False) -> list[str]:
    """Kinds of process group that rails alone cannot carry.

    >>> from costmodels.examples import POINT
    >>> illegal_kinds(POINT._replace(tensor=3, data=8), 8)
    ['tensor', 'data']
    """
    kinds = [k for k in KINDS if (experts or not k.startswith("expert")) and (tied or k != "embedding")]
    return [k for k in kinds if group_shape(point, k).size > 1 and worst_class(point, hb_size, k) == "illegal"]
