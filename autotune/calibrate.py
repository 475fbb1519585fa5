"""Fit the few efficiency constants of one cluster from its owner's measurements.

Step times, nccl-tests logs and operator tables enter one bounded, robust fit whose priors are the shipped values. A constant
the data cannot tell from its prior is left out of the result and named.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from autotune.calibration.gpu_table import FORMAT, GpuTable, parse_gpu_table
from autotune.calibration.nccl import Collective, looks_like_nccl, parse_nccl
from autotune.calibration.residuals import (
    Model,
    bandwidths,
    collective_residuals,
    gpu_spec,
    launch_residuals,
    step_time_residuals,
    table_residuals,
)
from autotune.errors import InputError
from autotune.specs import Calibration, ClusterSpec
from autotune.textfile import read_text
from autotune.validate.fit import Constant, Fit, fit
from autotune.validate.mapping import Scenario, Unscorable, scenarios
from autotune.validate.rows import Row, read_rows
from autotune.validate.runner import Prediction, choose
from autotune.validate.tunable import shipped_stack
from costmodels.types import Stack

# sigma of the prior, limits. Laboratories differ by 15 % in matrix rates, fabrics by much more.
ROOM: dict[str, tuple[float, float, float]] = {
    "gemm_efficiency": (0.08, 0.3, 0.98),
    "hbm_efficiency": (0.08, 0.4, 0.98),
    "attention_forward_efficiency": (0.08, 0.1, 0.8),
    "attention_backward_efficiency": (0.08, 0.1, 0.8),
    "nvlink_efficiency": (0.10, 0.2, 0.98),
    "nic_efficiency": (0.15, 0.1, 0.98),
    "launch_us": (1000.0, 0.0, 10_000.0),
    "iteration_overhead_s": (0.05, 0.0, 5.0),
}
WORTH = 2.0  # a further constant must lower the cost (misfit plus distance from the priors) by so much
LAUNCH_WEIGHT = 0.05  # what a kernel's launch says of a layer's is rough
OPERATOR_WEIGHT = 0.3  # an operator timing says less of a whole step than a step time does


@dataclass(frozen=True)
class Measurements:
    """What the files held."""

    rows: list[Row] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    tables: list[GpuTable] = field(default_factory=list)


@dataclass(frozen=True)
class Calibrated:
    """The outcome. `constants` maps each name to shipped, fitted, error and whether it was identified."""

    calibration: Calibration
    constants: dict[str, dict[str, Any]]
    before: dict[str, float]
    after: dict[str, float]
    used: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        values = self.calibration.model_dump(exclude_none=True)
        return {"calibration": values, "constants": self.constants, "before": self.before, "after": self.after, "used": self.used}


def read_measurements(paths: Sequence[str | Path]) -> Measurements:
    """Sort files by what they hold: a measurements CSV, an nccl-tests log, or a table of `scripts/measure_gpu.py`."""
    found = Measurements()
    for path in paths:
        text = read_text(path)
        if looks_like_nccl(text):
            found.collectives.extend(parse_nccl(text, str(path)))
        elif text.lstrip().startswith("{"):
            found.tables.append(parse_gpu_table(text, str(path)))
        elif "," in text.splitlines()[0] if text.strip() else False:
            found.rows.extend(read_rows(path))
        else:
            raise InputError.of(f'is neither a measurements CSV, an nccl-tests log nor a "{FORMAT}" file', str(path))
    return found


def calibrate(data: Measurements, cluster: ClusterSpec | None = None, stack_of: Callable[[str], Stack] = shipped_stack) -> Calibrated:
    """Fit the constants of `cluster`, or of the machine the rows name.

    InputError when nothing can be used, when rows mix machines, or when the data identify no constant.
    """
    readings = readings_of(data.rows, cluster, stack_of)
    target = cluster or (readings[0][1].cluster if readings else None)
    if target is None:
        why = _unused(data.rows, cluster, stack_of)
        raise InputError.of(f"give --cluster: without usable step times the machine is not known{why}")
    models = _models(data, readings, target, stack_of)
    shipped = shipped_constants(target, stack_of)
    constants = [Constant(k, shipped[k], *ROOM[k]) for k in ROOM if _relevant(k, data, readings)]
    final = stepwise(constants, models)
    if not final.values:
        raise InputError.of("the data cannot identify any constant: they are too few, or agree with the shipped values whatever they are")
    values = {k: round(v, 6) for k, v in final.values.items()}
    note = f"autotune calibrate {datetime.date.today().isoformat()}: {len(readings)} step times, {_operators(data)} operator timings"
    report = {
        c.name: {
            "shipped": c.prior, "fitted": values.get(c.name), "error": final.errors.get(c.name, c.sigma), "identified": c.name in values
        }
        for c in constants
    }  # fmt: skip
    return Calibrated(
        Calibration(**values, notes=note), report, _errors(readings, {}, stack_of), _errors(readings, values, stack_of),
        {"step_times": len(readings), "collectives": len(data.collectives), "operators": _operators(data)},
    )  # fmt: skip


def stepwise(constants: Sequence[Constant], models: Sequence[tuple[Model, float]]) -> Fit:
    """Add one constant at a time, the one that lowers misfit plus distance from the priors most, while the data determine all that are in.

    Constants that act alike (matrix rate and memory rate in a large layer) cannot be told apart from step times alone; this
    gives the effect to the one that explains most and leaves the others where they were.
    """
    kept: list[Constant] = []
    best = _fit([], models)
    while True:
        trials = [(c, _fit([*kept, c], models)) for c in constants if c not in kept]
        good = [(c, f) for c, f in trials if len(f.identified) == len(kept) + 1]
        if not good:
            return best
        added, found = min(good, key=lambda t: t[1].cost)
        if kept and best.cost - found.cost < WORTH:
            return best
        kept.append(added)
        best = found


def readings_of(rows: Sequence[Row], cluster: ClusterSpec | None, stack_of: Callable[[str], Stack]) -> list[tuple[Row, Scenario]]:
    """Each row with a step time and the reading the model would pick; all on one machine."""
    if cluster and any(row.time_s for row in rows):
        _one_rate(cluster)
    found = []
    for row in rows:
        try:
            found.append((row, _reading(row, cluster, stack_of)))
        except (Unscorable, InputError):
            continue  # `_unused` says why, where none is left
    machines = sorted({f"{s.cluster.name} ({gpu_spec(s.cluster).name})" for _, s in found})
    if len(machines) > 1:
        raise InputError.of(f"rows of more than one machine: {', '.join(machines)}; calibrate one at a time")
    return found


def _reading(row: Row, cluster: ClusterSpec | None, stack_of: Callable[[str], Stack]) -> Scenario:
    """The reading of a row that the model would pick; Unscorable or InputError with the reason where there is none."""
    from autotune.validate.compiled import prepare, price

    if not row.time_s:
        raise Unscorable("no step time")
    priced = []
    for s in (on_cluster(s, cluster) if cluster else s for s in scenarios(row)):
        p = prepare(s)
        x = price(p.model, p.gpu, p.net, stack_of(p.stack), p.point)
        if not (math.isfinite(x.time_s) and x.time_s > 0):
            continue
        peak = x.peak_bytes + x.reserve_bytes
        priced.append((s, Prediction(x.time_s, (peak,), (x.reserve_bytes,), peak <= p.gpu.memory_bytes, "", p.gpu.memory_bytes)))
    if not priced:
        raise Unscorable("cannot be priced")
    return choose(priced)[0]


def _unused(rows: Sequence[Row], cluster: ClusterSpec | None, stack_of: Callable[[str], Stack], most: int = 3) -> str:
    """Why the first rows give no reading, as the end of a message; empty without rows."""
    reasons = []
    for row in rows[:most]:
        try:
            _reading(row, cluster, stack_of)
        except (Unscorable, InputError) as e:
            reasons.append(f"row {row.id[:60]}: {e}")
    return f" ({'; '.join(reasons)})" if reasons else ""


def _one_rate(cluster: ClusterSpec) -> None:
    """InputError when the cluster lists several bandwidths: the machine that was measured has one."""
    from autotune.constants import hb_rates, nic_rates
    from autotune.specs import Range

    for key, rates in (("hb_domain.bandwidth_GBps", hb_rates(cluster)), ("network.nic_Gbps", nic_rates(cluster))):
        if isinstance(rates, Range) or len(rates) > 1:
            raise InputError.of("a cluster to calibrate has one bandwidth, not several", key=key)


def on_cluster(scenario: Scenario, cluster: ClusterSpec) -> Scenario:
    """The scenario on the user's own cluster description instead of the published one."""
    from autotune.constants import GB

    size = cluster.hb_domain.size or gpu_spec(cluster).scale_up_domain
    size = size if isinstance(size, int) else size[0]
    plan = dataclasses.replace(
        scenario.plan, hb_domain_size=min(size, scenario.plan.gpus), nic_Gbps=bandwidths(cluster)[1] * 8 / GB, fabric=cluster.network.fabric, stack=cluster.stack
    )
    domain = cluster.hb_domain.model_copy(update={"size": plan.hb_domain_size})
    changed = cluster.model_copy(update={"gpu": gpu_spec(cluster), "gpus": plan.gpus, "hb_domain": domain})
    return dataclasses.replace(scenario, cluster=changed, plan=plan)


