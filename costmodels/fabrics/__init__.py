"""Network fabrics by name. Every module of this package that defines `FABRIC` is one.

>>> get("rail-only").name
'rail-only'
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

from costmodels.fabrics.base import Fabric, FabricInputs, Inventory

__all__ = ["Fabric", "FabricInputs", "Inventory", "get", "names"]


@cache
def _registry() -> dict[str, Fabric]:
    found: dict[str, Fabric] = {}
    for module in pkgutil.iter_modules(__path__):
        fabric = getattr(importlib.import_module(f"{__name__}.{module.name}"), "FABRIC", None)
        if isinstance(fabric, Fabric):
            if fabric.name in found:
                raise RuntimeError(f"two modules define the fabric '{fabric.name}'")
            found[fabric.name] = fabric
    return dict(sorted(found.items()))


def names() -> list[str]:
    """All fabric names, sorted."""
    return list(_registry())


def get(name: str) -> Fabric:
    """A fabric by name. Raises ValueError, with the nearest name, when there is none.

    >>> get("rail-onyl")
    Traceback (most recent call last):
    ValueError: unknown fabric 'rail-onyl' (did you mean 'rail-only'?); known: ...
    """
    registry = _registry()
    if name not in registry:
        close = difflib.get_close_matches(name, list(registry), n=1, cutoff=0.6)
        hint = f" (did you mean '{close[0]}'?)" if close else ""
        raise ValueError(f"unknown fabric '{name}'{hint}; known: {', '.join(registry)}")
    return registry[name]
