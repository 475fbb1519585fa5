"""The search: exact over the lattice of plans on fixed hardware, a study of hardware settings where the files leave axes open."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import autotune
from autotune.cells import CellResult, CellSearch
from autotune.errors import InfeasibleError
from autotune.evaluate import Evaluation, evaluate
from autotune.limits import lattice_limits
from autotune.plan_points import plan_of
from autotune.progress import Progress
from autotune.setting import Setting, grid, hardware, is_single, setting_axes, target_rules
from autotune.specs import ClusterSpec, ModelSpec
from searchspaces.kernel import Hardware
from searchspaces.lattice import Lattice
from searchspaces.rules import BOUND, N_REASONS, OK, reason_name

BATCH_CELLS = 32  # cells per ask/tell batch: enough for all threads, few enough to stop early


@dataclass(frozen=True)
class SearchOptions:
    """How to search. `trials` bounds cells (or hardware settings); None = until proved optimal."""

    target: str = "megatron"
    top: int = 10
    objectives: tuple[str, ...] = ("time",)
    trials: int | None = None
    storage: str | None = None
    study_name: str | None = None
    resume: bool = False
    jobs: int = 0
    backend: str = "threading"
    seed: int = 0
    sampler: str = "auto"
    study: bool = True  # False inside other studies and sweeps, whose trials are whole settings


@dataclass
class SearchResult:
    """Plans, best first, and the account of the search. `interrupted` when Ctrl-C cut it short."""

    plans: list[Evaluation]
    report: dict[str, Any]
    inputs: dict[str, Any]
    seed: int
    interrupted: bool = False
    settings: list[dict[str, Any]] = field(default_factory=list)  # co-design: one entry per hardware setting tried
    pareto: list[dict[str, Any]] = field(default_factory=list)
    plan_settings: list[Setting] = field(default_factory=list)  # co-design: the setting of each plan
    misses: list[Evaluation] = field(default_factory=list)  # plans that came closest to fitting
    answers: dict[str, Any] = field(default_factory=dict)  # what limits the best plan, the rule of thumb, what to change

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `search`."""
        document = {
            "plans": [p.to_dict() for p in self.plans],
            "search": self.report,
            "inputs": self.inputs,
            "versions": versions(),
            "seed": self.seed,
        }
        if self.answers:
            document["answers"] = self.answers
        if self.settings:
            document["settings"] = self.settings
        if self.pareto:
            document["pareto"] = self.pareto
        if self.interrupted:
            document["interrupted"] = True
        return document


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    from importlib.metadata import version

    return {"autotune": autotune.__version__, **{p: version(p) for p in ("numpy", "numba", "optuna")}}


@dataclass
class Account:
    """Counts of a search, merged over cells."""

    counts: np.ndarray = field(default_factory=lambda: np.zeros(N_REASONS, dtype=np.int64))
    best: list[tuple[float, int, int]] = field(default_factory=list)  # (seconds, cell, index), sorted, at most `top`
    miss: tuple[float, int, int] = (float("inf"), -1, -1)  # (bytes over, cell, index)
    misses: list[tuple[float, int, int]] = field(default_factory=list)  # the closest of every cell, sorted, at most `top`
    trials: int = 0

    def add(self, cell: int, result: CellResult, top: int) -> None:
        """Merge one cell."""
        self.counts += np.array(result.counts)
        if result.best_index >= 0:
            self.best = sorted([*self.best, (result.time_s, cell, result.best_index)])[:top]
        if result.over_index >= 0:
            self.misses = sorted([*self.misses, (result.over_bytes, cell, result.over_index)])[:top]
            self.miss = self.misses[0]

    def threshold(self, top: int) -> float:
        """Iteration time that a cell must beat to matter."""
        return self.best[top - 1][0] if len(self.best) >= top else float("inf")


def signature(cluster: ClusterSpec, model: ModelSpec, options: SearchOptions, what: str) -> str:
    """Fingerprint of everything that a stored study depends on: inputs, constants behind their names, and the model itself."""
    from autotune.cluster_checks import gpu_of
    from autotune.constants import gpu_constants, stack_constants
    from autotune.setting import calibration_of
    from costmodels._jit import model_hash

    fitted = calibration_of(cluster)
    constants = [gpu_constants(gpu_of(cluster), model.training.precision, fitted), stack_constants(cluster.stack, fitted)]
    asked = [cluster.model_dump(mode="json"), model.model_dump(mode="json"), options.target, what, options.objectives]
    return hashlib.sha256(json.dumps([*asked, *constants, autotune.__version__, model_hash()]).encode()).hexdigest()


def lattice_of(hw: Hardware, model: ModelSpec, setting: Setting) -> Lattice:
    """All plans of one setting, within the model file's limits."""
    from autotune.constants import model_constants

    return Lattice.build(model_constants(model), setting.gpus, setting.global_batch_size, lattice_limits(model))


