"""Pictures of comparisons: models over seconds, and layers over lengths."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.plots.attention import (
    LINE_COLORS,
    MUTED_COLOR,
    cycle_colors,
    image_format,
    style_axes,
    write_figure,
)

FloatArray = NDArray[np.float64]
COMPARISON_CURVE_POINTS = 200  # of a line
LINE_STYLES = ("-", "--", ":", "-.")  # where there are more lines than colours


def save_comparison(
    curves: Mapping[str, Sequence[FloatArray]],
    name: str,
    path: Path,
    x_label: str = "seconds of training",
) -> None:
    """Draw a line for each model, the mean over its seeds, with a band from worst to best.

    `curves` has for each model an array (evaluations, 2) a seed: seconds (or what it is drawn
    over), score. PNG, SVG or PDF by the path's ending.
    """
    form = image_format(path)
    if not any(len(points) for seeds in curves.values() for points in seeds):
        raise ValueError("got no evaluations to draw; train for more steps.")
    figure, (axes,) = _figure(1)
    for place, ((model, seeds), colour) in enumerate(
        zip(curves.items(), cycle_colors(len(curves)), strict=True)
    ):
        seconds, scores = align_curves(seeds)
        if not len(seconds):
            continue
        mean, last = scores.mean(axis=0), scores[:, -1]
        label = f"{model} {mean[-1]:.4g}"
        if len(seeds) > 1:
            label += f" ({last.min():.4g}–{last.max():.4g})"
            axes.fill_between(
                seconds, scores.min(axis=0), scores.max(axis=0), color=colour, alpha=0.15, lw=0
            )
        mark = "o" if len(seconds) == 1 else ""
        dash = LINE_STYLES[place // len(LINE_COLORS) % len(LINE_STYLES)]
        axes.plot(seconds, mean, dash, color=colour, lw=1.6, marker=mark, ms=3, label=label)
    axes.set_xlabel(x_label, color=MUTED_COLOR, fontsize=9)
    style_axes(axes, f"{name} on held-out data")
    write_figure(figure, path, form)


def align_curves(seeds: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """The curves of several seeds at the same seconds: (n,) and (seeds, n).

    From where all have been evaluated once to the end of the longest; one that ended before stays
    where it was.
    """
    seeds = [points for points in seeds if len(points)]
    if not seeds:
        return np.empty(0), np.empty((0, 0))
    first = max(points[0, 0] for points in seeds)
    last = max(points[-1, 0] for points in seeds)
    # the evaluations themselves, so that a lone curve is drawn as it was
    own = np.concatenate([points[:, 0] for points in seeds])
    seconds = np.unique(np.concatenate([np.linspace(first, last, COMPARISON_CURVE_POINTS), own]))
    seconds = seconds[seconds >= first] if last > first else np.array([last])
    return seconds, np.array([np.interp(seconds, points[:, 0], points[:, 1]) for points in seeds])


class LayerPanel:
    """What one panel of the picture of layers shows: a line for each layer, over lengths."""

    def __init__(self, name: str, lines: Mapping[str, tuple[Sequence[int], Sequence[float]]]):
        self.name, self.lines = name, lines


def save_layer_benchmark(panels: Sequence[LayerPanel], path: Path) -> None:
    """Draw what was measured of layers against the length, on logarithmic axes, side by side."""
    form = image_format(path)
    figure, every = _figure(len(panels))
    for axes, panel in zip(every, panels, strict=True):
        lines = panel.lines.items()
        # several layers may lie on one line: later ones are drawn thinner, so that all are seen
        for place, ((name, (lengths, values)), colour) in enumerate(
            zip(lines, cycle_colors(len(panel.lines)), strict=True)
        ):
            width = 3.4 - 0.7 * min(place, 3)
            axes.plot(lengths, values, color=colour, lw=width, marker="o", ms=3, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("length n", color=MUTED_COLOR, fontsize=9)
        style_axes(axes, panel.name)
    write_figure(figure, path, form)


def _figure(panels: int) -> tuple[Figure, list[Axes]]:
    size = (8.0, 5.0) if panels == 1 else (4.2 * panels, 4.2)
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, panels, squeeze=False).flatten().tolist()
