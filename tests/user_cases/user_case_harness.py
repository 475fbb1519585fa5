"""From the short names of the case file to clusters, models and plans, and the registry of check kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from autotune.cluster_checks import gpu_of
from autotune.evaluate import Evaluation, evaluate
from autotune.legality import balanced_stage_layers
from autotune.load import load_model, read_yaml
from autotune.plan import Plan
from autotune.specs import ClusterSpec, GpuSpec, ModelSpec, TrainingSpec

HERE = Path(__file__).parent
HF = HERE.parent / "imports" / "hf"
HOSTS = HERE.parent / "imports" / "hosts"

MODEL_KEYS = {
    "layers": "num_layers", "hidden": "hidden_size", "heads": "num_attention_heads", "kv_heads": "num_query_groups",
    "ffn": "ffn_hidden_size", "vocab": "vocab_size", "seq": "seq_length", "experts": "num_experts", "topk": "moe_router_topk",
    "expert_ffn": "moe_ffn_hidden_size", "pad_to": "make_vocab_size_divisible_by",
}  # fmt: skip
PLAN_KEYS = {
    "tp": "tensor_parallel", "pp": "pipeline_parallel", "dp": "data_parallel", "cp": "context_parallel", "ep": "expert_parallel",
    "etp": "expert_tensor_parallel", "vpp": "virtual_stages", "mbs": "micro_batch_size", "gbs": "global_batch_size",
    "sp": "sequence_parallel", "zero": "zero_stage", "recompute": "recompute", "order": "rank_order",
}  # fmt: skip

WITHOUT_SEQUENCE_PARALLEL = ("megatron-2020", "megatron-2021", "megatron-deepspeed")

Check = Callable[["Case", dict[str, Any]], None]
CHECKS: dict[str, Check] = {}


def check(kind: str) -> Callable[[Check], Check]:
    """Register the function that tests one kind of check; it raises AssertionError with the numbers."""

    def register(function: Check) -> Check:
        known = CHECKS.setdefault(kind, function)
        assert known.__code__.co_filename == function.__code__.co_filename, f"{kind} has two meanings"
        return function

    return register


@dataclass(frozen=True)
class Case:
    """One user case of the file."""

    data: dict[str, Any]

    @property
    def inputs(self) -> dict[str, Any]:
        return self.data["inputs"]

    @property
    def observed(self) -> dict[str, Any]:
        return self.data.get("observed") or {}

    def plans(self) -> list[dict[str, Any]]:
        """All plans of a case, in the order that `index` counts: options, or the plan and what else was tried."""
        if "plan_options" in self.inputs:
            return list(self.inputs["plan_options"])
        return [self.inputs.get("plan", {}), *self.inputs.get("also", [])]


def load_cases() -> list[dict[str, Any]]:
    return read_yaml(HERE / "cases.yaml")


def number(value: Any) -> float:
    return float(value)


@lru_cache(maxsize=64)
def preset(name: str) -> ModelSpec:
    file = config_file(name)
    return load_model(str(file) if file else name)


def config_file(name: str) -> Path | None:
    """A Hugging Face configuration kept with the tests."""
    return next((f / f"{name}.json" for f in (HF, HERE / "models") if (f / f"{name}.json").exists()), None)


def model_of(value: Any, plan: dict[str, Any] | None = None, batch: int | None = None) -> ModelSpec:
    """A model from a name or from short keys; sequence length, batch and training of a plan apply to it."""
    plan = plan or {}
    if isinstance(value, str):
        spec = preset(value)
    else:
        fields = {MODEL_KEYS.get(k, k): v for k, v in value.items()}
        shape = {"name": "case", "seq_length": plan.get("seq", 2048), "hidden_size": 64 * fields.get("num_attention_heads", 8),
                 "num_layers": 8, "num_attention_heads": 8, "vocab_size": 50304}  # fmt: skip
        spec = ModelSpec(**{**shape, **fields})
    training: dict[str, Any] = dict(plan.get("training", {}))
    if batch:
        training["global_batch_size"] = batch
    update: dict[str, Any] = {"training": TrainingSpec(**{**spec.training.model_dump(), **training})}
    if "seq" in plan:
        update["seq_length"] = plan["seq"]
    return spec.model_copy(update=update)


def cluster_of(value: dict[str, Any], plan: dict[str, Any] | None = None, stack: str = "megatron-core") -> ClusterSpec:
    """A cluster of equal nodes; the HB domain is a node unless the case or the plan says otherwise."""
    plan = plan or {}
    nodes = plan.get("nodes", value.get("nodes") or 1)
    per_node = value.get("gpus_per_node", 8)
    hb = plan.get("hb", value.get("hb", per_node))
    gpu = GpuSpec(**value["gpu"]) if isinstance(value["gpu"], dict) else value["gpu"]
    gpus = plan.get("gpus", nodes * per_node)
    network = {"fabric": value.get("fabric", "rail-optimized")}
    if "nic_gbps" in value:
        network["nic_Gbps"] = value["nic_gbps"]
    domain: dict[str, Any] = {"size": min(hb, gpus)}
    if "hb_GBps" in value:
        domain["bandwidth_GBps"] = value["hb_GBps"]
    return ClusterSpec(name="case", gpu=gpu, gpus=gpus, hb_domain=domain, network=network, stack=plan.get("stack", stack))


def plan_of(value: dict[str, Any], model: ModelSpec, cluster: ClusterSpec) -> Plan:
    """A plan from short keys. Data parallelism takes what the cluster leaves; the batch defaults to eight micro-batches a stage."""
    fields: dict[str, Any] = {PLAN_KEYS[k]: v for k, v in value.items() if k in PLAN_KEYS}
    t, p, c = (value.get(k, 1) for k in ("tp", "pp", "cp"))
    gpus = cluster.gpus if isinstance(cluster.gpus, int) else max(cluster.gpus)
    fields.setdefault("data_parallel", max(1, gpus // (t * p * c)))
    d = fields["data_parallel"]
    fields.setdefault("zero_stage", int(value.get("optimizer_sharding", True)) if d * c > 1 else 0)
    fields.setdefault("sequence_parallel", t > 1 and cluster.stack not in WITHOUT_SEQUENCE_PARALLEL)
    if "gbs" not in value:
        fields["global_batch_size"] = d * value.get("mbs", 1) * value.get("micro_batches", 8 * p)
    fields["stage_layers"] = stages_of(value, model.num_layers)
    nic = cluster.network.nic_Gbps or gpu_of(cluster).nic_Gbps
    return Plan(hb_domain_size=cluster.hb_domain.size, nic_Gbps=float(nic), fabric=cluster.network.fabric, stack=cluster.stack, **fields)


def stages_of(value: dict[str, Any], layers: int) -> tuple[int, ...]:
    """Layers per stage: as listed, a lighter last stage, or as even as can be."""
    p = value.get("pp", 1)
    if "stages" in value:
        return tuple(value["stages"])
    if "last" in value:
        return (*((layers - value["last"]) // (p - 1),) * (p - 1), value["last"])
    return balanced_stage_layers(layers, p)


def setup(case: Case, plan: dict[str, Any]) -> tuple[ClusterSpec, ModelSpec, Plan]:
    """Cluster, model and plan of a case for one of its plans."""
    inputs = case.inputs
    cluster = cluster_of(plan.get("cluster", inputs.get("cluster", {"gpu": "H100-80GB-SXM"})), plan, inputs.get("stack", "megatron-core"))
    training = {**inputs.get("training", {}), **plan.get("training", {})}
    model = model_of(plan.get("model", inputs.get("model")), {**plan, "training": training}, plan.get("gbs"))
    named = plan_of(plan, model, cluster)
    cluster = cluster.model_copy(update={"gpus": named.gpus, "hb_domain": cluster.hb_domain.model_copy(update={"size": min(named.hb_domain_size, named.gpus)})})
    return cluster, model, plan_of(plan, model, cluster)


def price(case: Case, plan: dict[str, Any], target: str = "megatron") -> Evaluation:
    """The tool's evaluation of one of a case's plans."""
    cluster, model, named = setup(case, plan)
    return evaluate(cluster, model, named, plan.get("backend", target), rail=False)


def near(found: float, given: dict[str, Any], what: str) -> None:
    """Within the check's tolerance of its value."""
    value = number(given["value"])
    allowed = given["abs_tol"] if "abs_tol" in given else given.get("rel_tol", 0.0) * abs(value)
    assert abs(found - value) <= allowed + 1e-9, f"{what}: {found:.4g}, expected {value:g} within {allowed:.3g}"