def shipped_constants(cluster: ClusterSpec, stack_of: Callable[[str], Stack] = shipped_stack) -> dict[str, float]:
    """The values a cluster has without a calibration."""
    from autotune.constants import GB, hb_rates, network_constants, nic_rates
    from autotune.specs import Range

    spec = gpu_spec(cluster)
    hb, nic = hb_rates(cluster), nic_rates(cluster)
    hb_Bps = hb.max * GB if isinstance(hb, Range) else hb[0]
    nic_Bps = nic.max * GB / 8 if isinstance(nic, Range) else nic[0]
    plain = cluster.model_copy(update={"calibration": None})
    net = network_constants(plain, 2 * spec.scale_up_domain, spec.scale_up_domain, hb_Bps, nic_Bps)
    stack = stack_of(cluster.stack)
    return {
        "gemm_efficiency": spec.gemm_efficiency,
        "hbm_efficiency": spec.hbm_efficiency,
        "attention_forward_efficiency": spec.attention_forward_efficiency,
        "attention_backward_efficiency": spec.attention_backward_efficiency,
        "nvlink_efficiency": spec.nvlink_efficiency,
        "nic_efficiency": net.nic_eff,
        "launch_us": stack.launch_s * 1e6,
        "iteration_overhead_s": stack.iteration_s,
    }


