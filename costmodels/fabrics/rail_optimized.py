"""Rail-optimized Clos (NVIDIA DGX SuperPOD): a leaf serves one local index of many domains; spines join the rails."""

from __future__ import annotations

from costmodels.fabrics.fat_tree import FatTree


class RailOptimized(FatTree):
    """The same switches as a fat tree, but k/2 domains share their leaves, so rail-aligned traffic stays one hop away.

    >>> from costmodels.fabrics.base import FabricInputs
    >>> FABRIC.network(FabricInputs(gpus=1024)).leaf_gpus
    256
    """

    name = "rail-optimized"
    description = "Rail-optimized Clos: leaves per rail, spines join all rails; any-to-any"
    rail_wired = True


FABRIC = RailOptimized()
