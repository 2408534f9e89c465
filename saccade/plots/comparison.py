"""Pictures of comparisons: scores of models over training, and costs of layers over length."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from saccade.inspection.figures import ComparisonCurves, LayerBenchmark, LayerPanel
from saccade.plots.style import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    add_legend_below,
    cycle_colors,
    image_format,
    nested_lines,
    style_axes,
    use_log_axis,
    write_figure,
)
from saccade.types.arrays import FloatArray

COMPARISON_CURVE_POINTS = 200  # of a line
LINE_STYLES = ("-", "--", ":", "-.")  # for more lines than colours


def save_comparison(
    curves: Mapping[str, Sequence[FloatArray]],
    name: str,
    path: Path,
    x_label: str = "seconds of training",
) -> None:
    """Draw the mean score of each model over its seeds, with a band from lowest to highest.

    `curves` has for each model one (evaluations, 2) array per seed: x (seconds or steps) and
    score. If no model was evaluated more than once, the scores are drawn as dots by model.
    """
    save_comparison_curves(ComparisonCurves(curves, name, x_label), path)


def save_comparison_curves(comparison: ComparisonCurves, path: Path) -> list[str]:
    """Draw `ComparisonCurves`; return warnings."""
    format = image_format(path)
    curves = comparison.curves
    if not any(len(points) for seeds in curves.values() for points in seeds):
        raise ValueError("got no evaluations to draw; train for more steps.")
    once = all(len(points) <= 1 for seeds in curves.values() for points in seeds)
    figure = final_score_figure(comparison) if once else comparison_figure(comparison)
    write_figure(figure, path, format)
    return []


def comparison_figure(comparison: ComparisonCurves) -> Figure:
    """Return the figure of scores over training, a line per model."""
    figure = Figure(figsize=(8.0, 5.0), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    colours = cycle_colors(len(comparison.curves))
    for number, (model, seeds) in enumerate(comparison.curves.items()):
        x, scores = align_curves(seeds)
        if not len(x):
            continue
        mean, last, colour = scores.mean(axis=0), scores[:, -1], colours[number]
        label = f"{model} {mean[-1]:.4g}"
        if len(seeds) > 1:
            label += f" ({last.min():.4g}–{last.max():.4g})"
            axes.fill_between(
                x, scores.min(axis=0), scores.max(axis=0), color=colour, alpha=0.15, lw=0
            )
        marker = "o" if len(x) == 1 else ""
        style = LINE_STYLES[number // len(LINE_COLORS) % len(LINE_STYLES)]
        axes.plot(x, mean, style, color=colour, lw=1.6, marker=marker, ms=5, label=label)
    axes.set_xlabel(comparison.x_label, color=MUTED_COLOR, fontsize=9)
    style_axes(axes, f"{comparison.metric} on held-out data", legend=False)
    add_legend_below(figure, axes, columns=min(len(comparison.curves), 3))
    return figure


def final_score_figure(comparison: ComparisonCurves) -> Figure:
    """Return the figure of one score per model and seed: models down the side, a dot per seed."""
    models = {
        model: np.array([points[-1, 1] for points in seeds if len(points)])
        for model, seeds in comparison.curves.items()
    }
    size = (8.0, 1.4 + 0.38 * len(models))
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    colours = cycle_colors(len(models))
    for row, (scores, colour) in enumerate(zip(models.values(), colours, strict=True)):
        if not len(scores):
            continue
        axes.plot(scores, np.full(len(scores), row), "o", color=colour, ms=7, mew=0, alpha=0.7)
        axes.plot([scores.mean()], [row], "|", color=TEXT_COLOR, ms=16, mew=1.4)
        axes.annotate(
            f"{scores.mean():.4g}",
            (scores.mean(), row),
            (0, 10),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=TEXT_COLOR,
        )
    axes.set_yticks(range(len(models)), list(models))
    axes.set_ylim(len(models) - 0.5, -0.7)
    axes.margins(x=0.08)
    style_axes(axes, "", legend=False)
    axes.tick_params(axis="y", labelsize=9, labelcolor=TEXT_COLOR)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.7)
    label = f"{comparison.metric} on held-out data (one evaluation per training)"
    axes.set_xlabel(label, color=MUTED_COLOR, fontsize=9)
    return figure


def align_curves(seeds: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Interpolate the curves of several seeds at the same x: (n,) and (seeds, n).

    From the first x at which all were evaluated to the end of the longest; a curve that ends
    earlier keeps its last value.
    """
    seeds = [points for points in seeds if len(points)]
    if not seeds:
        return np.empty(0), np.empty((0, 0))
    first = max(points[0, 0] for points in seeds)
    last = max(points[-1, 0] for points in seeds)
    # include the evaluations themselves, so that a single curve is drawn exactly
    evaluated = np.concatenate([points[:, 0] for points in seeds])
    x = np.unique(np.concatenate([np.linspace(first, last, COMPARISON_CURVE_POINTS), evaluated]))
    x = x[x >= first] if last > first else np.array([last])
    return x, np.array([np.interp(x, points[:, 0], points[:, 1]) for points in seeds])


def save_layer_benchmark(panels: Sequence[LayerPanel] | LayerBenchmark, path: Path) -> list[str]:
    """Draw the costs of layers against sequence length on logarithmic axes; return warnings."""
    panels = panels.panels if isinstance(panels, LayerBenchmark) else panels
    format = image_format(path)
    write_figure(layer_benchmark_figure(panels), path, format)
    return []


def layer_benchmark_figure(panels: Sequence[LayerPanel]) -> Figure:
    """Return the figure: two panels per row, and one legend for all."""
    across = min(len(panels), 2)
    down = -(-len(panels) // across)
    figure = Figure(figsize=(4.9 * across, 3.6 * down + 0.5), facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", h_pad=0.08, w_pad=0.08)
    grid: list[Axes] = figure.subplots(down, across, squeeze=False).flatten().tolist()
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    styles = dict(zip(names, nested_lines(len(names)), strict=True))  # layers may coincide
    handles: dict[str, Line2D] = {}
    for axes, panel in zip(grid, panels, strict=False):
        for name, (lengths, values) in panel.lines.items():
            colour, width = styles[name]
            [line] = axes.plot(lengths, values, color=colour, lw=width, marker="o", ms=2 + width)
            handles.setdefault(name, line)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({n for lengths, _ in panel.lines.values() for n in lengths}))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("sequence length n", color=MUTED_COLOR, fontsize=9)
        style_axes(axes, "", legend=False)
        use_log_axis(axes)
        axes.set_title(panel.name, color=TEXT_COLOR, fontsize=10, loc="left", fontweight="bold")
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    legend = figure.legend(
        handles.values(), handles, loc="outside upper left", ncols=len(handles), frameon=False
    )
    for text in legend.get_texts():
        text.set(fontsize=9, color=TEXT_COLOR)
    return figure
