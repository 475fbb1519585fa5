"""NamedTuples as NumPy records, so that compiled code passes one pointer instead of forty numbers.

Formulas read fields by name and accept either form; the kernel uses records because they compile several times faster
and cost nothing to pass on.
"""

from __future__ import annotations

from typing import Any, get_type_hints

import numpy as np


def record_dtype(kind: type) -> np.dtype:
    """Structured dtype of a NamedTuple class: int fields as int64, float fields as float64.

    >>> from costmodels.types import Breakdown
    >>> record_dtype(Breakdown).names[0], record_dtype(Breakdown).itemsize
    ('compute', 80)
    """
    hints = get_type_hints(kind)
    fields = kind._fields  # type: ignore[attr-defined]
    return np.dtype([(name, np.int64 if hints[name] is int else np.float64) for name in fields])


def as_record(values: Any) -> Any:
    """One NamedTuple as a NumPy record with the same attributes.

    >>> from costmodels.examples import TINY
    >>> int(as_record(TINY).hidden)
    8
    """
    array = np.rec.array([tuple(values)], dtype=record_dtype(type(values)))
    return array[0]


def record_view(floats: np.ndarray, kind: type) -> Any:
    """A float array whose last axis holds the fields of `kind`, seen as an array of records (no copy).

    >>> from costmodels.types import Breakdown
    >>> a = np.zeros((3, 10)); a[1, 0] = 5.0
    >>> float(record_view(a, Breakdown)[1].compute)
    5.0
    """
    return floats.view(record_dtype(kind)).reshape(floats.shape[:-1]).view(np.recarray)
