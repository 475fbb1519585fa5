"""Makes the helper modules of this folder importable, warms the compiled kernels, and prints how many inputs were tried."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


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
    commands = {"search": [["search", str(cluster), str(model)], ["sweep", str(cluster), str(model), "--vary", "nic_Gbps=100,400"]]}
    done = set()

    def run(kind):
        if not fuzz_corpus.KINDS[kind].kernel:
            return
        for command in commands.get(kind, one):
            if command[0] not in done:
                outcome = fuzz_drive.run(command, 600)
                assert outcome.code == 0, outcome.err
                done.add(command[0])

    return run


def pytest_terminal_summary(terminalreporter):
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    counts = [value for report in reports for name, value in report.user_properties if name == "inputs_tried"]
    if counts:
        terminalreporter.write_line(f"fuzz: {sum(counts):,} inputs tried")
