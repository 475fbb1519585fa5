"""Makes the helper modules of this folder importable, warms the compiled kernels, and prints how many inputs were tried."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture
def light_price(monkeypatch):
    """Puts a formula of one line in place of the cost model that `calibrate` fits step times with, whose compilation takes most of a minute.

    What is damaged is read, mapped and fitted as ever; the cost model itself is under test in `measurements`, `plan` and `search`.
    `AUTOTUNE_FUZZ_SCALE` above 1 leaves the real one in place.
    """
    from autotune.validate import compiled
    from costmodels.types import Breakdown

    def price(model, gpu, net, stack, point):
        tokens = float(model.seq) * point.micro_batch * point.micro_batches / (point.tensor * point.pipeline * point.context)
        time_s = 96.0 * tokens * model.layers * float(model.hidden) ** 2 / (gpu.gemm_eff * gpu.peak_flops) + stack.launch_s + stack.iteration_s
        nbytes = 20.0 * model.layers * float(model.hidden) ** 2
        return compiled.Priced(time_s, Breakdown(*[0.0] * len(Breakdown._fields)), nbytes, nbytes, 0.0)

    if int(os.environ.get("AUTOTUNE_FUZZ_SCALE", "1")) == 1:
        monkeypatch.setattr(compiled, "price", price)


@pytest.fixture(scope="session")
def warm(tmp_path_factory):
    """`warm(kind)`: compiles what the commands of a kind run, so that no input is charged with it."""
    import fuzz_corpus
    import fuzz_drive

    folder = tmp_path_factory.mktemp("warm")
    cluster, model, plan = folder / "cluster.yaml", folder / "model.yaml", fuzz_corpus.tiny_plan(folder)
    cluster.write_text(fuzz_corpus.TINY_CLUSTER)
    model.write_text(fuzz_corpus.TINY_MODEL)
    one = [["explain", fuzz_corpus.CLUSTER, fuzz_corpus.MODEL, str(plan)]]
    calibrations = []
    for i, seed in enumerate(fuzz_corpus.owners_measurements()):
        if not seed.name.endswith(".yaml"):
            path = folder / f"{i}_{seed.name}"
            path.write_bytes(seed.data)
            calibrations.append(["calibrate", str(path), *([] if path.suffix == ".csv" else ["--cluster", fuzz_corpus.CLUSTER])])
    commands = {
        "search": [["search", str(cluster), str(model)], ["sweep", str(cluster), str(model), "--vary", "nic_Gbps=100,400"]],
        "calibrate": calibrations,
    }
    done = set()

    def run(kind):
        if not fuzz_corpus.KINDS[kind].kernel:
            return
        for command in commands.get(kind, one):
            if tuple(command) not in done:
                outcome = fuzz_drive.run(command, 600)
                assert outcome.code == 0, outcome.err
                done.add(tuple(command))

    return run


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    counts = [value for report in reports for name, value in report.user_properties if name == "inputs_tried"]
    if counts:
        terminalreporter.write_line(f"fuzz: {sum(counts):,} inputs tried")
