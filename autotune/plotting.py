"""Pictures: the only module that imports matplotlib. Every chart is written as SVG and PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Series = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def _figure(width: float = 7.0, height: float = 4.5) -> Any:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "autotune"  # equal input gives equal files
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: str | Path) -> list[Path]:
    from matplotlib import pyplot

    written = []
    for suffix in (".svg", ".png"):
        target = Path(path).with_name(Path(path).name + suffix)
        figure.savefig(target, dpi=130, metadata={"Date": None} if suffix == ".svg" else {"Software": None})
        written.append(target)
    pyplot.close(figure)
    return written


def line_chart(
    path: str | Path, title: str, xlabel: str, ylabel: str, series: Series, logx: bool = False, logy: bool = False
) -> list[Path]:
    """Curves, one per name: `{name: (xs, ys)}`. Points are marked, since each is one computed value."""
    figure, axes = _figure()
    for name, (xs, ys) in series.items():
        axes.plot(xs, ys, marker="o", markersize=4, label=name)
    if logx:
        axes.set_xscale("log", base=2)
        ticks = sorted({x for xs, _ in series.values() for x in xs})
        if len(ticks) <= 12:
            axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
            axes.minorticks_off()
    if logy:
        axes.set_yscale("log")
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.grid(alpha=0.3)
    if len(series) > 1:
        axes.legend(fontsize="small")
    return _save(figure, path)


def bar_chart(
    path: str | Path, title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], ylabel: str, stacked: bool = False
) -> list[Path]:
    """Bars: one group per label, one bar (or stacked part) per series."""
    figure, axes = _figure(max(5.0, 1.1 * len(labels) + 2))
    width = 0.8 / (1 if stacked else max(1, len(series)))
    base = [0.0] * len(labels)
    for i, (name, values) in enumerate(series.items()):
        xs = [x + (0 if stacked else (i - (len(series) - 1) / 2) * width) for x in range(len(labels))]
        axes.bar(xs, values, width, bottom=base if stacked else None, label=name)
        if stacked:
            base = [b + v for b, v in zip(base, values, strict=True)]
    axes.set_xticks(range(len(labels)), labels, rotation=25 if len(labels) > 4 else 0, ha="right" if len(labels) > 4 else "center")
    axes.set(title=title, ylabel=ylabel)
    axes.grid(alpha=0.3, axis="y")
    if len(series) > 1:
        axes.legend(fontsize="small")
    return _save(figure, path)


def heat_map(
    path: str | Path, title: str, matrix: Any, xlabel: str, ylabel: str, colour_label: str, log: bool = False
) -> list[Path]:
    """A matrix as colours; zeros stay white on a log scale."""
    import numpy

    figure, axes = _figure(6.2, 5.2)
    from matplotlib.colors import LogNorm

    data = numpy.asarray(matrix, dtype=float)
    positive = data[data > 0]
    norm = LogNorm(positive.min(), positive.max()) if log and positive.size and positive.min() < positive.max() else None
    shown = numpy.ma.masked_where(data <= 0, data) if log else data
    image = axes.imshow(shown, norm=norm, cmap="viridis", interpolation="nearest", aspect="auto")
    figure.colorbar(image, label=colour_label)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return _save(figure, path)


def scatter_chart(
    path: str | Path, title: str, xlabel: str, ylabel: str, series: Series, log: bool = False, diagonal: bool = False
) -> list[Path]:
    """Points; `diagonal` draws the line of equality (parity plots)."""
    figure, axes = _figure(6.0, 5.6)
    for name, (xs, ys) in series.items():
        axes.scatter(xs, ys, s=12, alpha=0.6, label=name)
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    if diagonal:
        values = [v for xs, ys in series.values() for v in (*xs, *ys) if v > 0]
        if values:
            axes.plot([min(values), max(values)], [min(values), max(values)], color="black", linewidth=0.8)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.grid(alpha=0.3)
    if len(series) > 1:
        axes.legend(fontsize="x-small")
    return _save(figure, path)
