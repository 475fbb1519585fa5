"""The shape of the code: which package may import which, sizes, docstrings, start-up, and what the wheel holds."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("costmodels", "searchspaces", "autotune")  # each may import those before it and itself
OUTSIDE = {
    "costmodels": {"numpy", "numba", "llvmlite"},
    "searchspaces": {"numpy"},
    "autotune": {
        "numpy", "numba", "optuna", "joblib", "yaml", "pydantic", "pydantic_core", "click", "rich", "matplotlib", "jinja2", "scipy",
        "defusedxml", "tree_sitter", "tree_sitter_bash", "psycopg", "cmaes", "huggingface_hub",
    },
}  # fmt: skip
ONE_MODULE = {
    "yaml": {"autotune/load.py", "autotune/yaml_lines.py"},
    "optuna": {"autotune/study.py"},
    "joblib": {"autotune/parallel.py"},
    "matplotlib": {"autotune/plotting.py"},
    "numba": {"costmodels/_jit.py"},
    "llvmlite": {"costmodels/_jit.py"},
}
MOST_LINES = 400
MOST_FUNCTION_LINES = 60


@cache
def modules() -> dict[str, ast.Module]:
    """Path from the root -> syntax tree of every module of the packages."""
    paths = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
    assert len(paths) > 100
    return {p.relative_to(ROOT).as_posix(): ast.parse(p.read_text(encoding="utf-8")) for p in paths}


def imports(tree: ast.Module) -> set[str]:
    """Top-level names of everything a module imports, inside functions too; never relative."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import at line {node.lineno}"
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_only_point_right(package):
    allowed = set(PACKAGES[: PACKAGES.index(package) + 1]) | OUTSIDE[package] | set(sys.stdlib_module_names)
    for path, tree in modules().items():
        if path.startswith(f"{package}/"):
            assert imports(tree) <= allowed, path


@pytest.mark.parametrize("library", ONE_MODULE)
def test_each_heavy_library_has_one_module(library):
    users = {path for path, tree in modules().items() if library in imports(tree)}
    assert users and users <= ONE_MODULE[library]


def test_the_model_reads_no_files():
    """costmodels and searchspaces are functions of numbers; only the compiler cache knows of folders."""
    for path, tree in modules().items():
        if path.startswith(("costmodels/", "searchspaces/")) and path != "costmodels/_jit.py":
            assert not imports(tree) & {"os", "pathlib", "json", "csv", "io", "subprocess"}, path
            calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
            assert "open" not in calls and "print" not in calls, path


def test_modules_and_functions_stay_small():
    too_long = {p: n for p in modules() if (n := len((ROOT / p).read_text(encoding="utf-8").splitlines())) > MOST_LINES}
    assert not too_long
    long_functions = {}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                start = node.body[1].lineno if ast.get_docstring(node) and len(node.body) > 1 else node.lineno
                length = (node.end_lineno or 0) - start + 1
                if length > MOST_FUNCTION_LINES:
                    long_functions[f"{path}:{node.name}"] = length
    assert not long_functions


def test_no_catch_all_modules():
    names = {Path(p).stem for p in modules()}
    assert not names & {"utils", "util", "helpers", "misc", "common"}


def _public(tree: ast.Module):
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from (n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_"))


def test_everything_public_says_what_it_is():
    silent = [f"{path}: module" for path, tree in modules().items() if tree.body and not ast.get_docstring(tree)]
    for path, tree in modules().items():
        overrides = {n.name for n in tree.body if isinstance(n, ast.ClassDef) and n.bases}
        for node in _public(tree):
            inherited = isinstance(node, ast.FunctionDef) and _overrides(tree, node, overrides)
            if not ast.get_docstring(node) and not inherited:
                silent.append(f"{path}: {node.name}")
    assert not silent


def _overrides(tree: ast.Module, function: ast.FunctionDef, derived: set[str]) -> bool:
    # A method of a derived class may inherit its meaning from the base.
    return any(isinstance(c, ast.ClassDef) and c.name in derived and function in c.body for c in tree.body)


def test_nothing_unfinished():
    for path in modules():
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not any(word in text for word in ("TODO", "FIXME", "XXX", "NotImplementedError")), path


def loaded_after(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after running `code`."""
    program = f"import json, sys\n{code}\nprint(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY = {"numpy", "numba", "llvmlite", "optuna", "joblib", "yaml", "matplotlib", "pydantic", "jinja2", "scipy", "rich", "sqlalchemy"}


def test_help_loads_nothing_heavy():
    code = "import sys\nfrom autotune.cli import cli\nsys.argv = ['autotune', '--help']\ntry:\n    cli.main(['--help'], standalone_mode=False)\nexcept SystemExit:\n    pass"
    assert not loaded_after(code) & HEAVY


def test_the_model_loads_without_the_application():
    loaded = loaded_after("import costmodels.iteration, costmodels.rail_only_paper, searchspaces.kernel, searchspaces.placement")
    assert "numba" in loaded and "autotune" not in loaded
    assert not loaded & (HEAVY - {"numpy", "numba", "llvmlite", "yaml", "scipy"})  # numba itself may look for yaml and scipy


def test_list_and_show_do_not_compile():
    assert "optuna" not in loaded_after("from autotune.load import load_cluster, load_model\nload_cluster('h100-rail-1024'); load_model('gpt-175b')")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", *PACKAGES, "results", "tests"):
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        elif path.exists():
            shutil.copy(path, source / name)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "--retries", "1", "--timeout", "10", "-w", str(folder), str(source)]
    for options in (["--no-build-isolation"], []):  # the tools that are installed, else those pip can fetch
        done = subprocess.run([*build, *options], capture_output=True, text=True)
        if done.returncode == 0:
            break
    else:
        missing = ("bdist_wheel" in done.stderr, "No module named" in done.stderr, "Could not find a version" in done.stderr)
        assert any(missing), done.stderr
        pytest.skip("no build tools here, and none can be fetched")
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_the_three_packages_and_nothing_else(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}
    assert tops == set(PACKAGES)
    record = next(n for n in wheel.namelist() if n.endswith("top_level.txt"))
    assert set(wheel.read(record).decode().split()) == set(PACKAGES)
    entry = next(n for n in wheel.namelist() if n.endswith("entry_points.txt"))
    assert "autotune = autotune.cli:main" in wheel.read(entry).decode()


def test_the_wheel_holds_all_package_data(wheel):
    names = set(wheel.namelist())
    for path in (ROOT / "autotune").rglob("*"):
        if path.suffix in (".yaml", ".csv", ".j2", ".py") and "__pycache__" not in path.parts:
            assert path.relative_to(ROOT).as_posix() in names
    assert any(n.startswith("autotune/catalogue/models/") for n in names)
