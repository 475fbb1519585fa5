"""Co-design: a study whose trials are hardware settings, each worth its exact optimum over all plans."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from autotune.constants import GB, gbps_to_Bps
from autotune.errors import InfeasibleError, InputError
from autotune.evaluate import Evaluation, evaluate
from autotune.plan import Plan
from autotune.progress import Progress
from autotune.search import SearchOptions, SearchResult, evaluations, inputs_of, search_report, signature, solve_setting
from autotune.setting import AXES, Setting
from autotune.specs import ClusterSpec, ModelSpec, Range
from searchspaces.rules import N_REASONS

OBJECTIVES = ("time", "cost", "power", "usd_per_token")
MAX_GRID = 512  # settings enumerated without being asked; above this, and for continuous axes, settings are sampled
DEFAULT_SAMPLES = 64
WORST = 1e30
REFERENCE_GBPS = 400.0


def network_bill(cluster: ClusterSpec, setting: Setting) -> tuple[float, float]:
    """(dollars, watts) of a setting's scale-out network, in the cluster's price set.

    Price sets are for 400 Gb/s ports; other NIC rates cost and draw in proportion. NVLink is part of the GPUs' price.
    """
    from autotune.network_report import prices_of
    from costmodels import fabrics
    from costmodels.fabrics import prices
    from costmodels.fabrics.base import FabricInputs

    inputs = FabricInputs(
        gpus=setting.gpus, hb_size=setting.hb_domain_size, hb_Bps=setting.hb_bandwidth_GBps * GB,
        nic_Bps=gbps_to_Bps(setting.nic_Gbps), radix=cluster.network.switch_radix,
        oversubscription=cluster.network.oversubscription, options=cluster.network.options,
    )  # fmt: skip
    try:
        bill = fabrics.get(setting.fabric).inventory(inputs)
    except ValueError as e:
        raise InputError.of(str(e), key="network") from None
    price = prices_of(cluster)
    share = setting.nic_Gbps / REFERENCE_GBPS
    return share * float(prices.cost_usd(bill, price)), share * float(prices.power_w(bill, price))


def objective_values(cluster: ClusterSpec, setting: Setting, time_s: float, objectives: tuple[str, ...], tokens: float) -> list[float]:
    """Values to minimise for one setting: seconds, network dollars, network watts, or dollars per token rate."""
    if objectives == ("time",):
        return [time_s]
    usd, watts = network_bill(cluster, setting)
    found = {"time": time_s, "cost": usd, "power": watts, "usd_per_token": usd * time_s / tokens}
    return [found[o] for o in objectives]


def search_settings(
    cluster: ClusterSpec, model: ModelSpec, axes: dict[str, Any], settings: list[Setting] | None, options: SearchOptions
) -> SearchResult:
    """Search hardware settings: enumerated and proved optimal when few, sampled when many or continuous."""
    unknown = [o for o in options.objectives if o not in OBJECTIVES]
    if unknown:
        raise InputError.of(f"unknown objective '{unknown[0]}'; known: {', '.join(OBJECTIVES)}", key="--objective")
    from autotune import study

    enumerate_all = settings is not None and len(settings) <= (options.trials or MAX_GRID)
    space = _space(axes, settings if enumerate_all else None)
    if enumerate_all and settings is not None:
        sampler: Any = study.QueueSampler([], space)
    else:
        sampler = study.make_sampler(options.sampler, options.seed, len(options.objectives))
    run = study.Run(
        signature(cluster, model, options, "settings"), list(options.objectives), sampler, options.storage, options.study_name, options.resume
    )
    start, cpu = time.perf_counter(), time.process_time()
    search = _Settings(cluster, model, options)
    n = len(settings) if enumerate_all and settings is not None else options.trials or DEFAULT_SAMPLES
    interrupted = False
    with Progress("settings", n) as bar:
        try:
            _run(run, search, space, sampler, settings if enumerate_all else None, n, bar)
        except KeyboardInterrupt:
            interrupted = True
    elapsed = time.perf_counter() - start
    return search.result(run, enumerate_all, interrupted, elapsed, time.process_time() - cpu)


def _run(run: Any, search: _Settings, space: Any, sampler: Any, settings: list[Setting] | None, n: int, bar: Progress) -> None:
    done = run.finished()
    search.recall(list(done.values()))
    if settings is None:
        left = n - run.trial_count()
        while left > 0:
            size = min(8, left)
            run.batch(size, space, search.evaluate)
            left -= size
            bar.update(n - left, search.best_text())
        return
    known = {tuple(r["setting"][a] for a in AXES) for r in done.values()}
    todo = [s for s in settings if tuple(getattr(s, a) for a in AXES) not in known]
    for i in range(0, len(todo), 4):
        part = todo[i : i + 4]
        sampler.queue.extend({a: getattr(s, a) for a in AXES} for s in part)
        run.batch(len(part), space, search.evaluate)
        bar.update(n - len(todo) + i + len(part), search.best_text())


def _space(axes: dict[str, Any], settings: list[Setting] | None) -> dict[str, Any]:
    from autotune import study

    space = {}
    for name in AXES:
        values = axes[name]
        if settings is not None:
            values = sorted({getattr(s, name) for s in settings})
        space[name] = study.continuous(values.min, values.max, values.step) if isinstance(values, Range) else study.categorical(values)
    return space


class _Settings:
    """Scores settings and keeps what the result needs."""

    def __init__(self, cluster: ClusterSpec, model: ModelSpec, options: SearchOptions) -> None:
        self.cluster, self.model, self.options = cluster, model, options
        self.counts = np.zeros(N_REASONS, dtype=np.int64)
        self.size = 0
        self.found: list[tuple[Setting, Evaluation]] = []  # the best plan of each setting that has one
        self.rows: list[dict[str, Any]] = []
        self.misses: list[str] = []

    def best_text(self) -> str:
        times = [r["iteration_time_s"] for r in self.rows if r["iteration_time_s"] is not None]
        return f"best {min(times):.4g} s" if times else "nothing fits yet"

    def recall(self, results: list[dict[str, Any]]) -> None:
        for r in results:
            self.rows.append(r)
            self.size += r["points"]
            self.counts += np.array(r["counts"])
            if r["plan"]:
                setting = Setting(**r["setting"])
                best = evaluate(self._cluster_at(setting), self.model, Plan.from_dict(r["plan"]), self.options.target)
                self.found.append((setting, best))

    def evaluate(self, params: list[dict[str, Any]]) -> list[tuple[list[float], dict[str, float], dict[str, Any]]]:
        return [self._one(Setting(**p)) for p in params]

    def _cluster_at(self, setting: Setting) -> ClusterSpec:
        hb = self.cluster.hb_domain.model_copy(update={"bandwidth_GBps": setting.hb_bandwidth_GBps, "size": setting.hb_domain_size})
        return self.cluster.model_copy(update={"hb_domain": hb, "gpus": setting.gpus})

    def _one(self, setting: Setting) -> tuple[list[float], dict[str, float], dict[str, Any]]:
        objectives = self.options.objectives
        shown = {a: getattr(setting, a) for a in AXES}
        row: dict[str, Any] = {"setting": shown, "iteration_time_s": None, "plan": None, "points": 0, "counts": [0] * N_REASONS}
        self.rows.append(row)
        if setting.gpus % setting.hb_domain_size:
            return [WORST] * len(objectives), {"hb_divides_gpus": 1.0}, row
        try:
            account, cells, _ = solve_setting(self.cluster, self.model, setting, replace(self.options, top=1, trials=None, study=False))
        except InputError as e:
            row["refused"] = e.message
            return [WORST] * len(objectives), {"fabric": 1.0}, row
        row["points"], row["counts"] = cells.lattice.size, [int(c) for c in account.counts]
        self.size += cells.lattice.size
        self.counts += account.counts
        if not account.best:
            return [WORST] * len(objectives), {"hbm_bytes_over": min(account.miss[0], WORST)}, row
        best = evaluations(self._cluster_at(setting), self.model, setting, account.best, cells, self.options.target)[0]
        self.found.append((setting, best))
        row["iteration_time_s"], row["plan"] = best.iteration_time_s, best.plan.to_dict()
        row["tokens_per_s_per_gpu"], row["mfu"] = best.tokens_per_s_per_gpu, best.mfu
        tokens = setting.global_batch_size * self.model.seq_length
        values = objective_values(self._cluster_at(setting), setting, best.iteration_time_s, objectives, tokens)
        row["objectives"] = dict(zip(objectives, values, strict=True))
        return values, {}, row

    def result(self, run: Any, enumerated: bool, interrupted: bool, elapsed: float, cpu: float) -> SearchResult:
        from autotune.search import Account

        account = Account(counts=self.counts, trials=len(self.rows))
        report = search_report(account, self.size, enumerated and not interrupted, interrupted, elapsed, cpu, elapsed)
        report["settings"] = len(self.rows)
        if not enumerated and not interrupted:
            report["optimality"] = f"best of {len(self.rows)} sampled hardware settings, each exact over its plans"
        if not self.found and not interrupted:
            raise InfeasibleError("no hardware setting has a plan that is legal and fits", search=report)
        # Batches and GPU counts differ, so settings are compared by what one GPU gets done in a second.
        self.found.sort(key=lambda x: -x[1].tokens_per_s_per_gpu)
        shown = self.found[: self.options.top]
        rows = [{k: v for k, v in r.items() if k not in ("counts",)} for r in self.rows]
        front = [{k: v for k, v in r.items() if k != "counts"} for r in run.pareto()] if len(self.options.objectives) > 1 else []
        return SearchResult(
            [e for _, e in shown], report, inputs_of(self.cluster, self.model, self.options), self.options.seed, interrupted,
            rows, front, [s for s, _ in shown],
        )  # fmt: skip
