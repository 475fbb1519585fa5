"""Small models and clusters that between them reach every branch of the model, and random points of their lattices."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune.setting import Setting, hardware, target_rules
from autotune.specs import ClusterSpec, ModelSpec
from searchspaces.kernel import Hardware
from searchspaces.lattice import Cell, Lattice
from searchspaces.rules import TargetRules

SIZES: dict[str, Any] = {
    "num_layers": 8, "hidden_size": 2048, "num_attention_heads": 16, "ffn_hidden_size": 8192, "vocab_size": 32000,
    "seq_length": 2048,
}  # fmt: skip

MODELS: dict[str, dict[str, Any]] = {
    "dense": {},
    "gpt2": {"position_embedding_type": "learned_absolute", "vocab_size": 50257, "embedding_norm": True, "output_bias": True},
    "gqa": {
        "num_query_groups": 4, "swiglu": True, "add_bias_linear": False, "normalization": "RMSNorm", "qk_layernorm": True,
        "untie_embeddings_and_output_weights": True, "window_size": 512,
    },
    "moe": {
        "num_query_groups": 4, "swiglu": True, "add_bias_linear": False, "normalization": "RMSNorm", "num_experts": 8,
        "moe_ffn_hidden_size": 4096, "untie_embeddings_and_output_weights": True,
    },
    "mla": {
        "swiglu": True, "add_bias_linear": False, "normalization": "RMSNorm", "multi_latent_attention": True, "q_lora_rank": 512,
        "kv_lora_rank": 256, "qk_head_dim": 64, "qk_pos_emb_head_dim": 32, "v_head_dim": 64, "num_experts": 16,
        "moe_router_topk": 4, "moe_ffn_hidden_size": 1024, "moe_shared_expert_intermediate_size": 1024, "first_k_dense": 2,
        "moe_router_num_groups": 4, "moe_router_group_topk": 2, "mtp_num_layers": 1, "moe_router_bias": "expert",
        "untie_embeddings_and_output_weights": True,
    },
    "alternating": {"swiglu": True, "add_bias_linear": False, "num_experts": 4, "moe_layer_freq": 2, "moe_capacity_factor": 1.25},
}  # fmt: skip


def model_spec(kind: str = "dense", batch: int = 32, precision: str = "bf16", search: dict[str, Any] | None = None, **changes: Any) -> ModelSpec:
    """One of `MODELS` with a batch and any field changed."""
    fields = {**SIZES, **MODELS[kind], **changes}
    return ModelSpec(name=kind, training={"global_batch_size": batch, "precision": precision}, search=search or {}, **fields)


def cluster_spec(
    gpus: int = 16, fabric: str = "rail-optimized", gpu: Any = "H100-80GB-SXM", hb: int = 8, nic: float = 400.0, stack: str = "megatron-core",
    hb_GBps: float | None = None, **changes: Any,
) -> ClusterSpec:  # fmt: skip
    """A cluster of one setting."""
    return ClusterSpec(
        name="test", gpu=gpu, gpus=gpus, hb_domain={"size": hb, "bandwidth_GBps": hb_GBps},
        network={"fabric": fabric, "nic_Gbps": nic, **changes.pop("network", {})}, stack=stack, **changes,
    )  # fmt: skip


def setting_of(cluster: ClusterSpec, model: ModelSpec) -> Setting:
    """The one setting that two specs of fixed hardware describe."""
    from autotune.setting import setting_axes

    return Setting(**{k: v[0] for k, v in setting_axes(cluster, model).items()})


def hardware_of(cluster: ClusterSpec, model: ModelSpec, rules: TargetRules | None = None) -> Hardware:
    """The kernel's inputs, by default under the rules of the default launch target."""
    return hardware(cluster, model, setting_of(cluster, model), rules or target_rules("megatron"))


def lattice_of(cluster: ClusterSpec, model: ModelSpec) -> Lattice:
    """The lattice that `search` walks."""
    from autotune.constants import model_constants
    from autotune.limits import lattice_limits

    s = setting_of(cluster, model)
    return Lattice.build(model_constants(model), s.gpus, s.global_batch_size, lattice_limits(model))


def random_points(lattice: Lattice, count: int, seed: int) -> list[tuple[Cell, int]]:
    """(cell, inner index) drawn evenly from a lattice."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, len(lattice.cells), count)
    return [(lattice.cells[c], int(i)) for c, i in zip(cells, rng.integers(0, lattice.inner_size, count), strict=True)]