def walk_cells(cells: CellSearch, options: SearchOptions, account: Account, scorer: Any, bar: Progress | None = None) -> bool:
    """Score cells best bound first until the bound proves the rest worse; True when complete (proved optimal)."""
    order = [int(n) for n in cells.order()]
    legal = [n for n in order if np.isfinite(cells.bounds[n])]
    illegal = order[len(legal) :]
    if illegal:
        for number, result in zip(illegal, cells.score(illegal, options.jobs, options.backend), strict=True):
            account.add(number, result, options.top)
    position = 0
    limit = len(legal) if options.trials is None else min(options.trials, len(legal))
    while position < limit:
        if cells.bounds[legal[position]] >= account.threshold(options.top):
            break
        batch = legal[position : min(position + BATCH_CELLS, limit)]
        for number, result in zip(batch, scorer(batch), strict=True):
            account.add(number, result, options.top)
        position += len(batch)
        account.trials = position
        if bar:
            best = f"best {account.best[0][0]:.4g} s" if account.best else "nothing fits yet"
            bar.update((len(illegal) + position) * cells.lattice.inner_size, best)
    rest = len(legal) - position
    proved = rest == 0 or cells.bounds[legal[position]] >= account.threshold(options.top)
    account.counts[BOUND] += rest * cells.lattice.inner_size
    return proved


def solve_setting(cluster: ClusterSpec, model: ModelSpec, setting: Setting, options: SearchOptions) -> tuple[Account, CellSearch, bool]:
    """The exact optimum of one hardware setting, without a study of its own."""
    hw = hardware(cluster, model, setting, target_rules(options.target))
    cells = CellSearch.prepare(hw, lattice_of(hw, model, setting), options.jobs)
    account = Account()
    proved = walk_cells(cells, options, account, lambda batch: cells.score(batch, options.jobs, options.backend))
    return account, cells, proved


def evaluations(
    cluster: ClusterSpec, model: ModelSpec, setting: Setting, found: list[tuple[float, int, int]], cells: CellSearch, target: str
) -> list[Evaluation]:
    """Plans of a searched setting, given as (score, cell, index), priced in full."""
    plans = []
    for _, number, index in found:
        point = cells.lattice.point(cells.cell(number), index)
        plan = plan_of(point, model.num_layers, setting, cluster.stack)
        plans.append(evaluate(cluster, model, plan, target))
    return plans


def search(cluster: ClusterSpec, model: ModelSpec, options: SearchOptions | None = None) -> SearchResult:
    """Find the best plans. InfeasibleError (exit code 3) when nothing is legal and fits."""
    options = options or SearchOptions()
    axes = setting_axes(cluster, model)
    if is_single(axes) and options.objectives == ("time",):
        return _search_one(cluster, model, Setting(**{k: v[0] for k, v in axes.items()}), options)
    from autotune.codesign import search_settings

    return search_settings(cluster, model, axes, grid(axes), options)


def _search_one(cluster: ClusterSpec, model: ModelSpec, setting: Setting, options: SearchOptions) -> SearchResult:
    start, cpu = time.perf_counter(), time.process_time()
    hw = hardware(cluster, model, setting, target_rules(options.target))
    lattice = lattice_of(hw, model, setting)
    cells = CellSearch.prepare(hw, lattice, options.jobs)
    account = Account()
    interrupted, proved = False, False
    kernel_s = [0.0]

    def kernel(batch: list[int]) -> list[CellResult]:
        t = time.perf_counter()
        results = cells.score(batch, options.jobs, options.backend)
        kernel_s[0] += time.perf_counter() - t
        return results

    with Progress("search", lattice.size, "points") as bar:
        try:
            scorer = _study_scorer(cluster, model, options, cells, kernel) if options.study and lattice.cells else kernel
            proved = walk_cells(cells, options, account, scorer, bar)
        except KeyboardInterrupt:
            interrupted = True
            account.counts[BOUND] += lattice.size - int(account.counts.sum())
    elapsed = time.perf_counter() - start
    report = search_report(account, lattice.size, proved, interrupted, elapsed, time.process_time() - cpu, kernel_s[0])
    if not account.best and not interrupted:
        from autotune.infeasible import explain_infeasible

        raise explain_infeasible(cluster, model, setting, account, cells, options, report)
    plans = evaluations(cluster, model, setting, account.best, cells, options.target)
    answers = answers_for(cluster, model, plans, options.target) if options.study and plans else {}
    misses = evaluations(cluster, model, setting, account.misses, cells, options.target) if options.study else []
    return SearchResult(plans, report, inputs_of(cluster, model, options), options.seed, interrupted, answers=answers, misses=misses)


