"""Rail-optimized Clos with 2:1 oversubscription at its top tier."""

from __future__ import annotations

from costmodels.fabrics.base import FabricInputs
from costmodels.fabrics.rail_optimized import RailOptimized


class TaperedClos(RailOptimized):
    """A rail-optimized Clos whose ratio is part of its name; `oversubscription` of the cluster is not used.

    >>> from costmodels.fabrics import get
    >>> get("clos-2to1").network(FabricInputs(gpus=16384)).core_Bps
    25000000000.0
    """

    def __init__(self, ratio: int) -> None:
        self.ratio = ratio
        self.name = f"clos-{ratio}to1"
        self.description = f"Rail-optimized Clos, {ratio}:1 oversubscribed below its top tier"

    def fixed(self, inputs: FabricInputs) -> FabricInputs:
        """The fabric's own ratio in place of the cluster's."""
        return inputs._replace(oversubscription=float(self.ratio))


FABRIC = TaperedClos(2)
