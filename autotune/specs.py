"""What the user's files may say: strict schemas of `cluster.yaml` and `model.yaml`.

Keys carry their unit; conversion to SI happens in `autotune.constants`. Unknown keys are errors. Reading files,
line numbers and catalogue names are the job of `autotune.load`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

LOAD_VARIATION = 0.2  # of expert loads under an auxiliary loss: the busiest of 64 is 0.5 to 0.7 over the mean, arXiv 2408.15664 table 2
MAX_GPUS = 1 << 20  # the largest cluster supported: 1,048,576 GPUs


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("boolean", "must be a number, got {got}", {"got": str(value).lower()})
    return value


def _distinct(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _one_kind_of_gpu(value: Any) -> Any:
    if isinstance(value, list) and len(value) > 1:
        names = ", ".join(str(v) for v in value[:8])
        text = "mixed GPUs ({names}) are not priced: all GPUs must be identical; name the one with the least memory and speed, what the others have more is lost"
        raise PydanticCustomError("mixed_gpus", text, {"names": names})  # type: ignore[arg-type]
    return value


Name = Annotated[str, Field(min_length=1, max_length=200)]
Whole = Annotated[int, BeforeValidator(_no_boolean)]
Real = Annotated[float, BeforeValidator(_no_boolean)]
Count = Annotated[Whole, Field(ge=1, le=100_000_000)]
GpuCount = Annotated[Whole, Field(ge=1, le=MAX_GPUS)]
Positive = Annotated[Real, Field(gt=0, le=1e15, allow_inf_nan=False)]
Efficiency = Annotated[Real, Field(gt=0, le=1.2, allow_inf_nan=False)]
NonNegative = Annotated[Real, Field(ge=0, le=1e15, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
ZeroStage = Annotated[Whole, Field(ge=0, le=3)]
RankOrder = Literal["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"]
Recompute = Literal["none", "selective", "full"]
Counts = Annotated[list[Count], Field(min_length=1, max_length=1000), AfterValidator(_distinct)]
GpuCounts = Annotated[list[GpuCount], Field(min_length=1, max_length=1000), AfterValidator(_distinct)]
Rates = Annotated[list[Positive], Field(min_length=1, max_length=1000), AfterValidator(_distinct)]


class Strict(BaseModel):
    """Base of every schema: no unknown keys, no silent conversion of fractions or strings to integers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Range(Strict):
    """A continuous search axis: `{min: 100, max: 900}`; with `step`, a grid."""

    min: Positive
    max: Positive
    step: Positive | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.max < self.min:
            raise ValueError("max must not be below min")
        if self.step is not None and (self.max - self.min) / self.step > 1000:
            raise ValueError("step gives more than 1,000 points; use a larger step, or none for a continuous axis")
        return self


class Calibration(Strict):
    """Fitted efficiency constants of one cluster, as `autotune calibrate` writes them. Absent = shipped value."""

    gemm_efficiency: Efficiency | None = None
    hbm_efficiency: Efficiency | None = None
    attention_forward_efficiency: Efficiency | None = None
    attention_backward_efficiency: Efficiency | None = None
    nvlink_efficiency: Efficiency | None = None
    nic_efficiency: Efficiency | None = None
    launch_us: NonNegative | None = None
    iteration_overhead_s: NonNegative | None = None
    notes: str = ""


class GpuSpec(Strict):
    """One accelerator: data sheet values per GPU, bandwidth in one direction, dense FLOP/s.

    Fitted efficiencies (at most eight) have a source in the catalogue file. `memory_GiB` is what the driver reports.
    """

    name: Name
    vendor: str = "NVIDIA"
    aliases: list[str] = []
    memory_GiB: Positive
    hbm_GBps: Positive
    bf16_TFLOPS: Positive
    fp16_TFLOPS: Positive | None = None
    fp8_TFLOPS: Positive | None = None
    fp4_TFLOPS: Positive | None = None
    scale_up_GBps: Positive = Field(
        description="HB-domain bandwidth per GPU, one direction; PCIe when there is no NVLink"
    )
    scale_up_domain: Count = 8
    mesh: bool = Field(False, description="full mesh of links (AMD): a group of g < 8 uses only g-1 of 7 links")
    pcie_GBps: Positive = 31
    nic_Gbps: Positive = 400
    power_W: Positive = 700
    sms: Count = 132
    gemm_efficiency: Efficiency = 0.75
    fp8_gemm_efficiency: Efficiency = 0.62
    gemm_prologue: NonNegative = Field(80, description="elements of K a 16-bit matrix product loses at its start")
    fp8_gemm_prologue: NonNegative = Field(700, description="the same in fp8")
    hbm_efficiency: Efficiency = 0.80
    attention_forward_efficiency: Efficiency = 0.45
    attention_backward_efficiency: Efficiency = 0.36
    attention_legacy_share: Efficiency = Field(1.0, description="share of those rates that FlashAttention-2 kernels reach")
    nvlink_efficiency: Efficiency = 0.80
    in_network_reduction: bool = Field(False, description="NVLink SHARP: all-reduce only")
    price_usd: Positive | None = None
    usd_per_hour: Positive | None = None
    sources: dict[str, str] = {}


