#!/usr/bin/env python3
"""Time one GPU (and its node) with PyTorch, for `autotune calibrate`. About ten minutes.

    python scripts/measure_gpu.py --out gpu.json                       # one GPU
    torchrun --nproc-per-node 8 scripts/measure_gpu.py --out gpu.json  # with collectives over the node's GPUs

Needs only PyTorch. Each operator is warmed up and timed several times; the median is kept. Run it on an idle GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

GEMM_TOKENS = (1024, 2048, 4096, 8192, 16384)
GEMM_SHAPES = ((4096, 4096), (12288, 4096), (4096, 16384), (8192, 8192), (28672, 8192), (8192, 28672))
ATTENTION = ((4, 32, 2048, 128), (2, 32, 4096, 128), (1, 32, 8192, 128), (1, 32, 16384, 128))
ELEMENTWISE_MIB = (64, 256, 1024)
LAUNCH_KERNELS = (200, 400)
COLLECTIVE_MIB = (1, 4, 16, 64, 256, 1024)
QUICK = {"gemm": 2, "attention": 1, "elementwise": 1, "launch": 1, "collectives": 2}


def median_seconds(run: Callable[[], Any], clock: Callable[[Callable[[], Any]], float], repeats: int, warmup: int = 3) -> float:
    """Median time of `run` over `repeats`, after `warmup` calls. `clock` times one call on the device."""
    for _ in range(warmup):
        run()
    return statistics.median(clock(run) for _ in range(repeats))


class Torch:
    """The operators, on a device. Kept apart so that the plan and the file format can be tested without a GPU."""

    def __init__(self, device: str) -> None:
        import torch

        self.torch = torch
        self.device = device
        self.dtype = torch.bfloat16

    def name(self) -> str:
        return self.torch.cuda.get_device_name() if self.device.startswith("cuda") else "cpu"

    def clock(self, run: Callable[[], Any]) -> float:
        if not self.device.startswith("cuda"):
            start = time.perf_counter()
            run()
            return time.perf_counter() - start
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        self.torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def host_clock(self, run: Callable[[], Any]) -> float:
        """Time until the CPU has issued everything: what limits small layers."""
        self.synchronize()
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        self.synchronize()
        return seconds

    def synchronize(self) -> None:
        if self.device.startswith("cuda"):
            self.torch.cuda.synchronize()

    def gemm(self, m: int, n: int, k: int) -> Callable[[], Any]:
        a = self.torch.randn(m, k, device=self.device, dtype=self.dtype)
        b = self.torch.randn(k, n, device=self.device, dtype=self.dtype)
        return lambda: a @ b

    def attention(self, batch: int, heads: int, seq: int, head_dim: int, backward: bool) -> Callable[[], Any]:
        shape = (batch, heads, seq, head_dim)
        q, k, v = (self.torch.randn(shape, device=self.device, dtype=self.dtype, requires_grad=backward) for _ in range(3))
        attend = self.torch.nn.functional.scaled_dot_product_attention
        if not backward:
            return lambda: attend(q, k, v, is_causal=True)
        out = attend(q, k, v, is_causal=True)
        grad = self.torch.randn_like(out)
        return lambda: self.torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)

    def add(self, nbytes: int) -> Callable[[], Any]:
        a = self.torch.zeros(nbytes // 6, device=self.device, dtype=self.dtype)  # reads two tensors, writes one
        b, out = self.torch.zeros_like(a), self.torch.zeros_like(a)
        return lambda: self.torch.add(a, b, out=out)

    def small_kernels(self, count: int) -> Callable[[], Any]:
        a = self.torch.zeros(8, device=self.device)

        def run() -> None:
            for _ in range(count):
                a.add_(1.0)

        return run

    def collective(self, name: str, nbytes: int, ranks: int) -> Callable[[], Any]:
        dist = self.torch.distributed
        full = self.torch.zeros(nbytes // 2 // ranks * ranks, device=self.device, dtype=self.dtype)
        part = self.torch.zeros(full.numel() // ranks, device=self.device, dtype=self.dtype)
        if name == "all_reduce":
            return lambda: dist.all_reduce(full)
        if name == "all_gather":
            return lambda: dist.all_gather_into_tensor(full, part)
        if name == "reduce_scatter":
            return lambda: dist.reduce_scatter_tensor(part, full)
        other = self.torch.zeros_like(full)
        return lambda: dist.all_to_all_single(other, full)


def _take(items: Iterable[Any], section: str, quick: bool) -> list[Any]:
    listed = list(items)
    return listed[: QUICK[section]] if quick else listed


def measure(backend: Any, ranks: int, quick: bool = False, note: Callable[[str], None] = print) -> dict[str, Any]:
    """Run every section on `backend` and return the document that is written to the file."""
    repeats = 3 if quick else 20
    table: dict[str, Any] = {"format": "autotune-gpu-table", "version": 1, "gpu": backend.name()}
    note("matrix products")
    shapes = [(m, n, k) for n, k in GEMM_SHAPES for m in GEMM_TOKENS]
    if quick:
        shapes = [(64, 64, 64), (128, 128, 64)]
    table["gemm"] = [
        {"m": m, "n": n, "k": k, "dtype": "bf16", "seconds": median_seconds(backend.gemm(m, n, k), backend.clock, repeats)} for m, n, k in shapes
    ]
    note("attention")
    sizes = [(1, 2, 64, 32)] if quick else list(ATTENTION)
    table["attention"] = [
        {"batch": b, "heads": a, "seq": s, "head_dim": d, "direction": direction,
         "seconds": median_seconds(backend.attention(b, a, s, d, direction == "backward"), backend.clock, repeats)}
        for b, a, s, d in sizes for direction in ("forward", "backward")
    ]  # fmt: skip
    note("element-wise")
    table["elementwise"] = [
        {"nbytes": mib << 20, "seconds": median_seconds(backend.add(mib << 20), backend.clock, repeats)}
        for mib in ([1] if quick else ELEMENTWISE_MIB)
    ]
    note("kernel launches")
    table["launch"] = [
        {"kernels": count, "seconds": median_seconds(backend.small_kernels(count), backend.host_clock, repeats)}
        for count in _take(LAUNCH_KERNELS, "launch", quick)
    ]
    table["collectives"] = []
    if ranks > 1:
        note(f"collectives over {ranks} GPUs")
        table["collectives"] = [
            {"collective": name, "ranks": ranks, "nbytes": mib << 20,
             "seconds": median_seconds(backend.collective(name, mib << 20, ranks), backend.clock, repeats)}
            for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
            for mib in _take(COLLECTIVE_MIB, "collectives", quick)
        ]  # fmt: skip
    return table


def main(argv: list[str] | None = None) -> None:
    """Measure and write the file; with torchrun only rank 0 writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="JSON file to write")
    parser.add_argument("--device", default="", help="cuda:0, cpu, ...; default cuda when there is one")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the script")
    args = parser.parse_args(argv)
    import torch

    rank, ranks = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = args.device or (f"cuda:{rank}" if torch.cuda.is_available() else "cpu")
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
    if ranks > 1:
        torch.distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    table = measure(Torch(device), ranks, args.quick, note=(lambda text: print(text, flush=True)) if rank == 0 else (lambda text: None))
    if rank == 0:
        with open(args.out, "w", encoding="utf-8") as handle:
            json.dump(table, handle, indent=1)
            handle.write("\n")
        print(f"wrote {args.out}; next: autotune calibrate {args.out} --cluster cluster.yaml --out calibration.yaml")
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
