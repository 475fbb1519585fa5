"""Optuna studies: the only module that imports Optuna.

Every search is a study, so storage, resume and the dashboard work for all of them. A trial is never a single plan: it is a
cell of the lattice (fixed hardware) or a hardware setting (co-design), and its value the exact optimum inside.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution

from autotune.errors import InputError
from autotune.interrupts import uninterrupted
from autotune.output import note

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)

SAMPLERS = ("auto", "tpe", "nsga2", "nsga3", "random", "qmc", "cmaes")
Params = dict[str, Any]
STALE_LOCK_S = 10  # a live search holds the lock of a journal for milliseconds


class QueueSampler(optuna.samplers.BaseSampler):
    """Hands out a given list of parameter sets in order: best bound first for cells, the whole grid for settings."""

    def __init__(self, queue: list[Params], space: dict[str, BaseDistribution]) -> None:
        self.queue = deque(queue)
        self.space = space

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
        return self.space

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, BaseDistribution]) -> Params:
        return self.queue.popleft()

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: BaseDistribution) -> Any:
        raise ValueError(f"{param_name} is not in the queued search space")


def categorical(values: list[Any]) -> BaseDistribution:
    """An axis of named values."""
    return CategoricalDistribution(values)


def continuous(low: float, high: float, step: float | None) -> BaseDistribution:
    """A range axis; logarithmic when it is continuous, since rates act as ratios."""
    return FloatDistribution(low, high, step=step, log=step is None)


def make_sampler(name: str, seed: int, objectives: int) -> optuna.samplers.BaseSampler:
    """A sampler by name. `auto`: TPE for one objective, NSGA-II for several."""
    if name == "auto":
        name = "tpe" if objectives == 1 else "nsga2"
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed)
    if name == "nsga2":
        return optuna.samplers.NSGAIISampler(seed=seed)
    if name == "nsga3":
        return optuna.samplers.NSGAIIISampler(seed=seed)
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    if name == "qmc":
        return optuna.samplers.QMCSampler(seed=seed, warn_independent_sampling=False)
    if name == "cmaes":
        try:
            import cmaes  # noqa: F401
        except ImportError:
            raise InputError.of("the cmaes sampler needs the package 'cmaes' (pip install 'railplan-autotune[samplers]')") from None
        return optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
    raise InputError.of(f"unknown sampler '{name}'; known: {', '.join(SAMPLERS)}")


def mend_journal(path: str, lock: Any) -> None:
    """Drop a record that a crash cut off at the end of a journal; ValueError when the file is no journal.

    Without this the next record would be glued to the torn one, and the journal could never be read again.
    """
    if not os.path.exists(path):
        return
    with open(path, "rb") as f:
        lines = f.readlines()
    torn = len(lines) > 1 and not lines[-1].endswith(b"\n")
    for number, line in enumerate(lines[:-1] if torn else lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or "op_code" not in record:
            raise ValueError(f"line {number} is no record of a journal")
    if torn:
        lock.acquire()
        try:
            os.truncate(path, sum(len(line) for line in lines[:-1]))
        finally:
            lock.release()
        note(f"{path}: the last record was cut off and is dropped")


def open_storage(text: str | None) -> Any:
    """In memory for None; `journal:PATH` (or a path ending in .log) for a journal file; any SQLAlchemy URL otherwise."""
    if not text:
        return None
    if text.startswith("journal:") or text.endswith(".log"):
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

        # Absolute: on a stale lock (a killed process) of a relative path Optuna waits for ever.
        path = os.path.abspath(text.removeprefix("journal:"))
        if os.path.islink(path + ".lock"):
            note(f"{path} is locked by another search; taken over after {STALE_LOCK_S} s without a sign of it")
        try:
            lock = JournalFileSymlinkLock(path, grace_period=STALE_LOCK_S)
            mend_journal(path, lock)
            return JournalStorage(JournalFileBackend(path, lock))
        except (OSError, ValueError, KeyError) as e:
            raise InputError.of(f"cannot use the journal {path}: {e}", key="--storage") from None
    if "://" not in text:
        raise InputError.of(f"storage '{text}' is neither journal:PATH nor a database URL", key="--storage")
    try:
        return optuna.storages.RDBStorage(text)
    except ImportError as e:
        raise InputError.of(f"storage {text.split('://')[0]} needs a driver: {e} (pip install 'railplan-autotune[postgres]')") from None
    except Exception as e:
        raise InputError.of(f"cannot open storage: {type(e).__name__}: {str(e).splitlines()[0]}", key="--storage") from None


class Run:
    """A study being filled in batches by ask and tell.

    `signature` fingerprints the inputs: a stored study of other inputs is refused rather than mixed up.
    """

    def __init__(
        self,
        signature: str,
        objectives: list[str],
        sampler: optuna.samplers.BaseSampler,
        storage: str | None = None,
        name: str | None = None,
        resume: bool = False,
    ) -> None:
        opened = open_storage(storage)
        name = name or f"autotune-{signature[:12]}"
        try:
            self.study = optuna.create_study(
                directions=["minimize"] * len(objectives), sampler=sampler, storage=opened, study_name=name, load_if_exists=resume
            )
        except optuna.exceptions.DuplicatedStudyError:
            raise InputError.of(f"study '{name}' exists; pass --resume to go on with it, or --study-name for a new one") from None
        known = self.study.user_attrs.get("signature")
        if known is not None and known != signature:
            raise InputError.of(f"study '{name}' was made for other inputs, or by another version of the model; choose another --study-name")
        if known is None:
            self.study.set_user_attr("signature", signature)
            self.study.set_metric_names(objectives)

    def finished(self) -> dict[str, dict[str, Any]]:
        """Results of finished trials of a resumed study: canonical parameters -> the stored result."""
        done = {}
        for trial in self.study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)):
            if "result" in trial.user_attrs:
                done[json.dumps(trial.params, sort_keys=True)] = trial.user_attrs["result"]
        return done

    def batch(
        self,
        size: int,
        space: dict[str, BaseDistribution],
        evaluate: Callable[[list[Params]], list[tuple[list[float], dict[str, float], dict[str, Any]]]],
    ) -> list[dict[str, Any]]:
        """Ask `size` trials, evaluate them together, tell each.

        `evaluate` returns (values, constraints by name, result to store) per parameter set; a constraint holds when <= 0.
        """
        # Ctrl-C waits for the records: cut off between taking and giving back its lock, a journal raises errors of its own.
        with uninterrupted():
            trials = [self.study.ask(space) for _ in range(size)]
        try:
            outcomes = evaluate([t.params for t in trials])
        except KeyboardInterrupt:
            with uninterrupted():
                for trial in trials:
                    self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
            raise
        with uninterrupted():
            for trial, (values, constraints, result) in zip(trials, outcomes, strict=True):
                for key, value in constraints.items():
                    trial.set_constraint(key, value)
                trial.set_user_attr("result", result)
                self.study.tell(trial, values)
        return [result for _, _, result in outcomes]

    def trial_count(self) -> int:
        """Finished trials."""
        return len(self.study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)))

    def pareto(self) -> list[dict[str, Any]]:
        """Results on the Pareto front (several objectives)."""
        return [t.user_attrs["result"] for t in self.study.best_trials if "result" in t.user_attrs]
