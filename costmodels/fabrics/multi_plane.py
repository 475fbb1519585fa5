"""DeepSeek's multi-plane fat tree (arXiv 2505.09343, section 5.1): one two-tier plane per GPU-NIC pair of a node.

It is a rail-only network in production: traffic between planes relays through NVLink.
"""

from __future__ import annotations

from costmodels.fabrics.rail_only import RailOnly


class MultiPlane(RailOnly):
    """Always two tiers per plane: 16,384 GPUs with 8 planes of 64-port switches (Table 3 of the paper).

    >>> from costmodels.fabrics.base import FabricInputs
    >>> bill = FABRIC.inventory(FabricInputs(gpus=16384))
    >>> bill.switches, bill.switch_links, bill.max_gpus
    (768, 16384, 16384)
    """

    name = "multi-plane"
    description = "DeepSeek multi-plane fat tree: a two-tier plane per GPU of a node (rail-only)"
    rail_tiers = 2


FABRIC = MultiPlane()