class HbDomainSpec(Strict):
    """The high-bandwidth (NVLink) domain."""

    size: GpuCount | GpuCounts | None = Field(None, description="GPUs joined by NVLink; a list makes it a search axis")
    bandwidth_GBps: Positive | Rates | Range | None = Field(None, description="per GPU, one direction")


class NetworkSpec(Strict):
    """The scale-out network."""

    fabric: str = "rail-optimized"
    nic_Gbps: Positive | Rates | Range | None = None
    oversubscription: Annotated[Real, Field(ge=1, le=1000, allow_inf_nan=False)] = 1.0
    switch_radix: Annotated[Whole, Field(ge=2, le=4096)] = 64
    latency_us: NonNegative | None = None
    nic_efficiency: Efficiency | None = None
    pipeline_stall_ms: NonNegative | None = Field(None, description="what each transfer between pipeline stages waits beyond latency and bandwidth")
    options: dict[str, bool | int | Finite | str] = Field({}, description="settings of one fabric, see docs/cluster.md")


class PricesSpec(Strict):
    """Dollars and watts, all optional: what `network` and `search` report cost with."""

    switch_port_usd: Positive | None = None
    transceiver_usd: Positive | None = None
    switch_port_W: Positive | None = None
    transceiver_W: Positive | None = None
    price_set: str | None = Field(
        None, description="named base that the other keys override: rail-only-paper, deepseek, hammingmesh"
    )
    switch_link_usd: Positive | None = Field(None, description="per link between switches")
    optical_port_usd: Positive | None = Field(None, description="per port of an optical circuit switch")
    optical_port_W: Positive | None = None
    gpu_usd: Positive | None = Field(None, description="one GPU with its share of the server")
    gpu_hour_usd: Positive | None = None
    electricity_usd_per_kWh: Positive | None = None


class FailureSpec(Strict):
    """Failure rates and recovery times for goodput."""

    interruptions_per_gpu_day: NonNegative = 4.7e-4
    checkpoint_s: Positive = 30
    restart_s: Positive = 600
    repair_hours: Positive = Field(24, description="until a broken part is back")
    straggler_spread: NonNegative = Field(0.005, description="standard deviation of step time over GPUs, as a fraction")


class LaunchSpec(Strict):
    """What launch files need to know of a site and no prediction depends on. Everything is optional."""

    socket_interface: str | None = Field(None, description="front-end network interface that reaches every node")
    ib_hca: list[str] = Field([], description="NICs of a node in rail order, as NCCL_IB_HCA names them, e.g. mlx5_0")
    nodes: list[str] = Field([], description="host names in rank order: the nodes of a domain side by side")
    partition: str | None = Field(None, description="Slurm partition")
    account: str | None = Field(None, description="Slurm account")
    time_limit: str | None = Field(None, description="Slurm time limit, e.g. 24:00:00")
    container_image: str | None = Field(None, description="image for Kubernetes and Slurm with pyxis")
    namespace: str | None = Field(None, description="Kubernetes namespace")


class ClusterSpec(Strict):
    """`cluster.yaml`."""

    name: Name
    gpu: Annotated[str | GpuSpec, BeforeValidator(_one_kind_of_gpu)]
    gpus: GpuCount | GpuCounts
    gpus_per_node: GpuCount | None = Field(None, description="GPUs that share a host; default min(8, HB size)")
    hb_domain: HbDomainSpec = HbDomainSpec(size=None, bandwidth_GBps=None)
    network: NetworkSpec = NetworkSpec()
    stack: str = "megatron-core"
    memory_reserve_GiB: NonNegative | None = Field(None, description="kept free; default: the stack's")
    prices: PricesSpec = PricesSpec()
    failures: FailureSpec = FailureSpec()
    calibration: Calibration | str | None = Field(None, description="constants, or the path of a calibration.yaml")
    launch: LaunchSpec = LaunchSpec()
    description: str = ""
    source: str = ""