def _models(
    data: Measurements, readings: Sequence[tuple[Row, Scenario]], cluster: ClusterSpec, stack_of: Callable[[str], Stack]
) -> list[tuple[Model, float]]:
    models: list[tuple[Model, float]] = []
    if readings:
        models.append((step_time_residuals([r for r, _ in readings], [s for _, s in readings], stack_of), 1.0))
    if data.collectives:
        models.append((collective_residuals(data.collectives, cluster), OPERATOR_WEIGHT))
    for table in data.tables:
        models.append((table_residuals(table, cluster), OPERATOR_WEIGHT))
        if table.launch:
            models.append((launch_residuals(table), LAUNCH_WEIGHT))
    if not models:
        why = _unused(data.rows, cluster, stack_of)
        raise InputError.of(f"nothing to fit: no usable step time, collective or operator timing{why}")
    return models


def _relevant(name: str, data: Measurements, readings: Sequence[tuple[Row, Scenario]]) -> bool:
    if name == "launch_us":
        return bool(readings) or any(t.launch for t in data.tables)
    return name != "iteration_overhead_s" or bool(readings)


def _fit(constants: Sequence[Constant], models: Sequence[tuple[Model, float]]) -> Fit:
    def residuals(values: Any) -> Any:
        calibration = Calibration(**{k: float(v) for k, v in values.items()})
        return np.concatenate([weight * model(calibration) for model, weight in models])

    return fit(constants, residuals)


def _errors(
    readings: Sequence[tuple[Row, Scenario]], values: dict[str, float], stack_of: Callable[[str], Stack]
) -> dict[str, float]:
    if not readings:
        return {}
    residual = step_time_residuals([r for r, _ in readings], [s for _, s in readings], stack_of)(Calibration(**values))
    error = np.exp(residual) - 1
    return {"mape": round(float(np.abs(error).mean()), 6), "bias": round(float(error.mean()), 6)}


def _operators(data: Measurements) -> int:
    return sum(len(t.gemm) + len(t.attention) + len(t.elementwise) + len(t.launch) + len(t.collectives) for t in data.tables)


def calibration_yaml(result: Calibrated) -> str:
    """The file that `cluster.yaml` includes with `calibration: calibration.yaml`."""
    lines = [f"{k}: {v:.6g}" for k, v in result.calibration.model_dump(exclude_none=True).items() if k != "notes"]
    return "\n".join([*lines, f"notes: {json.dumps(result.calibration.notes)}"]) + "\n"
