"""What has to be known of an architecture beyond its keys: class defaults and fixed traits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from autotune.hf.reader import Reader

# A trait that is always on or off, or a key of the configuration with its class default.
Flag = bool | tuple[str, bool]
Adjust = Callable[[Reader, dict[str, Any]], None]


@dataclass(frozen=True)
class Experts:
    """How one architecture describes its experts.

    `width`: key of one expert's width. `shared`: key of the number of shared experts (each of one expert's width) or of
    their total width.
    """

    width: tuple[str, ...] = ("moe_intermediate_size",)
    shared_count: tuple[str, ...] = ()
    shared_width: tuple[str, ...] = ()
    shared_gate: bool = False
    router_bias: Literal["none", "expert", "linear"] = "none"
    biases: bool = False
    default_count: int | None = None
    default_topk: int = 2


@dataclass(frozen=True)
class Family:
    """Fixed traits of one architecture. Defaults describe Llama."""

    norm: Literal["RMSNorm", "LayerNorm"] = "RMSNorm"
    norm_bias: Flag = True  # of a LayerNorm
    norms: int = 2
    gated: bool = True
    tied: bool = False  # when the configuration does not say
    positions: Literal["rope", "learned_absolute", "alibi", "none"] = "rope"
    qkv_bias: Flag = False
    out_bias: Flag = False
    mlp_bias: Flag = False
    head_bias: Flag = False
    qk_norm: Flag = False
    qk_norm_per_head: bool = True
    head_dim: int | None = None  # class default; None = hidden / heads
    kv_heads: int | None = None  # class default; None = all heads
    window: Literal["none", "all", "some", "switch"] = "none"
    ffn_factor: float | None = None  # width of the feed-forward block over hidden, when not given
    latent: bool = False
    experts: Experts | None = None
    adjust: Adjust | None = None


def resolve(flag: Flag, reader: Reader) -> bool:
    """The value of a trait for one configuration.

    >>> resolve(("attention_bias", False), Reader({"attention_bias": True})), resolve(True, Reader({}))
    (True, True)
    """
    return flag if isinstance(flag, bool) else reader.flag(*flag)
