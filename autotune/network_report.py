"""What networks cost and what they are worth: bills of materials, dollars, watts, failures, and with a model throughput.

One report prices every fabric with one set of prices. A fabric that cannot be built is an error when the user named it, and
a note when all fabrics were asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autotune.cluster_checks import gpu_counts, gpu_of, hb_sizes
from autotune.constants import GB, gbps_to_Bps, hb_rates, network_constants, nic_rates
from autotune.errors import AutotuneError, InputError, Problem
from autotune.specs import ClusterSpec, HbDomainSpec, ModelSpec, Range
from costmodels import fabrics, failures
from costmodels.fabrics import FabricInputs, Inventory, prices
from costmodels.goodput import DAY_S, straggler_factor
from costmodels.types import Network

if TYPE_CHECKING:
    from autotune.evaluate import Evaluation

# Without a plan the failure table needs a job: one replica, tensor groups in the domain, a tenth of the time on the network.
ASSUMED_JOB = failures.Job(data_parallel=1, domain_bound=True, network_share=0.1)


@dataclass
class FabricReport:
    """One fabric at one size: what it is built of, what it costs, and with a model what it delivers."""

    fabric: str
    bill: Inventory
    network: Network
    cost_usd: float
    power_W: float
    goodput: failures.Goodput
    classes: list[failures.FailureClass]
    straggler: float
    gpu_usd: float | None = None
    evaluation: Evaluation | None = None
    reason: str = ""  # why there is no plan
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens/s of the whole job while it runs."""
        return None if self.evaluation is None else self.evaluation.tokens_per_s_per_gpu * self.network.gpus

    @property
    def goodput_tokens_per_s(self) -> float | None:
        """Tokens/s over a long run: failures, spares and slow machines taken off."""
        rate = self.tokens_per_s
        return None if rate is None else rate * self.goodput.goodput / self.straggler

    @property
    def total_usd(self) -> float:
        """Network, and GPUs where their price is known."""
        return self.cost_usd + (self.gpu_usd or 0.0) * self.network.gpus

    def to_dict(self, with_failures: bool = False) -> dict[str, Any]:
        """JSON form. With a plan it also says iteration time, throughput and dollars per token/s."""
        bill, net = self.bill, self.network
        document: dict[str, Any] = {
            "fabric": self.fabric,
            "gpus": net.gpus,
            "hb_domain_size": net.hb_size,
            "any_to_any": bool(net.any_to_any),
            "tiers": bill.tiers,
            "networks": bill.networks,
            "switches": bill.switches,
            "switches_by_tier": list(bill.tier_switches),
            "switch_ports": bill.switch_ports,
            "optical_ports": bill.optical_ports,
            "transceivers": bill.transceivers,
            "links": bill.links,
            "inter_switch_links": bill.switch_links,
            "cost_usd": self.cost_usd,
            "cost_usd_per_gpu": self.cost_usd / net.gpus,
            "power_w": self.power_W,
            "max_gpus": bill.max_gpus,
            "leaf_gpus": net.leaf_gpus,
            "pod_gpus": net.pod_gpus,
            "nic_GBps": net.nic_Bps / GB,
            "pod_GBps": net.pod_Bps / GB,
            "core_GBps": net.core_Bps / GB,
            "goodput": self.goodput.goodput,
            "useful_fraction": self.goodput.useful_fraction,
            "in_service": self.goodput.in_service,
            "straggler_factor": self.straggler,
            "mtbf_hours": self.goodput.mtbf_s / 3600,
            "spare_gpus": self.goodput.spare_gpus,
            **self.extra,
        }
        if with_failures:
            document["failures"] = [_class_dict(c) for c in self.classes]
        if self.evaluation is not None:
            document |= self._throughput()
        elif self.reason:
            document |= {"plan": None, "iteration_time_s": None, "reason": self.reason}
        return document

    def _throughput(self) -> dict[str, Any]:
        assert self.evaluation is not None
        rate = self.goodput_tokens_per_s or math.nan
        return {
            "iteration_time_s": self.evaluation.iteration_time_s,
            "plan": self.evaluation.plan.to_dict(),
            "tokens_per_s": self.tokens_per_s,
            "goodput_tokens_per_s": self.goodput_tokens_per_s,
            "usd_per_tokens_per_s": self.total_usd / rate,
            "usd_includes_gpus": self.gpu_usd is not None,
        }


def _class_dict(c: failures.FailureClass) -> dict[str, Any]:
    return {
        "class": c.name,
        "per_day": c.per_day,
        "gpus_hit": c.gpus_hit,
        "stops_job": c.stops_job,
        "response": c.chosen.action,
        "loss": c.chosen.loss,
        "spare_gpus": c.chosen.spare_gpus,
        "note": c.chosen.note,
        "alternatives": [{"response": r.action, "loss": r.loss} for r in c.responses],
    }