def answers_for(cluster: ClusterSpec, model: ModelSpec, plans: list[Evaluation], target: str) -> dict[str, Any]:
    """What people ask next: what limits the best plan, another shape, the rule-of-thumb plan, the best single changes."""
    from autotune import answers

    best = plans[0]
    found: dict[str, Any] = {"limits": answers.limits(best), "changes": answers.what_to_change(cluster, model, best, target)[:5]}
    other = answers.different_shape(plans)
    if other is not None:
        found["different_shape"] = {"id": other.plan.id, "text": answers.shape(other.plan), "time_ratio": other.iteration_time_s / best.iteration_time_s}
    thumb = answers.rule_of_thumb_plan(cluster, model, target)
    if thumb is not None:
        e = evaluate(cluster, model, thumb, target, rail=False)
        found["rule_of_thumb"] = {
            "plan": thumb.to_dict(), "text": answers.shape(thumb), "fits": e.fits, "time_ratio": e.iteration_time_s / best.iteration_time_s
        }  # fmt: skip
    return found


def _study_scorer(cluster: ClusterSpec, model: ModelSpec, options: SearchOptions, cells: CellSearch, kernel: Any) -> Any:
    from autotune import study

    names = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
    space = {name: study.categorical(sorted({c[i] for c in cells.lattice.cells})) for i, name in enumerate(names)}
    number_of = {tuple(c): i for i, c in enumerate(cells.lattice.cells)}
    sampler = study.QueueSampler([], space)
    run = study.Run(
        signature(cluster, model, options, "cells"), ["iteration_time_s"], sampler, options.storage, options.study_name, options.resume
    )
    done = {key: CellResult(**r) for key, r in run.finished().items()}

    def params_of(number: int) -> dict[str, int]:
        return dict(zip(names, (int(x) for x in cells.cell(number)), strict=True))

    def evaluate_batch(params: list[dict[str, Any]]) -> list[tuple[list[float], dict[str, float], dict[str, Any]]]:
        results = kernel([number_of[tuple(p[n] for n in names)] for p in params])
        outcomes = []
        for r in results:
            constraints = {} if r.best_index >= 0 else {"hbm_bytes_over": r.over_bytes if r.over_index >= 0 else 1e30}
            outcomes.append(([r.time_s if r.best_index >= 0 else 1e30], constraints, _finite(r)))
        return outcomes

    def scorer(batch: list[int]) -> list[CellResult]:
        fresh = [n for n in batch if json.dumps(params_of(n), sort_keys=True) not in done]
        sampler.queue.extend(params_of(n) for n in fresh)
        for n, r in zip(fresh, run.batch(len(fresh), space, evaluate_batch), strict=True):
            done[json.dumps(params_of(n), sort_keys=True)] = CellResult(**{**r, "counts": tuple(r["counts"])})
        found = [done[json.dumps(params_of(n), sort_keys=True)] for n in batch]
        return [_from_stored(r) for r in found]

    return scorer


def _finite(r: CellResult) -> dict[str, Any]:
    # JSON storages have no infinities: an index of -1 says that the number before it means nothing.
    return {
        **r._asdict(),
        "counts": list(r.counts),
        "time_s": r.time_s if r.best_index >= 0 else -1.0,
        "over_bytes": r.over_bytes if r.over_index >= 0 else -1.0,
    }


def _from_stored(r: CellResult) -> CellResult:
    return r._replace(
        time_s=r.time_s if r.best_index >= 0 else float("inf"),
        over_bytes=r.over_bytes if r.over_index >= 0 else float("inf"),
        counts=tuple(r.counts),
    )


def search_report(
    account: Account, size: int, proved: bool, interrupted: bool, elapsed_s: float, cpu_s: float, kernel_s: float
) -> dict[str, Any]:
    """The `search` part of the JSON: every point is scored or counted under the reason it was not."""
    scored = int(account.counts[OK])
    rejected = {reason_name(i): int(n) for i, n in enumerate(account.counts) if i != OK and n}
    weighed = size - rejected.get("bound", 0)
    return {
        "points_total": size,
        "points_scored": scored,
        "points_feasible": scored,
        "rejected": rejected,
        "exhaustive": proved,
        "optimality": f"proved optimal over {size:,} points" if proved else "interrupted" if interrupted else f"best of {account.trials} cells",
        "trials": account.trials,
        "elapsed_s": elapsed_s,
        "cpu_s": cpu_s,
        "kernel_s": kernel_s,
        "points_per_s": weighed / elapsed_s if elapsed_s > 0 else 0.0,
    }


def inputs_of(cluster: ClusterSpec, model: ModelSpec, options: SearchOptions) -> dict[str, Any]:
    """What was asked, as given, and hashes that tell a result copied to another cluster or model."""
    from autotune.origin import fingerprint

    return {
        **fingerprint(cluster, model),
        "cluster": cluster.model_dump(mode="json", exclude_defaults=True),
        "model": model.model_dump(mode="json", exclude_defaults=True),
        "target": options.target,
        "objectives": list(options.objectives),
        "trials": options.trials,
    }


def feasible_exists(cluster: ClusterSpec, model: ModelSpec, setting: Setting, options: SearchOptions) -> bool:
    """Whether any plan fits in a setting."""
    try:
        account, _, _ = solve_setting(cluster, model, setting, replace(options, top=1, trials=None))
    except InfeasibleError:
        return False
    return bool(account.best)
