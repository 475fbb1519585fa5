"""Draws plans, emits launch files, asks the real programs, and writes results/launch/conformance.{csv,md}.

    .venv/bin/python scripts/conformance.py [--plans 440] [--seed 1] [--out results/launch]
    pip install --no-deps --ignore-requires-python --target OLD megatron-core==0.17.1
    .venv/bin/python scripts/conformance.py --megatron OLD --plans 150

Needs the consumers environment (scripts/setup_consumers.sh). Half of the plans are drawn for Megatron, the rest evenly for the other
targets. Exit 1 if any verdict or any reading differs.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "consumers")]

from judge import ASK, LAUNCHERS, Verdict, judge  # noqa: E402
from plans import cluster, draw_for  # noqa: E402
from worker import Worker, available  # noqa: E402

FIELDS = ("tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel", "expert_parallel", "expert_tensor_parallel",
          "virtual_stages", "micro_batch_size", "global_batch_size", "sequence_parallel", "recompute", "recompute_num_layers",
          "zero_stage", "stage_layers", "rank_order")  # fmt: skip


class Pool:
    """Starts each worker when it is first asked for."""

    def __init__(self) -> None:
        self.started: dict[str, Worker] = {}

    def __call__(self, name: str) -> Worker:
        if name not in self.started:
            self.started[name] = Worker(f"{name}_worker.py")
        return self.started[name]


def main() -> int:
    """Run and write; the exit code says whether all agreed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=440)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--megatron", type=Path, help="folder of another megatron-core version: Megatron plans only, own file name")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "launch")
    options = parser.parse_args()
    if not available():
        print("the consumers environment is missing: run scripts/setup_consumers.sh", file=sys.stderr)
        return 2
    if options.megatron:
        os.environ["AUTOTUNE_MEGATRON_DIR"] = str(options.megatron.resolve())
    started, pool, source = time.time(), Pool(), random.Random(options.seed)
    targets = list(ASK)
    verdicts = []
    for i in range(options.plans):
        target = "megatron" if i % 2 == 0 or options.megatron else targets[1 + i // 2 % (len(targets) - 1)]
        model, plan = draw_for(target, source)
        launcher = source.choice(LAUNCHERS[target])
        verdicts.append(judge(target, pool, cluster(plan.gpus), model, plan, launcher))
        if not verdicts[-1].agree:
            v = verdicts[-1]
            print(f"{v.target} {v.model} {v.plan}\n  ours: {v.ours}\n  theirs: {v.theirs} {v.differences}", file=sys.stderr, flush=True)
    versions = {k: v for w in pool.started.values() for k, v in w.versions.items() if k != "ready"}
    name = f"conformance_{versions['megatron-core'].split('+')[0]}" if options.megatron else "conformance"
    write(options.out / name, verdicts, versions, options, time.time() - started)
    wrong = sum(not v.agree for v in verdicts)
    print(f"{len(verdicts)} plans, {wrong} disagreements, {time.time() - started:.0f} s; see {options.out / name}.md")
    return int(wrong > 0)


def write(stem: Path, verdicts: list[Verdict], versions: dict[str, Any], options: Any, seconds: float) -> None:
    """The table of all plans, and the summary."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{stem}.csv").open("w", newline="") as f:
        table = csv.writer(f, lineterminator="\n")
        table.writerow(["target", "launcher", "model", "gpus", *FIELDS, "ours", "theirs", "differences", "agree"])
        for v in verdicts:
            fields = v.plan.to_dict()
            cells = [" ".join(map(str, fields[k])) if k == "stage_layers" else fields[k] for k in FIELDS]
            row = [v.target, v.launcher, v.model, v.plan.gpus, *cells, v.ours, v.theirs[:300], "; ".join(v.differences), v.agree]
            table.writerow(row)
    Path(f"{stem}.md").write_text(summary(verdicts, versions, options, seconds))


def summary(verdicts: list[Verdict], versions: dict[str, Any], options: Any, seconds: float) -> str:
    """One row per target: what was accepted and refused on both sides."""
    lines = ["# Launch files against the real programs", ""]
    lines.append(f"`scripts/conformance.py --plans {options.plans} --seed {options.seed}`: {seconds:.0f} s on {platform.machine()}, ")
    lines.append("Python " + platform.python_version() + "; " + ", ".join(f"{k} {str(v).split('+')[0]}" for k, v in versions.items()) + ".")
    lines += ["", "A legal plan goes through `emit`, bash and the program's own parser and checks, and what the program then reports (degrees,"]
    lines.append("layers of every chunk, batch, sharding, recomputation, process groups of all ranks) must be the plan. A plan that `emit` refuses")
    lines.append("goes to the program as bare arguments; *refused by us alone* counts plans that only our rules stop (tests/consumers/judge.py")
    lines += ["lists them with the reason).", ""]
    lines.append("| target | plans | legal, accepted, read as planned | refused by both | refused by us alone | disagreements |")
    lines.append("|---|---|---|---|---|---|")
    for target in dict.fromkeys(v.target for v in verdicts):
        rows = [v for v in verdicts if v.target == target]
        both = sum(v.ours != "legal" and v.theirs not in ("accepted", "not asked") for v in rows)
        alone = sum(v.ours != "legal" and v.theirs in ("accepted", "not asked") and v.agree for v in rows)
        good = sum(v.ours == "legal" and v.agree for v in rows)
        lines.append(f"| {target} | {len(rows)} | {good} | {both} | {alone} | {sum(not v.agree for v in rows)} |")
    stages = Counter(v.theirs.split(":")[0] for v in verdicts if v.ours != "legal" and v.theirs not in ("accepted", "not asked"))
    lines += ["", "Where the programs refused: " + ", ".join(f"{s} {n}" for s, n in stages.most_common()) + ".", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
