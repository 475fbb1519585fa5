"""One catalogue entry or model in full, as plain values: what `autotune show` prints."""

from __future__ import annotations

import os
from typing import Any

from autotune import catalogue
from autotune.constants import model_constants, stack_description, stack_entries
from autotune.errors import InputError, did_you_mean
from autotune.specs import ClusterSpec, ModelSpec


def model_parameters(spec: ModelSpec) -> dict[str, int]:
    """Exact parameter counts: all of them, and those one token meets. Prediction (MTP) layers are left out.

    >>> from autotune.load import load_model
    >>> model_parameters(load_model("mixtral-8x7b"))
    {'total': 46702792704, 'active': 12879925248}
    """
    from costmodels.parameters import active_parameters, total_parameters

    model = model_constants(spec)
    return {"total": int(total_parameters(model)), "active": int(active_parameters(model))}


def describe(name: str) -> tuple[str, dict[str, Any]]:
    """(kind, values) of a name: a GPU, fabric, stack, model, cluster or instance, or the path of a model or cluster file."""
    if name == "-" or os.path.lexists(name):
        return _describe_file(name)
    if name.startswith("hf://"):
        return "model", _model(name)
    try:
        return "gpu", _gpu(name)
    except InputError:
        pass
    from costmodels import fabrics

    if name in fabrics.names():
        fabric = fabrics.get(name)
        return "fabric", {"name": name, "description": fabric.description, "options": dict(fabric.options)}
    if name in catalogue.names("stacks"):
        return "stack", {"name": name, "description": stack_description(name), "constants": stack_entries(name)}
    if catalogue.find("models", name):
        return "model", _model(name)
    if catalogue.find("clusters", name):
        return "cluster", _cluster(name)
    if name in catalogue.instances():
        return "instance", {"name": name, **catalogue.instances()[name]}
    everything = [n for kind in catalogue.KINDS for n in catalogue.names(kind)]
    raise InputError.of(
        f"nothing called '{name[:80]}' in the catalogue, and no such file{did_you_mean(name, everything)}; see 'autotune list'"
    )


def _describe_file(path: str) -> tuple[str, dict[str, Any]]:
    from autotune.load import load_document

    if path != "-" and not os.path.isdir(path):
        data = load_document(path).data
        if isinstance(data, dict) and ("gpu" in data or "gpus" in data):
            return "cluster", _cluster(path)
    return "model", _model(path)


def _gpu(name: str) -> dict[str, Any]:
    return catalogue.find_gpu(name).model_dump()


def _model(name: str) -> dict[str, Any]:
    from autotune.load import load_model

    spec = load_model(name)
    values = spec.model_dump(exclude_none=True, exclude={"search", "training"})
    derived = {"num_query_groups": spec.kv_heads, "ffn_hidden_size": spec.ffn}
    if not spec.multi_latent_attention:
        derived["kv_channels"] = spec.head_dim
    experts = {} if spec.num_experts else {key for key in values if key.startswith("moe_") or key == "first_k_dense"}
    architecture = {key: value for key, value in {**values, **derived}.items() if key not in experts}
    extra = {
        "training": spec.training.model_dump(exclude_none=True),
        "search": spec.search.model_dump(exclude_none=True),
    }
    return {
        "name": spec.name,
        "parameters": model_parameters(spec),
        **architecture,
        **{k: v for k, v in extra.items() if v},
    }


def _cluster(name: str) -> dict[str, Any]:
    from autotune.cluster_checks import gpu_counts, gpu_of, hb_sizes
    from autotune.load import load_cluster

    spec: ClusterSpec = load_cluster(name)
    gpu = gpu_of(spec)
    values = spec.model_dump(exclude_none=True)
    values["gpu"] = gpu.name
    sizes = sorted({size for count in gpu_counts(spec) for size in hb_sizes(spec, count)})
    values["hb_domain"] = {
        "size": sizes[0] if len(sizes) == 1 else sizes,
        "bandwidth_GBps": values["hb_domain"].get("bandwidth_GBps", gpu.scale_up_GBps),
    }
    values["network"].setdefault("nic_Gbps", gpu.nic_Gbps)
    return values
