"""How frameworks cut layers into pipeline stages when the count does not divide evenly."""

from __future__ import annotations

from functools import lru_cache

from autotune.specs import ModelSpec


@lru_cache(maxsize=4096)
def stage_split(model: ModelSpec, stages: int, stack: str) -> tuple[tuple[int, ...], str]:
    """Layers of each stage, and why the framework would refuse ("" = it would not).

    nanotron balances by parameters of a block; Megatron and DeepSpeed give equal shares, ends first when uneven.
    """
    if stack == "nanotron":
        return nanotron_split(model, stages)
    return even_split(model.num_layers, stages), "" if model.num_layers >= stages else "fewer layers than stages"


def even_split(layers: int, stages: int) -> tuple[int, ...]:
    """Equal shares; a small deficit is taken from the last and the first stage, which also hold head and embedding.

    >>> even_split(126, 8), even_split(10, 4)
    ((15, 16, 16, 16, 16, 16, 16, 15), (2, 3, 3, 2))
    """
    share = -(-layers // stages)
    deficit = share * stages - layers
    if stages == 1 or deficit == 0:
        return (share,) * stages
    if share - -(-deficit // 2) < 1 or deficit > 4:
        low, extra = divmod(layers, stages)
        return tuple(low + (1 if i < extra else 0) for i in range(stages))
    counts = [share] * stages
    counts[0] -= deficit // 2
    counts[-1] -= deficit - deficit // 2
    return tuple(counts)


def nanotron_split(model: ModelSpec, stages: int) -> tuple[tuple[int, ...], str]:
    """nanotron's walk over blocks: the next stage starts once the running cost exceeds (k+1)/P of the total.

    A layer costs its matrix parameters, the head V h; embedding, final norm, cast and loss cost nothing
    (`huggingface/nanotron`, `models/base.py`). A stage without any block is refused.

    >>> m = ModelSpec(name="m", num_layers=16, hidden_size=2048, num_attention_heads=32, ffn_hidden_size=8192, swiglu=True,
    ...               vocab_size=131072, seq_length=4096)
    >>> nanotron_split(m, 8)[0]
    (3, 3, 2, 3, 2, 3, 0, 0)
    """
    h, q = model.hidden_size, model.num_attention_heads * model.head_dim
    layer = float(4 * q * h + (3 if model.swiglu else 2) * model.ffn * h)
    costs = [0.0, *[layer] * model.num_layers, 0.0, float(model.vocab_size * h), 0.0, 0.0]
    total = sum(costs)
    layers, blocks = [0] * stages, [0] * stages
    stage, running = 0, 0.0
    for i, cost in enumerate(costs):
        blocks[stage] += 1
        layers[stage] += 1 <= i <= model.num_layers
        running += cost
        if running > (stage + 1) * total / stages and stage < stages - 1:
            stage += 1
    return tuple(layers), "" if all(blocks) else "a pipeline stage would own no block"
