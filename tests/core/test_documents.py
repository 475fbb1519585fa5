"""The pages of the model and the architecture say what the code does: modules, constants, paths and links exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from costmodels import activations, attention, collectives, elementwise, gemm
from costmodels.examples import MEGATRON_2021

ROOT = Path(__file__).resolve().parent.parent.parent
COSTMODEL = (ROOT / "docs" / "costmodel.md").read_text(encoding="utf-8")
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])
FUSED = MEGATRON_2021._replace(dropout=0)

# What a sentence of the page must contain, from the code's own numbers.
CONSTANTS = [
    f"The prologue k0 is {gemm.K_PROLOGUE:.0f} elements",
    f"(1 + {gemm.WAVE_TERM} SMs 128 256 / (M N))",
    f"s / (s + {attention.RAMP_TOKENS:.0f})",
    f"{attention.UNFUSED_FORWARD_BYTES:.0f} bytes per score forward, {attention.UNFUSED_BACKWARD_BYTES:.0f} backward",
    f"{attention.UNFUSED_MATMUL_EFF} of peak",
    f"{ {3.0: 'three', 10.0: 'ten'}[attention.MISALIGNED_SLOWDOWN] } times slower when d is not a multiple of 8".replace("{ ", "").replace(" }", ""),
    f"in-domain part {collectives.NVLS_GAIN}x",
    "{:.0f} / {:.0f} per token and hidden element with dropout".format(*elementwise.hidden_bytes(MEGATRON_2021)),
    "({:.0f} / {:.0f} without".format(*elementwise.hidden_bytes(FUSED)),
    "{:.0f} / {:.0f} per feed-forward element with GELU".format(*elementwise.activation_bytes(0)),
    "({:.0f} / {:.0f} gated)".format(*elementwise.activation_bytes(1)),
    f"{activations.SCORE_BYTES:.0f} a s / T more where scores are kept",
]


@pytest.mark.parametrize("text", CONSTANTS)
def test_constants_on_the_page_are_those_of_the_code(text):
    assert text in " ".join(COSTMODEL.split())


def test_grouped_products_and_the_wave_term():
    assert gemm.TILE == 128 * 256
    assert gemm.grouped_efficiency(250.0) == 0.5 and "n / (n + 250)" in COSTMODEL


def test_every_module_of_formulas_is_named_on_a_page():
    pages = " ".join(p.read_text(encoding="utf-8") for p in PAGES)
    support = {"__init__", "_jit", "types", "records", "examples"}
    missing = [p.name for p in (ROOT / "costmodels").glob("*.py") if p.stem not in support and p.name not in pages and f"costmodels.{p.stem}" not in pages]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_and_paths_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:autotune|costmodels|searchspaces|results|scripts|docs|examples)/[\w/.-]+\.(?:py|md|yaml|csv|sh))`", text):
        # Names in capitals stand for a name of the reader's choice.
        if not re.search(r"[A-Z]{3}", path):
            assert (ROOT / path).exists(), path


def test_the_page_of_the_architecture_names_what_a_test_holds():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert "tests -> autotune -> searchspaces -> costmodels" in page
    for module in re.findall(r"`([a-z_]+\.py)`", page):
        assert list(ROOT.glob(f"autotune/**/{module}")) or list(ROOT.glob(f"costmodels/{module}")) or list(ROOT.glob(f"searchspaces/{module}")), module
