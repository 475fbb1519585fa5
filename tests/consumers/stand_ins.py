"""Lets Megatron, DeepSpeed and torchtitan be imported and questioned on a machine without a GPU.

Runs inside the consumers environment. Replaced, and only that: the compute capability of a GPU, the version number of
Transformer Engine with the names that code merely tests for, the `triton` package, and `typing.override` on Python 3.11.
All checks that are asked afterwards are the programs' own.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
import types
import typing
import warnings
from collections.abc import Iterator

TRANSFORMER_ENGINE = "2.14.0"
FUSED_NAMES = {
    "megatron.core.models.common.embeddings.rope_utils": (
        "fused_apply_rotary_pos_emb",
        "fused_apply_rotary_pos_emb_thd",
    ),
    "megatron.core.transformer.moe.moe_utils": (
        "fused_permute",
        "fused_permute_with_probs",
        "fused_sort_chunks_by_index",
        "fused_sort_chunks_by_index_with_probs",
        "fused_unpermute",
    ),
}


class _EmptyModule(types.ModuleType):
    """A module in which any public name is a class that does nothing."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("jit", "heuristics", "autotune"):
            return _decorator
        return type(name, (), {"__init__": lambda self, *a, **k: None, "__call__": lambda self, *a, **k: self})


def _decorator(*args, **kwargs):
    if args and callable(args[0]) and not kwargs:
        return args[0]
    return lambda function: function


class _EmptyPackage(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == self.root:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = _EmptyModule(spec.name)
        module.__version__ = "0.0.0"
        return module

    def exec_module(self, module) -> None:
        module.__path__ = []


def quiet() -> None:
    """No warnings and no log lines: the worker's answers are the output."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)


def without_triton() -> None:
    """Make `import triton` work, after torch has settled that there is none."""
    if not hasattr(typing, "override"):
        typing.override = lambda function: function
    try:
        import triton  # noqa: F401
    except ImportError:
        import torch._dynamo  # noqa: F401
        import torch._inductor.runtime.triton_compat  # noqa: F401
        from torch.utils._triton import has_triton, has_triton_package

        has_triton_package()
        has_triton()
        sys.meta_path.append(_EmptyPackage("triton"))


def pretend_gpu(major: int = 9, minor: int = 0) -> None:
    """A GPU of this compute capability, as far as questions go."""
    import torch

    properties = types.SimpleNamespace(
        major=major, minor=minor, name=f"sm{major}{minor}", total_memory=80 << 30, multi_processor_count=132
    )
    torch.cuda.get_device_properties = lambda *a, **k: properties
    torch.cuda.get_device_capability = lambda *a, **k: (major, minor)
    torch.cuda.current_device = lambda: torch.device("cpu")


def pretend_transformer_engine() -> None:
    """The version number that Megatron compares, and the fused functions it looks for."""
    import megatron.core.utils
    from packaging.version import Version

    megatron.core.utils._te_version = Version(TRANSFORMER_ENGINE)
    for module_name, names in FUSED_NAMES.items():
        module = importlib.import_module(module_name)
        for name in names:
            if getattr(module, name, None) is None:
                setattr(module, name, lambda *a, **k: None)


@contextlib.contextmanager
def fused_adam() -> Iterator[None]:
    """OptimizerConfig reads the signature of Transformer Engine's FusedAdam."""

    class FusedAdam:
        def __init__(self, params=None, lr=1e-3, master_weight_dtype=None, exp_avg_dtype=None, exp_avg_sq_dtype=None,
                     use_decoupled_grad=False, store_param_remainders=False) -> None:  # fmt: skip
            pass

    names = ["transformer_engine", "transformer_engine.pytorch", "transformer_engine.pytorch.optimizers"]
    modules = {name: types.ModuleType(name) for name in names}
    modules[names[-1]].FusedAdam = FusedAdam
    for name in names[:-1]:
        modules[name].__path__ = []
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)
