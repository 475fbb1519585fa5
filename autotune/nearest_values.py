"""Values near a given one that divide evenly, and layers shared out as evenly as can be."""

from __future__ import annotations


def balanced_stage_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Layers per pipeline stage, as even as possible, the first and last stages taking the fewer layers.

    >>> balanced_stage_layers(8, 4), balanced_stage_layers(27, 2), balanced_stage_layers(61, 8)
    ((2, 2, 2, 2), (14, 13), (7, 8, 8, 8, 8, 8, 7, 7))
    """
    base, extra = divmod(layers, stages)
    order = sorted(range(stages), key=lambda i: (i == stages - 1, i == 0)) if stages > 2 else list(range(stages))
    larger = set(order[:extra])
    return tuple(base + (i in larger) for i in range(stages))


def nearest_divisors(number: int, value: int) -> list[int]:
    """The divisors of `number` next to `value`, below and above.

    >>> nearest_divisors(40, 3), nearest_divisors(40, 41)
    ([2, 4], [40])
    """
    below = next((d for d in range(min(value - 1, number), 0, -1) if number % d == 0), None)
    above = next((d for d in range(value + 1, number + 1) if number % d == 0), None)
    return [d for d in (below, above) if d]


def nearest_multiples(step: int, value: int) -> list[int]:
    """The positive multiples of `step` next to `value`.

    >>> nearest_multiples(48, 100), nearest_multiples(48, 7)
    ([96, 144], [48])
    """
    below = value // step * step
    return [m for m in (below, below + step) if m > 0]
