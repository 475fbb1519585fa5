"""Rail-optimized Clos with 4:1 oversubscription at its top tier."""

from __future__ import annotations

from costmodels.fabrics.clos_2to1 import TaperedClos

FABRIC = TaperedClos(4)
