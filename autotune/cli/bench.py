"""`autotune bench`: the speed of the search kernel."""

from __future__ import annotations

import click


@click.command()
@click.option("--seconds", default=7.0, show_default=True, type=click.FloatRange(0.1, 60), help="Length of the kernel runs on one thread, and on all; they take turns.")
@click.option("--json", "as_json", is_flag=True)
def command(seconds: float, as_json: bool) -> None:
    """Measure fully priced points per CPU-second, operations per point, and one whole search."""
    from autotune.bench import bench
    from autotune.output import console, print_json

    d = bench(seconds)
    if as_json:
        print_json(d)
        return
    k, s = d["kernel"], d["search"]
    rates = [run["points_per_cpu_s"] / 1e6 for run in k["one_thread"]]
    lowest, highest = min(rates), max(rates)
    out = console()
    out.print(f"kernel: {k['points_per_cpu_s'] / 1e6:.2f} M points per CPU-second on one thread ({lowest:.2f} to {highest:.2f}), {k['operations_per_point']:.0f} operations per point")
    out.print(f"        {k['points_per_s'] / 1e6:.2f} M points/s on {k['threads']} threads, {k['speed_up']:.2f}x one thread, {k['cpus_busy']:.2f} CPUs busy")
    out.print(f"search: GPT-3 175B on 1,024 A100, {s['points_total']:,} points in {s['wall_s']:.2f} s wall, {s['cpu_s']:.2f} CPU s, {s['trials']} trials")
    out.print(f"peak memory {d['peak_memory_MB']:.0f} MB; load {d['load'][0]:.1f}; {d['cpu']}")
