"""Measured training runs: the CSV schema, read into typed rows.

One row is one published result. An empty cell means unknown, never zero. `docs/accuracy.md` lists the columns.
"""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import InputError, Problem, did_you_mean
from autotune.textfile import read_text

GIB = 2.0**30
MAX_NAME = 200
MAX_COUNT = 1_000_000_000


@dataclass(frozen=True)
class Row:
    """One measured run. `time_s` is seconds per iteration, `memory_bytes` the peak of one GPU; None = not known."""

    id: str
    source: str = ""
    framework: str = ""
    model_name: str = ""
    layers: int | None = None
    hidden: int | None = None
    ffn_hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    seq_len: int | None = None
    moe_experts: int | None = None
    moe_topk: int | None = None
    moe_ffn: int | None = None
    moe_shared_ffn: int | None = None
    dense_layers: int | None = None
    mla: str = ""
    mtp_layers: int | None = None
    gpu: str = ""
    gpus_per_node: int | None = None
    nic_gbps_per_gpu: float | None = None
    n_gpus: int | None = None
    tp: int | None = None
    pp: int | None = None
    vpp: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    dp: int | None = None
    micro_batch: int | None = None
    global_batch: int | None = None
    seq_parallel: str = ""
    recompute: str = ""
    dist_opt_or_zero: int | None = None
    precision: str = ""
    flash_attn: str = ""
    mfu: float | None = None
    model_flops_per_token_full_attn: float | None = None
    task: str = ""
    status: str = "ok"
    system_group: str = ""
    tier: str = ""
    overlap_flags: str = ""
    notes: str = ""
    time_s: float | None = None
    memory_bytes: float | None = None

    @property
    def prefix(self) -> str:
        """The source prefix of the id.

        >>> Row("vtrain-multi-027").prefix
        'vtrain-multi'
        """
        head, _, tail = self.id.rpartition("-")
        return head if tail.isdigit() else self.id

    @property
    def choice_key(self) -> tuple[object, ...]:
        """Runs with equal keys are alternatives: same model (shape included), GPU type and count, batch, sequence, on one machine."""
        shape = (self.model_name, self.layers, self.hidden, self.heads, self.kv_heads, self.moe_experts)
        return (self.system_group, *shape, self.gpu, self.n_gpus, self.global_batch, self.seq_len)


_INTEGER = {f.name for f in dataclasses.fields(Row) if str(f.type).startswith("int")}
_NUMBER = {f.name for f in dataclasses.fields(Row) if str(f.type).startswith("float")}
_NAMES = {"id", "framework", "model_name", "gpu", "system_group"}
_DERIVED = {"time_s", "memory_bytes"}
_REQUIRED = ("id", "layers", "hidden", "heads", "seq_len", "gpu", "n_gpus", "tp", "pp", "global_batch")
# `selective-op` is Megatron's selective, `selective-layer` recomputes every second layer in full.
RECOMPUTE = ("none", "selective", "full", "selective-op", "selective-layer")
_TIME_COLUMNS = ("iteration_time_s", "iteration_time_s_derived")
_RATE_COLUMNS = ("tokens_per_s_per_gpu", "tokens_per_s_per_gpu_derived")
_OTHER_NUMBERS = (*_TIME_COLUMNS, *_RATE_COLUMNS, "memory_gb_measured")


def read_rows(path: str | Path) -> list[Row]:
    """All rows of a measurements CSV.

    Raises InputError with file and line for a missing file, missing columns or cells that are not numbers.
    """
    name = str(path)
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    try:
        header = reader.fieldnames or []
        missing = [c for c in _REQUIRED if c not in header]
        if missing:
            raise InputError.of(f"columns missing: {', '.join(missing)}", file=name, line=1)
        lines = [(reader.line_num, record) for record in reader]
    except csv.Error as error:
        raise InputError.of(f"not CSV: {error}", file=name, line=reader.line_num + 1) from None
    rows: list[Row] = []
    problems: list[Problem] = []
    for line, record in lines:
        try:
            rows.append(parse_row(record))
        except ValueError as error:
            problems.append(Problem(str(error), name, line))
    problems += _duplicates(rows, name)
    if problems:
        raise InputError(problems)
    return rows


def _duplicates(rows: Iterable[Row], file: str) -> list[Problem]:
    seen: set[str] = set()
    twice = {row.id for row in rows if row.id in seen or seen.add(row.id)}  # type: ignore[func-returns-value]
    return [Problem(f"id {i} occurs twice", file) for i in sorted(twice)]


def parse_row(record: dict[str, str | None]) -> Row:
    """A row from the text cells of one CSV line; raises ValueError naming the column.

    >>> parse_row({"id": "a-1", "layers": "24", "tokens_per_s_per_gpu": "1000", "global_batch": "8",
    ...            "seq_len": "1000", "n_gpus": "4"}).time_s
    2.0
    """
    cells = {k: (v or "").strip() for k, v in record.items() if k}
    if not cells.get("id"):
        raise ValueError("id is empty")
    values: dict[str, object] = {}
    for field in dataclasses.fields(Row):
        text = cells.get(field.name, "")
        if field.name in _DERIVED or text == "":
            continue
        if field.name in _INTEGER:
            values[field.name] = _integer(field.name, text)
        elif field.name in _NUMBER:
            values[field.name] = _number(field.name, text)
        elif len(text) > MAX_NAME and field.name in _NAMES:
            raise ValueError(f"{field.name}: longer than {MAX_NAME} characters")
        else:
            values[field.name] = text
    known = values.get("recompute", "none")
    if known not in RECOMPUTE:
        raise ValueError(f"recompute: {known!r} is none of {', '.join(RECOMPUTE)}{did_you_mean(str(known), list(RECOMPUTE))}")
    numbers = {c: _number(c, cells[c]) for c in _OTHER_NUMBERS if cells.get(c)}
    row = Row(**values)  # type: ignore[arg-type]
    memory = numbers.get("memory_gb_measured")
    return dataclasses.replace(row, time_s=_time(row, numbers), memory_bytes=memory * 1e9 if memory else None)


def _time(row: Row, numbers: dict[str, float]) -> float | None:
    for column in _TIME_COLUMNS:
        if numbers.get(column):
            return numbers[column]
    for column in _RATE_COLUMNS:
        if numbers.get(column) and row.global_batch and row.seq_len and row.n_gpus:
            return row.global_batch * row.seq_len / (row.n_gpus * numbers[column])
    return None


def _number(column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{column}: not a number: {text!r}") from None
    if not 0 <= value < 1e30:
        raise ValueError(f"{column}: must not be negative or infinite, got {text}")
    return value


def _integer(column: str, text: str) -> int:
    value = _number(column, text)
    if value != int(value) or value > MAX_COUNT:
        raise ValueError(f"{column}: must be a whole number of at most {MAX_COUNT:,}, got {text}")
    return int(value)
