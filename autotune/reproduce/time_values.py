"""Values of the iteration-time claims (M1-M9, V1), each over the best strategy for its hardware."""

from __future__ import annotations

from autotune.reproduce.claims import Values
from autotune.reproduce.settings import (
    MEGATRON_RUNS,
    R1_GPUS,
    R1_MODELS,
    R1_OPTIONS,
    TRAFFIC_OPTIONS,
    a100_system,
    r1_system,
)
from autotune.reproduce.strategies import BestStrategy, SearchLimits, best_strategy
from costmodels.rail_only_paper import PaperOptions, PaperSystem, hardware_utilisation

NO_LIMITS = SearchLimits()


def r1_best(
    model_name: str,
    hb_size: int,
    batch: int = 0,
    hb_factor: float = 1.0,
    nic_factor: float = 1.0,
    limits: SearchLimits = NO_LIMITS,
) -> BestStrategy:
    """The best strategy of a model under setting R1; batch 0 means the model's own.

    >>> round(r1_best("GPT-1T", 256).time_s, 2)
    4.86
    """
    model, own_batch = R1_MODELS[model_name]
    return best_strategy(model, r1_system(hb_size, hb_factor, nic_factor), batch or own_batch, R1_OPTIONS, limits)


def percent_change(new: float, old: float) -> float:
    """Change in percent of the old value.

    >>> percent_change(3.0, 4.0)
    -25.0
    """
    return 100 * (new / old - 1)


def relative_performance_percent(model_name: str, hb_size: int, batch: int) -> float:
    """Time on the ideal machine, one domain of all GPUs, over time with domains of this size: 100 is ideal."""
    return 100 * r1_best(model_name, R1_GPUS, batch).time_s / r1_best(model_name, hb_size, batch).time_s


def bandwidth_gain_percent(model_name: str, hb_size: int, link: str, factor: float, largest_tensor: int = 0) -> float:
    """Change of iteration time when the bandwidth of a link kind ("HB" or "NIC") is multiplied and the search redone."""
    limits = SearchLimits(largest_tensor=largest_tensor)
    hb_factor, nic_factor = (factor, 1.0) if link == "HB" else (1.0, factor)
    faster = r1_best(model_name, hb_size, 0, hb_factor, nic_factor, limits)
    return percent_change(faster.time_s, r1_best(model_name, hb_size, limits=limits).time_s)


def system_changes(options: PaperOptions, limits: SearchLimits, efficiency: float) -> dict[str, float]:
    """M1-M4, M6 and M7 under another reading of the paper, to show how far each hangs on it."""

    def seconds(name: str, hb_size: int, batch: int = 0) -> float:
        model, own_batch = R1_MODELS[name]
        system: PaperSystem = r1_system(hb_size)._replace(efficiency=efficiency)
        return best_strategy(model, system, batch or own_batch, options, limits).time_s

    small = {k: seconds("GPT-146B", k) for k in (1, 8, 256, R1_GPUS)}
    result = {
        "M1": percent_change(small[8], small[1]),
        "M2": percent_change(small[256], small[8]),
        "M3": percent_change(small[256], small[R1_GPUS]),
        "M4": percent_change(seconds("GPT-1T", 256), seconds("GPT-1T", R1_GPUS)),
    }
    for claim, hb_size in (("M6", 8), ("M7", 256)):
        for batch in (256, 4096):
            ideal = seconds("GPT-1T", R1_GPUS, batch)
            result[f"{claim}, B {batch}"] = 100 * ideal / seconds("GPT-1T", hb_size, batch)
    return result


def _batch_sweep(hb_size: int) -> Values:
    return Values({f"B {batch}": relative_performance_percent("GPT-1T", hb_size, batch) for batch in (256, 4096)})


def _doubled(hb_size: int, largest_tensor: int = 0) -> dict[str, float]:
    suffix = f", t <= {largest_tensor}" if largest_tensor else ""
    return {
        f"{name}, {link} x2{suffix}": bandwidth_gain_percent(name, hb_size, link, 2.0, largest_tensor)
        for name in R1_MODELS
        for link in ("HB", "NIC")
    }


def measured_utilisation_percent() -> dict[str, float]:
    """Hardware FLOPs utilisation of the measured Megatron runs, largest first, with one efficiency for all."""
    return {
        run.name: 100 * hardware_utilisation(run.model, a100_system(run.gpus), run.strategy(1), run.batch, TRAFFIC_OPTIONS)
        for run in reversed(MEGATRON_RUNS)
    }


def time_values() -> dict[str, Values]:
    """What the model gives for M1 to M9 and V1.

    >>> round(time_values()["M1"].parts["change"], 1)
    -43.3
    """
    small = {k: r1_best("GPT-146B", k).time_s for k in (1, 8, 256, R1_GPUS)}
    large = {k: r1_best("GPT-1T", k).time_s for k in (32, 256, R1_GPUS)}
    return {
        "M1": Values({"change": percent_change(small[8], small[1])}),
        "M2": Values({"change": percent_change(small[256], small[8])}),
        "M3": Values({"gap": percent_change(small[256], small[R1_GPUS])}),
        "M4": Values({"gap": percent_change(large[256], large[R1_GPUS])}),
        "M5": Values({"change": percent_change(large[256], large[32])}, {"gap at 32": percent_change(large[32], large[R1_GPUS])}),
        "M6": _batch_sweep(8),
        "M7": _batch_sweep(256),
        "M8": Values(
            {"GPT-146B, HB x2": bandwidth_gain_percent("GPT-146B", 8, "HB", 2.0)},
            _doubled(8) | _doubled(8, largest_tensor=8),
        ),
        "M9": Values(_doubled(256)),
        "V1": Values(measured_utilisation_percent()),
    }