class TrainingSpec(Strict):
    """How the model is trained."""

    global_batch_size: Count | Counts | None = None
    precision: Literal["bf16", "fp16", "fp8"] = "bf16"
    tokens: Positive | None = None
    optimizer_moments: Literal["fp32", "bf16", "8bit"] | None = Field(None, description="format of both Adam moments")
    master_weights: bool | None = Field(None, description="false: pure 16-bit training")
    lora_rank: Annotated[Whole, Field(ge=1, le=100_000)] | None = Field(
        None, description="adapters of this rank on all linear layers, the model frozen"
    )


class SearchSpec(Strict):
    """Limits on any axis: a value fixes it, a list restricts it."""

    tensor_parallel: Count | Counts | None = None
    pipeline_parallel: Count | Counts | None = None
    data_parallel: Count | Counts | None = None
    context_parallel: Count | Counts | None = None
    expert_parallel: Count | Counts | None = None
    expert_tensor_parallel: Count | Counts | None = None
    virtual_stages: Count | Counts | None = None
    micro_batch_size: Count | Counts | None = None
    sequence_parallel: bool | None = None
    recompute: Recompute | Annotated[list[Recompute], Field(min_length=1)] | None = None
    zero_stage: ZeroStage | Annotated[list[ZeroStage], Field(min_length=1)] | None = None
    rank_order: RankOrder | Annotated[list[RankOrder], Field(min_length=1)] | None = None


