"""Which layers of a model have experts: every way configurations say it, turned into `first_k_dense` and `moe_layer_freq`."""

from __future__ import annotations

from typing import Any

from autotune.hf.reader import Reader

_DENSE_WORDS = {"dense", "mlp"}
MOST_LAYERS = 100_000


def expert_layers(reader: Reader, layers: int) -> list[bool]:
    """One entry per layer: does it have experts?

    >>> expert_layers(Reader({"first_k_dense_replace": 1}), 3)
    [False, True, True]
    >>> expert_layers(Reader({"interleave_moe_layer_step": 2}), 4)
    [False, True, False, True]
    """
    layers = min(layers, MOST_LAYERS)
    kinds = reader.raw("mlp_layer_types")
    if isinstance(kinds, list):
        return _checked([str(k) not in _DENSE_WORDS for k in kinds], layers, reader, "mlp_layer_types")
    listed = reader.raw("moe_layers")
    if isinstance(listed, list) and listed:
        return [i in set(map(_hashable, listed)) for i in range(layers)]
    frequency = reader.raw("moe_layer_freq")
    if isinstance(frequency, list):
        return _checked([bool(f) for f in frequency], layers, reader, "moe_layer_freq")
    return _by_rule(reader, layers)


def _by_rule(reader: Reader, layers: int) -> list[bool]:
    first = reader.integer("first_k_dense_replace", "moe_layer_start_index", default=0, least=0)
    last = reader.raw("moe_layer_end_index")
    end = layers if last in (None, -1) else reader.integer("moe_layer_end_index", default=layers, least=0) + 1
    every = reader.integer("moe_layer_freq", default=1)
    step = reader.integer("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", default=1)
    dense = reader.raw("mlp_only_layers")
    dense_layers = set(map(_hashable, dense)) if isinstance(dense, list) else set()
    return [
        first <= i < end and i % every == 0 and (i + 1) % step == 0 and i not in dense_layers for i in range(layers)
    ]


def _checked(pattern: list[bool], layers: int, reader: Reader, key: str) -> list[bool]:
    if len(pattern) != layers:
        reader.problem(f"has {len(pattern)} entries for {layers} layers", key)
    return pattern


def _hashable(value: Any) -> Any:
    return value if isinstance(value, int) else None


def regular(pattern: list[bool]) -> tuple[int, int] | None:
    """(leading dense layers, every n-th layer after them has experts); None when the pattern is not of that form.

    >>> regular([False, True, True]), regular([False, True, False, True]), regular([True, False, False, True])
    ((1, 1), (1, 2), (0, 3))
    >>> regular([True, True, False]) is None
    True
    """
    at = [i for i, has in enumerate(pattern) if has]
    if not at:
        return None
    first = at[0]
    every = at[1] - first if len(at) > 1 else max(1, len(pattern) - first)
    wanted = [i >= first and (i - first) % every == 0 for i in range(len(pattern))]
    return (first, every) if wanted == pattern else None