def prices_of(cluster: ClusterSpec, name: str | None = None) -> prices.PriceSet:
    """The price set in force: the named one, else the cluster file's, else the default; then the file's own prices.

    >>> from autotune.load import load_cluster
    >>> prices_of(load_cluster("h100-rail-1024")).switch_port_usd
    694.0
    """
    own = cluster.prices
    try:
        base = prices.price_set(name or own.price_set or prices.DEFAULT_PRICES)
    except ValueError as e:
        raise InputError.of(str(e), key="prices.price_set") from None
    changes = {k: v for k in base._fields if (v := getattr(own, k, None)) is not None}
    return base._replace(**changes)


def fabric_names(cluster: ClusterSpec, compare: str | None) -> list[str]:
    """The fabrics of a `--compare` list: the cluster's own when there is none, every fabric for `all`."""
    if compare is None:
        return [cluster.network.fabric]
    if compare.strip() == "all":
        return fabrics.names()
    wanted = list(dict.fromkeys(n.strip() for n in compare.split(",") if n.strip()))
    problems = []
    for name in wanted:
        try:
            fabrics.get(name)
        except ValueError as e:
            problems.append(Problem(str(e), key="--compare"))
    if not wanted:
        problems.append(Problem("names no fabric", key="--compare"))
    if problems:
        raise InputError(problems)
    return wanted


def report(
    cluster: ClusterSpec,
    names: list[str],
    *,
    model: ModelSpec | None = None,
    price_name: str | None = None,
    gpu_usd: float | None = None,
    skip_impossible: bool = False,
) -> tuple[list[FabricReport], list[str]]:
    """Every fabric at every size the cluster file lists, and notes on those left out.

    InputError, all problems together, when a fabric cannot be built and `skip_impossible` is off. When no fabric at all
    has a plan for the model, the first one's error is raised.

    >>> rows, _ = report(ClusterSpec(name="t", gpu="H100-80GB-SXM", gpus=4096), ["rail-only", "rail-optimized"])
    >>> [(r.fabric, r.bill.switches) for r in rows]
    [('rail-only', 192), ('rail-optimized', 320)]
    """
    price = prices_of(cluster, price_name)
    if gpu_usd is None:
        gpu_usd = cluster.prices.gpu_usd or gpu_of(cluster).price_usd
    rows, problems = [], []
    for gpus in gpu_counts(cluster):
        for hb_size in hb_sizes(cluster, gpus):
            for name in names:
                try:
                    rows.append(_one(cluster, name, gpus, hb_size, price, gpu_usd))
                except InputError as e:
                    problems += [Problem(_named(name, p.message), p.file, p.line, p.key) for p in e.problems]
    if problems and not skip_impossible:
        raise InputError(problems)
    if model is not None:
        refused = [error for row in rows if (error := _add_plan(cluster, row, model))]
        if rows and len(refused) == len(rows):
            raise refused[0]
    return rows, [p.message for p in problems]


def _named(fabric: str, message: str) -> str:
    return message if message.startswith(f"{fabric} ") else f"{fabric}: {message}"


def _one(
    cluster: ClusterSpec, name: str, gpus: int, hb_size: int, price: prices.PriceSet, gpu_usd: float | None
) -> FabricReport:
    network = network_constants(cluster, gpus, hb_size, _single(hb_rates(cluster), GB), _nic_Bps(cluster), fabric=name)
    options = cluster.network.options if name == cluster.network.fabric else {}
    inputs = FabricInputs(
        gpus=gpus,
        hb_size=hb_size,
        hb_Bps=network.hb_Bps,
        nic_Bps=network.nic_Bps,
        radix=cluster.network.switch_radix,
        oversubscription=cluster.network.oversubscription,
        options=options,
    )
    kind = fabrics.get(name)
    try:
        bill = kind.inventory(inputs)
    except ValueError as e:
        raise InputError.of(str(e), key="network") from None
    row = FabricReport(
        fabric=name,
        bill=bill,
        network=network,
        cost_usd=prices.cost_usd(bill, price) if kind.priced else math.nan,
        power_W=prices.power_w(bill, price) if kind.priced else math.nan,
        goodput=failures.Goodput(1.0, 1.0, 1.0, math.inf, 0),
        classes=[],
        straggler=straggler_factor(cluster.failures.straggler_spread, gpus),
        gpu_usd=gpu_usd,
    )
    _set_failures(cluster, row, ASSUMED_JOB)
    return row


def _single(rates: list[float] | Range, unit_Bps: float) -> float:
    """One rate in bytes/s where the file gives several: the largest, as the network is bought for it."""
    return rates.max * unit_Bps if isinstance(rates, Range) else max(rates)


def _nic_Bps(cluster: ClusterSpec) -> float:
    return _single(nic_rates(cluster), gbps_to_Bps(1))