class ModelSpec(Strict):
    """`model.yaml`: Megatron's argument names. Defaults are Megatron's unless stated.

    A decoder-only transformer. `first_k_dense` leading layers keep a dense feed-forward block.
    """

    name: Name
    num_layers: Annotated[Whole, Field(ge=1, le=100_000)]
    hidden_size: Annotated[Whole, Field(ge=1, le=1_000_000)]
    num_attention_heads: Annotated[Whole, Field(ge=1, le=1_000_000)]
    num_query_groups: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="KV heads; default all heads"
    )
    kv_channels: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="head size; default hidden/heads"
    )
    ffn_hidden_size: Count | None = Field(None, description="default 4h, or 8/3 h rounded to 64 with swiglu")
    swiglu: bool = Field(False, description="gated feed-forward: two input projections")
    vocab_size: Count
    make_vocab_size_divisible_by: Count = 128
    seq_length: Annotated[Whole, Field(ge=1, le=100_000_000)]
    max_position_embeddings: Count | None = None
    position_embedding_type: Literal["learned_absolute", "rope", "alibi", "none"] = "rope"
    rotary_base: Count = Field(10_000, description="base of the rotary embedding; launch files only")
    position_table_rows: Count | None = Field(
        None, description="rows of a learned position table; default max positions"
    )
    untie_embeddings_and_output_weights: bool = False
    normalization: Literal["LayerNorm", "RMSNorm"] = "LayerNorm"
    norm_bias: bool | None = Field(None, description="default: LayerNorm yes, RMSNorm no")
    norms_per_layer: Annotated[Whole, Field(ge=0, le=8)] = 2
    embedding_norm: bool = Field(False, description="a norm behind the embedding (BLOOM)")
    add_bias_linear: bool = Field(True, description="biases on all linear layers")
    add_qkv_bias: bool = Field(False, description="biases on the QKV projection only")
    add_attention_output_bias: bool = Field(False, description="a bias on the attention output projection only")
    add_mlp_bias: bool = Field(False, description="biases on the feed-forward block only")
    output_bias: bool = Field(False, description="a bias on the LM head")
    attention_sinks: bool = Field(False, description="one learned sink per head (gpt-oss)")
    qk_layernorm: bool = False
    qk_norm_per_head: bool = Field(True, description="the QK norm is one vector of head size; false: over all heads")
    window_size: Count | None = Field(None, description="sliding attention window in tokens")
    num_experts: Annotated[Whole, Field(ge=1, le=100_000)] | None = None
    moe_router_topk: Annotated[Whole, Field(ge=1, le=10_000)] = 2
    moe_ffn_hidden_size: Count | None = Field(None, description="width of one expert; default ffn_hidden_size")
    moe_shared_expert_intermediate_size: Count | None = Field(None, description="total width of shared experts")
    moe_shared_expert_gate: bool = False
    moe_router_bias: Literal["none", "expert", "linear"] = Field("none", description="expert: a correction per expert")
    moe_expert_bias: bool = Field(False, description="biases inside the experts")
    first_k_dense: Annotated[Whole, Field(ge=0, le=100_000)] = Field(0, description="leading layers without experts")
    moe_layer_freq: Annotated[Whole, Field(ge=1, le=100_000)] = Field(1, description="every n-th layer has experts")
    moe_router_num_groups: Count | None = Field(None, description="node-limited routing: expert groups")
    moe_router_group_topk: Count | None = Field(None, description="node-limited routing: groups a token may reach")
    moe_capacity_factor: Positive | None = Field(None, description="padded capacity of an expert over its mean load; default no padding")
    moe_load_variation: Annotated[Real, Field(ge=0, le=10, allow_inf_nan=False)] | None = Field(
        None, description="standard deviation of the tokens of an expert over their mean; 0 = forced balance; default 0.2, 0 with a capacity factor"
    )
    multi_latent_attention: bool = False
    q_lora_rank: Count | None = None
    kv_lora_rank: Count | None = None
    qk_head_dim: Count | None = None
    qk_pos_emb_head_dim: Count | None = None
    v_head_dim: Count | None = None
    mtp_num_layers: Annotated[Whole, Field(ge=0, le=64)] = 0
    training: TrainingSpec = TrainingSpec()
    search: SearchSpec = SearchSpec()
    description: str = ""
    source: str = ""

    @property
    def kv_heads(self) -> int:
        """KV heads: `num_query_groups`, else all heads."""
        return self.num_query_groups or self.num_attention_heads

    @property
    def head_dim(self) -> int:
        """Head size: `kv_channels`, else hidden / heads."""
        return self.kv_channels or self.hidden_size // self.num_attention_heads

    @property
    def ffn(self) -> int:
        """Width of the dense feed-forward block."""
        if self.ffn_hidden_size:
            return self.ffn_hidden_size
        return int(self.hidden_size * 8 / 3 / 64) * 64 if self.swiglu else 4 * self.hidden_size

    @property
    def expert_ffn(self) -> int:
        """Width of one expert."""
        return self.moe_ffn_hidden_size or self.ffn

    @property
    def load_variation(self) -> float:
        """Spread of expert loads: padded experts all do the same work."""
        if self.moe_load_variation is not None:
            return self.moe_load_variation
        return 0.0 if self.moe_capacity_factor else LOAD_VARIATION

    @model_validator(mode="after")
    def _consistent(self) -> ModelSpec:
        wrong = [*self._attention_problems(), *self._expert_problems()]
        if wrong:
            text = "; ".join(f"{key}: {message}" for key, message in wrong)
            raise PydanticCustomError("inconsistent", "{text}", {"text": text, "problems": wrong})
        return self

    def _attention_problems(self) -> list[tuple[str, str]]:
        wrong = []
        heads, groups = self.num_attention_heads, self.num_query_groups
        if self.kv_channels is None and not self.multi_latent_attention and self.hidden_size % heads:
            wrong.append(
                (
                    "hidden_size",
                    f"{self.hidden_size} is not a multiple of num_attention_heads {heads}; give kv_channels (the head size) if that is meant",
                )
            )
        if groups and heads % groups:
            wrong.append(
                ("num_query_groups", f"num_attention_heads {heads} is not a multiple of num_query_groups {groups}")
            )
        if self.multi_latent_attention:
            needed = ("kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")
            wrong += [(key, "is required with multi_latent_attention") for key in needed if getattr(self, key) is None]
        return wrong

    def _expert_problems(self) -> list[tuple[str, str]]:
        wrong = []
        if self.num_experts:
            if self.moe_router_topk > self.num_experts:
                wrong.append(("moe_router_topk", f"{self.moe_router_topk} exceeds num_experts {self.num_experts}"))
            if self.first_k_dense > self.num_layers:
                wrong.append(("first_k_dense", f"{self.first_k_dense} exceeds num_layers {self.num_layers}"))
            groups, reach = self.moe_router_num_groups, self.moe_router_group_topk
            if groups and self.num_experts % groups:
                wrong.append(("moe_router_num_groups", f"{groups} does not divide num_experts {self.num_experts}"))
            if reach and reach > (groups or 1):
                wrong.append(("moe_router_group_topk", f"{reach} exceeds moe_router_num_groups {groups or 1}"))
        return wrong
