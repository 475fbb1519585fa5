"""Where memory runs out: which stage, in which phase of training, and because of what."""

from __future__ import annotations

from typing import Any, NamedTuple

from autotune.constants import GIB
from autotune.evaluate import Evaluation
from costmodels.types import StageMemory

PARTS = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer state (master weights and moments)",
    "activations": "stored activations",
    "logits": "logits and loss",
    "buffers": "gradient buckets, gathered parameters and temporaries",
    "reserve": "CUDA context, communication buffers and allocator slack",
}


class Phase(NamedTuple):
    """A moment of a run and the parts that are alive in it."""

    name: str
    parts: tuple[str, ...]
    text: str


# Optimizer state appears at the first step that is not skipped; from the second iteration on everything is alive at once.
PHASES = (
    Phase("load", ("weights", "reserve"), "while the model is loaded"),
    Phase("first forward", ("weights", "gradients", "activations", "reserve"), "in the first forward pass"),
    Phase("loss", ("weights", "gradients", "activations", "logits", "reserve"), "when the loss is computed"),
    Phase(
        "first backward", ("weights", "gradients", "activations", "logits", "buffers", "reserve"), "in the first backward pass"
    ),
    Phase("first optimizer step", ("weights", "gradients", "optimizer", "buffers", "reserve"), "at the first optimizer step"),
    Phase("second iteration", tuple(PARTS), "in the second iteration, after the optimizer state was allocated"),
)


def phase_bytes(stage: StageMemory) -> dict[str, float]:
    """Bytes alive in every phase on a GPU of one stage.

    >>> b = phase_bytes(StageMemory(2., 4., 12., 5., 1., 0.5, 1.))
    >>> b["load"], b["loss"], b["first optimizer step"], b["second iteration"]
    (3.0, 13.0, 19.5, 25.5)
    """
    return {p.name: sum(getattr(stage, part) for part in p.parts) for p in PHASES}


def oom_report(evaluation: Evaluation) -> dict[str, Any]:
    """Where a plan's memory peaks, and where it first exceeds the GPU.

    `{"fits", "over_GiB", "stage", "largest": {"part", "GiB", "text"}, "phases": [{"phase", "GiB", "stage", "exceeds"}],
    "first_exceeded": {...} | None, "parts_GiB", "parts_text", "text": [lines]}`. Stages count from 0. A plan that fits has no
    `first_exceeded`; one that only exceeds after the optimizer state exists can run for several iterations first when loss
    scaling skips steps.
    """
    totals = [float(sum(s)) for s in evaluation.stages]
    worst = max(range(len(totals)), key=totals.__getitem__)
    parts = {k: v / GIB for k, v in evaluation.stages[worst]._asdict().items()}
    largest = max(parts, key=parts.__getitem__)
    phases = [_phase(evaluation, p) for p in PHASES]
    first = next((p for p in phases if p["exceeds"]), None)
    over = max(0.0, totals[worst] - evaluation.capacity_bytes) / GIB
    report = {
        "fits": evaluation.fits,
        "over_GiB": over,
        "peak_GiB": totals[worst] / GIB,
        "capacity_GiB": evaluation.capacity_bytes / GIB,
        "stage": worst,
        "stages": len(totals),
        "largest": {"part": largest, "GiB": parts[largest], "text": PARTS[largest]},
        "parts_GiB": parts,
        "parts_text": PARTS,
        "phases": phases,
        "first_exceeded": first,
    }
    return {**report, "text": _lines(report)}


def _phase(evaluation: Evaluation, phase: Phase) -> dict[str, Any]:
    needs = [phase_bytes(s)[phase.name] for s in evaluation.stages]
    stage = max(range(len(needs)), key=needs.__getitem__)
    return {
        "phase": phase.name, "GiB": needs[stage] / GIB, "stage": stage,
        "exceeds": needs[stage] > evaluation.capacity_bytes, "text": phase.text,
    }  # fmt: skip


def _lines(report: dict[str, Any]) -> list[str]:
    where = "the only stage" if report["stages"] == 1 else f"stage {report['stage']} of {report['stages']} (counted from 0)"
    lines = [
        f"memory peaks on {where}: {report['peak_GiB']:.1f} of {report['capacity_GiB']:.1f} GiB "
        f"(GiB = 2^30 bytes), most of it {report['largest']['text']} ({report['largest']['GiB']:.1f} GiB)"
    ]
    first = report["first_exceeded"]
    if first is None:
        return lines
    lines.append(
        f"it exceeds the GPU by {report['over_GiB']:.1f} GiB; the first failure is {first['text']}, on stage {first['stage']}"
    )
    if first["phase"] in ("first optimizer step", "second iteration"):
        lines.append(
            "the first iterations can look healthy: optimizer state is only allocated at the first step that is not skipped"
        )
    return lines