def _set_failures(cluster: ClusterSpec, row: FabricReport, job: failures.Job) -> None:
    net, bill, kind = row.network, row.bill, fabrics.get(row.fabric)
    spec = cluster.failures
    site = failures.Site(
        gpus=net.gpus,
        hb_size=net.hb_size,
        gpus_per_node=min(cluster.gpus_per_node or 8, net.hb_size),
        any_to_any=bool(net.any_to_any),
        rail_wired=kind.rail_wired,
        dual_homed=kind.dual_homed,
        optical=kind.optical,
        leaves=bill.tier_switches[0] if bill.tier_switches and not kind.optical else 0,
        nvswitches=0 if net.mesh or net.hb_size == 1 else math.ceil(net.hb_size / 4),
    )
    recovery = failures.Recovery(
        interruptions_per_gpu_day=spec.interruptions_per_gpu_day,
        checkpoint_s=spec.checkpoint_s,
        restart_s=spec.restart_s,
        repair_s=spec.repair_hours / 24 * DAY_S,
    )
    row.classes = failures.failure_classes(site, job, recovery)
    row.goodput = failures.expected_goodput(site, job, recovery)


def _add_plan(cluster: ClusterSpec, row: FabricReport, model: ModelSpec) -> AutotuneError | None:
    """Search the best plan on this fabric; a fabric without one keeps the reason, which is returned."""
    from autotune.search import SearchOptions, search

    if row.network.gpus % row.network.hb_size:
        row.reason = f"{row.network.gpus:,} GPUs are not whole HB domains of {row.network.hb_size}"
        return InputError.of(row.reason, key="gpus")
    try:
        result = search(cluster_on(cluster, row), model, SearchOptions(top=1, study=False))
    except AutotuneError as e:
        row.reason = e.message
        return e
    best = result.plans[0]
    row.evaluation = best
    plan, parts = best.plan, best.breakdown
    inner = plan.tensor_parallel * plan.context_parallel
    outside = parts.data_comm + parts.pipeline_comm
    outside += parts.tensor_comm if plan.tensor_parallel > row.network.hb_size else 0.0
    outside += parts.context_comm if inner > row.network.hb_size else 0.0
    outside += parts.expert_comm if plan.expert_parallel * plan.expert_tensor_parallel > row.network.hb_size else 0.0
    # Experts are spread over data-parallel ranks: only whole copies of all experts can be dropped.
    experts = plan.expert_parallel * plan.expert_tensor_parallel
    job = failures.Job(
        data_parallel=min(plan.data_parallel, plan.expert_data_parallel) if experts > 1 else plan.data_parallel,
        domain_bound=inner > 1 or experts > 1,
        network_share=outside / best.iteration_time_s,
        inner_gpus=max(inner, experts),
    )
    _set_failures(cluster, row, job)
    return None


def cluster_on(cluster: ClusterSpec, row: FabricReport) -> ClusterSpec:
    """The cluster with one fabric and size in place of its own; a fabric that fixes the HB domain brings it along."""
    net = row.network
    same = row.fabric == cluster.network.fabric
    nic = _nic_Bps(cluster) / gbps_to_Bps(1)
    network = cluster.network.model_copy(
        update={"fabric": row.fabric, "options": cluster.network.options if same else {}, "nic_Gbps": nic}
    )
    domain = HbDomainSpec(size=net.hb_size, bandwidth_GBps=net.hb_Bps / GB)
    return cluster.model_copy(update={"gpus": net.gpus, "network": network, "hb_domain": domain})


def break_even(rows: list[FabricReport]) -> list[dict[str, Any]]:
    """Against the cheapest fabric with a plan: is a dearer one worth its price?

    It is when the throughput it adds exceeds its share of the total bill. `breakeven_gpu_usd` is the GPU price above which that
    holds: dear GPUs are worth a dear network. None when the dearer fabric is not faster, so no GPU price makes it pay.
    """
    found = []
    for size in sorted({(r.network.gpus) for r in rows}):
        planned = [r for r in rows if r.network.gpus == size and r.goodput_tokens_per_s and math.isfinite(r.cost_usd)]
        if len(planned) < 2:
            continue
        base = min(planned, key=lambda r: (r.cost_usd, -(r.goodput_tokens_per_s or 0)))
        found += [_break_even(base, other) for other in planned if other is not base]
    return found


def _break_even(base: FabricReport, other: FabricReport) -> dict[str, Any]:
    slow, fast = base.goodput_tokens_per_s or 0.0, other.goodput_tokens_per_s or 0.0
    extra = other.cost_usd - base.cost_usd
    price = None
    if fast > slow:
        price = max(0.0, (other.cost_usd * slow - base.cost_usd * fast) / (base.network.gpus * (fast - slow)))
    worth = fast > slow if price is None or base.gpu_usd is None else base.gpu_usd >= price
    return {
        "fabric": other.fabric,
        "against": base.fabric,
        "gpus": base.network.gpus,
        "hb_domain_size": [other.network.hb_size, base.network.hb_size],
        "throughput_ratio": fast / slow,
        "extra_cost_usd": extra,
        "breakeven_gpu_usd": price,
        "worth_it": worth if base.gpu_usd is not None or price is None else None,
    }
