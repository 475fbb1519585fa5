"""A plan: one way to split a model over GPUs, in the field's names, and its JSON/YAML form.

A plan says what to run and nothing of how good it is; predictions travel beside it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from autotune.errors import InputError, Problem, did_you_mean

RANK_ORDERS = ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp")
RECOMPUTE = ("none", "selective", "full")


@dataclass(frozen=True)
class Plan:
    """One parallel configuration. Degrees multiply: tensor x pipeline x data x context = GPUs.

    `expert_parallel` lies inside the GPUs of one pipeline stage (the expert grid etp x ep x edp is a second
    factorisation of the same ranks). `stage_layers` lists decoder layers per pipeline stage. `recompute_num_layers`
    counts fully recomputed layers per model chunk (Megatron's block method); None with `full` means all.

    >>> p = Plan(tensor_parallel=2, pipeline_parallel=2, data_parallel=2, global_batch_size=8, stage_layers=(4, 4))
    >>> p.gpus, p.micro_batches, p.expert_data_parallel
    (8, 4, 4)
    >>> Plan.from_dict(p.to_dict()) == p
    True
    """

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    expert_tensor_parallel: int = 1
    virtual_stages: int = 1
    micro_batch_size: int = 1
    global_batch_size: int = 1
    sequence_parallel: bool = False
    recompute: str = "none"
    recompute_num_layers: int | None = None
    zero_stage: int = 1
    stage_layers: tuple[int, ...] = (1,)
    rank_order: str = "tp-cp-ep-dp-pp"
    hb_domain_size: int = 8
    nic_Gbps: float = 400.0
    fabric: str = "rail-optimized"
    stack: str = "megatron-core"

    @property
    def gpus(self) -> int:
        """Ranks of the job."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel * self.context_parallel

    @property
    def micro_batches(self) -> int:
        """Micro-batches per pipeline and iteration."""
        return self.global_batch_size // (self.micro_batch_size * self.data_parallel)

    @property
    def distributed_optimizer(self) -> bool:
        """Whether optimizer state is sharded over data parallel ranks."""
        return self.zero_stage >= 1

    @property
    def expert_data_parallel(self) -> int:
        """Replicas of each expert."""
        return self.gpus // (self.pipeline_parallel * self.expert_parallel * self.expert_tensor_parallel)

    @property
    def id(self) -> str:
        """Content hash: equal plans have equal ids."""
        text = json.dumps({k: v for k, v in self._fields().items()}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def _fields(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def to_dict(self) -> dict[str, Any]:
        """Contract form: the fields, the derived ones, and the `id`."""
        return {
            **self._fields(),
            "stage_layers": list(self.stage_layers),
            "micro_batches": self.micro_batches,
            "distributed_optimizer": self.distributed_optimizer,
            "id": self.id,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], file: str = "", consistent: bool = True) -> Plan:
        """A plan from its contract form. Derived fields are checked, unknown keys refused, every problem reported.

        With `consistent` False, a plan whose batch, stages or expert degrees do not add up is taken as it is.
        """
        fields = {f.name: f for f in dataclasses.fields(cls)}
        derived = ("micro_batches", "distributed_optimizer", "id")
        problems: list[Problem] = []
        values: dict[str, Any] = {}
        for key, value in data.items():
            if key in derived:
                continue
            if key not in fields:
                problems.append(Problem(f"unknown key{did_you_mean(key, [*fields, *derived])}", file, key=key))
                continue
            bad = _type_problem(key, value, fields[key].default)
            if bad:
                problems.append(Problem(bad, file, key=key))
            if isinstance(fields[key].default, float) and not bad:
                value = float(value)  # 400 and 400.0 are one plan with one id
            values[key] = tuple(value) if isinstance(value, list) else value
        if "zero_stage" not in data and "distributed_optimizer" in data:
            values["zero_stage"] = int(bool(data["distributed_optimizer"]))
        if problems:
            raise InputError(problems)
        plan = cls(**values)
        problems += [Problem(m, file, key=k) for k, m in plan._inconsistent(data)] if consistent else []
        if problems:
            raise InputError(problems)
        return plan

    def _inconsistent(self, data: dict[str, Any]) -> list[tuple[str, str]]:
        wrong = []
        per_step = self.micro_batch_size * self.data_parallel
        if self.global_batch_size % per_step:
            wrong.append(
                ("global_batch_size", f"{self.global_batch_size} is not a multiple of micro_batch_size x data_parallel = {per_step}")
            )
        elif "micro_batches" in data and data["micro_batches"] != self.micro_batches:
            wrong.append(("micro_batches", f"is {data['micro_batches']}, but the batch sizes give {self.micro_batches}"))
        if len(self.stage_layers) != self.pipeline_parallel:
            wrong.append(("stage_layers", f"lists {len(self.stage_layers)} stages, pipeline_parallel is {self.pipeline_parallel}"))
        ranks = self.gpus // self.pipeline_parallel
        if ranks % (self.expert_parallel * self.expert_tensor_parallel):
            wrong.append(
                ("expert_parallel", f"expert_parallel x expert_tensor_parallel must divide the {ranks} ranks of a pipeline stage")
            )
        return wrong


def _type_problem(key: str, value: Any, default: Any) -> str | None:
    if key == "stage_layers":
        ok = isinstance(value, (list, tuple)) and value and all(_is_int(x) and x >= 0 for x in value)
        return None if ok else "must be a list of layer counts"
    if key == "recompute_num_layers":
        return None if value is None or (_is_int(value) and value >= 0) else f"must be a number of layers, got {value!r}"
    if key == "rank_order":
        return None if value in RANK_ORDERS else f"must be one of {', '.join(RANK_ORDERS)}, got {value!r}"
    if key == "recompute":
        return None if value in RECOMPUTE else f"must be one of {', '.join(RECOMPUTE)}, got {value!r}"
    if key == "zero_stage":
        return None if _is_int(value) and 0 <= value <= 3 else f"must be 0, 1, 2 or 3, got {value!r}"
    if isinstance(default, bool):
        return None if isinstance(value, bool) else f"must be true or false, got {value!r}"
    if isinstance(default, int):
        return None if _is_int(value) and value >= 1 else f"must be an integer of at least 1, got {value!r}"
    if isinstance(default, float):
        ok = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        return None if ok else f"must be a positive number, got {value!r}"
    return None if isinstance(value, str) else f"must be text, got {value!r}"


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
