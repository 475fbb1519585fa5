"""From a measured row to what the planner understands: a cluster, a model and a plan.

A row may leave recompute, micro-batch or interleave open. Each open choice becomes a list of alternatives; the runner
takes the one the model itself would pick (fastest that fits), never the one closest to the measured time.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from autotune.errors import AutotuneError
from autotune.plan import Plan
from autotune.specs import Calibration, ClusterSpec, GpuSpec, HbDomainSpec, ModelSpec, NetworkSpec
from autotune.validate.rows import Row
from autotune.validate.stages import stage_split
from autotune.validate.tables import model_flags, stack_of, systems

HEAD_SIZE = 128  # assumed where the number of heads is not printed
CORE = frozenset({"megatron-core", "megatron-core-eager", "megatron-bridge", "nemo"})  # sequence parallelism and sharded optimizer by default
INTERLEAVED = CORE | {"megatron-2021", "megatron-2022", "nemo-2022"}  # stacks that have virtual stages
_PARTIAL = re.compile(r"recompute full \((\d+) layers\)")
_NEEDED = ("layers", "hidden", "vocab", "seq_len", "n_gpus", "tp", "pp", "global_batch")


class Unscorable(Exception):
    """A row that cannot be mapped; the message is the skip reason and is counted as it stands."""


@dataclass(frozen=True)
class Scenario:
    """One fully determined prediction to make. `choices` names the values that were not in the row."""

    cluster: ClusterSpec
    model: ModelSpec
    plan: Plan
    choices: str = ""
    illegal: str = ""  # why this framework would refuse the layout; empty = it runs


def scenarios(row: Row) -> list[Scenario]:
    """Every reading of a row, more than one where choices are open. Raises Unscorable with the reason.

    >>> r = Row("x-1", framework="Megatron-LM 2021", layers=24, hidden=1024, heads=16, vocab=51200, seq_len=1024, gpu="A100-80GB-SXM",
    ...         n_gpus=8, tp=2, pp=1, dp=4, micro_batch=1, global_batch=8, recompute="full")
    >>> [(s.plan.tensor_parallel, s.plan.micro_batches, s.plan.stack) for s in scenarios(r)]
    [(2, 2, 'megatron-2021')]
    """
    _require(row)
    assumed = ""
    if not row.heads and row.hidden and row.hidden % HEAD_SIZE == 0:
        row = dataclasses.replace(row, heads=row.hidden // HEAD_SIZE)
        assumed = f"heads={row.heads}"
    if not row.heads:
        raise Unscorable("not known: heads")
    stack = release_of(stack_of(row.framework, row.overlap_flags), row)
    cluster = cluster_of(row, stack)
    model = model_of(row)
    found = [
        _scenario(row, stack, cluster, model, grid, *choice) for choice in _choices(row, stack) for grid in _expert_degrees(row, model)
    ]
    if not found:
        raise Unscorable("batch not divisible by data parallelism")
    return [dataclasses.replace(s, choices=f"{assumed} {s.choices}".strip()) for s in found] if assumed else found


def release_of(stack: str, row: Row) -> str:
    """The release of a framework that a layout gives away.

    Layers that divide over stages only when embedding and head count as two more need the Megatron-DeepSpeed that partitions
    by `type:transformer|embedding`, which came with the bf16 optimizer.
    """
    layers, stages = row.layers or 1, row.pp or 1
    if stack == "megatron-deepspeed" and layers % stages and (layers + 2) % stages == 0:
        return "megatron-deepspeed-bf16"
    return stack


def _require(row: Row) -> None:
    if row.task == "lora":
        raise Unscorable("low-rank fine-tuning is not modelled")
    missing = [name for name in _NEEDED if not getattr(row, name)]
    if not row.gpu:
        missing.append("gpu")
    if missing:
        raise Unscorable(f"not known: {missing[0]}")
    degrees = row.tp * row.pp * (row.cp or 1) * _data(row)  # type: ignore[operator]
    if degrees != row.n_gpus:
        raise Unscorable("degrees do not multiply to the GPU count")


def _data(row: Row) -> int:
    return row.dp or row.n_gpus // (row.tp * row.pp * (row.cp or 1))  # type: ignore[operator]


@lru_cache(maxsize=256)
def gpu_of(name: str) -> GpuSpec:
    """Catalogue entry of a GPU name; Unscorable when there is none."""
    from autotune.catalogue import find_gpu

    try:
        return find_gpu(name)
    except AutotuneError:
        raise Unscorable("GPU not in the catalogue") from None


def cluster_of(row: Row, stack: str) -> ClusterSpec:
    """The machine of a row: its own columns first, then what is published of its `system_group`."""
    return _cluster(row.system_group, row.gpu, row.n_gpus or 1, row.gpus_per_node, row.nic_gbps_per_gpu, stack)


@lru_cache(maxsize=8192)
def _cluster(system: str, gpu_name: str, gpus: int, per_node: int | None, nic: float | None, stack: str) -> ClusterSpec:
    known = systems().get(system)
    gpu = gpu_of(gpu_name)
    node = per_node or (known and known.gpus_per_node) or gpu.scale_up_domain
    return ClusterSpec(
        name=system or "measured",
        gpu=gpu,
        gpus=gpus,
        gpus_per_node=min(node, 8),
        hb_domain=HbDomainSpec(size=min(node, gpus), bandwidth_GBps=None),
        network=NetworkSpec(
            fabric="rail-optimized",
            nic_Gbps=nic or (known.nic_Gbps if known else None),
            nic_efficiency=known.nic_efficiency if known else None,
            latency_us=known.latency_us if known else None,
        ),
        calibration=Calibration(gemm_efficiency=known.gemm_efficiency) if known and known.gemm_efficiency else None,
        stack=stack,
    )


def model_of(row: Row) -> ModelSpec:
    """The model of a row: sizes from the row, flags from the published model of that name, else told from the shapes."""
    mtp = bool(row.mtp_layers) or "w/ MTP" in row.notes
    return _model(
        row.model_name, row.layers, row.hidden, row.ffn_hidden, row.heads, row.kv_heads, row.head_dim, row.vocab, row.seq_len,
        row.moe_experts, row.moe_topk, row.moe_ffn, row.moe_shared_ffn, row.dense_layers, row.mla == "yes", row.precision, mtp,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _model(
    name: str, layers: int, hidden: int, ffn: int | None, heads: int, kv_heads: int | None, head_dim: int | None, vocab: int, seq: int,
    experts: int | None, topk: int | None, expert_ffn: int | None, shared: int | None, dense: int | None, mla: bool, precision: str, mtp: bool,
) -> ModelSpec:  # fmt: skip
    flags = model_flags(name)
    gated = flags.gated if flags.gated is not None else (ffn or 4 * hidden) not in (4 * hidden, 0)
    fields: dict[str, object] = {
        "name": name or "model",
        "num_layers": layers,
        "hidden_size": hidden,
        "ffn_hidden_size": ffn or None,
        "num_attention_heads": heads,
        "num_query_groups": kv_heads if kv_heads and not mla else None,
        "kv_channels": head_dim if head_dim and head_dim * heads != hidden else None,
        "swiglu": gated,
        "normalization": "RMSNorm" if gated else "LayerNorm",
        "add_bias_linear": not gated,
        "vocab_size": vocab,
        "seq_length": seq,
        "untie_embeddings_and_output_weights": not (flags.tied if flags.tied is not None else not gated),
        "training": {"precision": _precision(precision)},
    }
    if experts and experts > 1:
        fields |= {
            "num_experts": experts,
            "moe_router_topk": topk or 1,
            "moe_ffn_hidden_size": expert_ffn,
            "moe_shared_expert_intermediate_size": shared or None,
            "moe_load_variation": 0.0,  # benchmark recipes force balance (moe_router_force_load_balancing)
            "first_k_dense": dense or 0,
            "moe_router_num_groups": flags.route_groups or None,
            "moe_router_group_topk": flags.route_topk_groups or None,
        }
    if mla:
        if not flags.kv_lora:
            raise Unscorable("sizes of latent attention not known")
        fields |= {
            "multi_latent_attention": True,
            "q_lora_rank": flags.q_lora or None,
            "kv_lora_rank": flags.kv_lora,
            "qk_head_dim": flags.qk_nope,
            "qk_pos_emb_head_dim": flags.qk_rope,
            "v_head_dim": flags.v_dim,
            "mtp_num_layers": int(mtp),
        }
    try:
        return ModelSpec(**fields)
    except ValueError:
        raise Unscorable("model shape is inconsistent") from None


def _precision(text: str) -> str:
    if "fp8" in text:
        return "fp8"
    if "fp4" in text:
        raise Unscorable("4-bit training is not modelled")
    return "fp16" if text == "fp16" else "bf16"


def _choices(row: Row, stack: str) -> Iterator[tuple[int, int, str, str]]:
    """(micro-batch, virtual stages, recompute, note) of every reading."""
    local = row.global_batch / _data(row)  # type: ignore[operator]
    powers = [b for b in (1, 2, 4, 8, 16) if b <= local]
    micro = [row.micro_batch] if row.micro_batch else powers
    per_stage = -(-row.layers // row.pp)  # type: ignore[operator]
    interleave = row.pp > 1 and stack in INTERLEAVED and row.layers % row.pp == 0  # type: ignore[operator]
    chunks = [row.vpp] if row.vpp else [v for v in range(1, per_stage + 1) if v == 1 or (interleave and per_stage % v == 0)]
    recompute = [_recompute(row.recompute)] if row.recompute else ["none", "selective", "full"]
    for b, v, r in itertools.product(micro, chunks, recompute):
        if local % b:
            continue
        if v > 1 and not row.vpp and (local / b) % row.pp:  # type: ignore[operator]
            continue
        notes = [] if row.micro_batch else [f"micro_batch={b}"]
        notes += [] if row.vpp or row.pp == 1 else [f"virtual_stages={v}"]
        notes += [] if row.recompute else [f"recompute={r}"]
        yield b, v, r, " ".join(notes)


def _recompute(text: str) -> str:
    return {"selective-op": "selective", "selective-layer": "full"}.get(text, text)


def _scenario(
    row: Row, stack: str, cluster: ClusterSpec, model: ModelSpec, grid: tuple[int, int, str], b: int, v: int, recompute: str, note: str
) -> Scenario:
    data = _data(row)
    layers, illegal = stage_split(model, row.pp or 1, stack)
    micro_batches = (row.global_batch or 1) // (b * data)
    if stack == "nanotron" and micro_batches < (row.pp or 1) - 1:
        illegal = "fewer micro-batches than pipeline stages - 1"
    expert, expert_tensor, grid_note = grid
    plan = Plan(
        tensor_parallel=row.tp or 1,
        pipeline_parallel=row.pp or 1,
        data_parallel=data,
        context_parallel=row.cp or 1,
        expert_parallel=expert,
        expert_tensor_parallel=expert_tensor,
        virtual_stages=v or 1,
        micro_batch_size=b,
        global_batch_size=row.global_batch or 1,
        sequence_parallel=_sequence_parallel(row, stack),
        recompute=recompute,
        recompute_num_layers=_recomputed_layers(row, layers[0]),
        zero_stage=_zero(row, stack),
        stage_layers=layers,
        hb_domain_size=cluster.hb_domain.size if isinstance(cluster.hb_domain.size, int) else 8,
        nic_Gbps=float(cluster.network.nic_Gbps) if isinstance(cluster.network.nic_Gbps, (int, float)) else gpu_of(row.gpu).nic_Gbps,
        fabric=cluster.network.fabric,
        stack=stack,
    )
    return Scenario(cluster, model, plan, " ".join(filter(None, (note, grid_note))), illegal)


def _recomputed_layers(row: Row, layers: int) -> int | None:
    """Layers per chunk that are run again where a source says only some are; None = all."""
    if row.recompute == "selective-layer":
        return -(-layers // 2)  # every second layer
    partial = _PARTIAL.search(row.overlap_flags)
    return min(layers, int(partial.group(1))) if partial and row.recompute == "full" else None


def _sequence_parallel(row: Row, stack: str) -> bool:
    if (row.tp or 1) == 1:
        return False
    if row.seq_parallel:
        return row.seq_parallel == "yes"
    if stack == "nanotron":
        return (row.pp or 1) > 1  # not printed; measured memory of other runs says all-reduce for P = 1
    return stack in CORE or stack == "torchtitan"


def _zero(row: Row, stack: str) -> int:
    if row.dist_opt_or_zero is not None:
        return min(3, row.dist_opt_or_zero)
    if stack in ("fsdp-composer", "torchtitan"):
        return 3
    return int(stack in CORE or stack.startswith("internevo"))


def _expert_degrees(row: Row, model: ModelSpec) -> list[tuple[int, int, str]]:
    """(expert, expert-tensor, note): where the second is not printed, whole experts, or split like the dense layers."""
    if not model.num_experts:
        return [(1, 1, "")]
    ep, ranks = row.ep or 1, (row.n_gpus or 1) // (row.pp or 1)
    if row.etp:
        return [(ep, row.etp, "")]
    sizes = [x for x in dict.fromkeys((1, row.tp or 1)) if ranks % (ep * x) == 0] or [1]
    return [(ep, x, f"expert_tensor_parallel={x}" if len(sizes) > 1 else "") for x in sizes]
