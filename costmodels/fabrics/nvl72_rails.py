"""Rail-only network between NVL72 racks: 72 rails, one per GPU of the rack.

GB200/GB300 NVL72: 72 GPUs at 900 GB/s each way. A rail has one GPU per rack, so one switch per rail joins `radix` racks.
"""

from __future__ import annotations

from costmodels.fabrics.base import FabricInputs
from costmodels.fabrics.rail_only import RailOnly

DOMAIN = 72
NVLINK_BPS = 900e9


class Nvl72Rails(RailOnly):
    """The cluster's HB domain is replaced by the rack's.

    >>> FABRIC.inventory(FabricInputs(gpus=4608)).tier_switches
    (72,)
    """

    name = "nvl72-rails"
    description = "Rail-only between NVL72 racks: HB domains of 72 GPUs at 900 GB/s, 72 rails"

    def fixed(self, inputs: FabricInputs) -> FabricInputs:
        return inputs._replace(hb_size=DOMAIN, hb_Bps=NVLINK_BPS)


FABRIC = Nvl72Rails()
