"""Picture of a support vector machine in the plane: points, decision boundary and margin."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.inspection.figures import DecisionFunction, SVMMargin, evaluate_margin
from saccade.plots.style import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    image_format,
    style_axes,
    write_figure,
)
from saccade.types.arrays import FloatArray

MAX_DECISION_LEVEL = 4  # contour lines are drawn up to this |f|
# f < -1, -1 to 0, 0 to 1, f > 1
REGION_COLORS = ("#d9e8f2", "#edf4f9", "#fcf0e7", "#f8dfcb")


def save_margin(
    points: FloatArray,
    labels: NDArray[Any],
    support: NDArray[np.bool_],
    decision_function: DecisionFunction,
    path: Path,
) -> None:
    """Draw (N, 2) points of two classes with f = 0, the margin f = ±1 and the support vectors.

    `decision_function` returns f of (T, 2) points, positive for the second class.
    """
    save_svm_margin(evaluate_margin(points, labels, support, decision_function), path)


def save_svm_margin(margin: SVMMargin, path: Path) -> list[str]:
    """Draw an `SVMMargin`; return warnings."""
    format = image_format(path)
    write_figure(margin_figure(margin), path, format)
    return []


def margin_figure(margin: SVMMargin) -> Figure:
    """Return the figure of points, support vectors and contours of the decision function."""
    points, support = margin.points, margin.support
    figure = Figure(figsize=(7, 5.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    draw_decision_levels(axes, margin)
    for name, colour in zip(np.unique(margin.labels), LINE_COLORS, strict=False):
        members = points[margin.labels == name]
        axes.plot(*members.T, "o", color=colour, ms=5, mew=0, label=f"class {name}")
    axes.plot(
        *points[support].T,
        "o",
        ms=9,
        mfc="none",
        mec=TEXT_COLOR,
        mew=1.0,
        label=f"support vectors ({int(support.sum())} of {len(points)})",
    )
    axes.set_xlabel("first column", color=MUTED_COLOR, fontsize=9)
    style_axes(axes, "second column")
    axes.grid(visible=False)
    return figure


def draw_decision_levels(axes: Axes, margin: SVMMargin) -> None:
    """Draw both half-planes, f = 0, the margin f = ±1, and contour lines beyond it."""
    x, y, f = margin.x, margin.y, margin.decision
    outermost = float(np.abs(f).max()) + 2
    axes.contourf(x, y, f, levels=[-outermost, -1, 0, 1, outermost], colors=REGION_COLORS)
    beyond_margin = [
        level for level in range(-MAX_DECISION_LEVEL, MAX_DECISION_LEVEL + 1) if abs(level) > 1
    ]
    for levels, style, width, colour in (
        (beyond_margin, "solid", 0.5, "#c4c9d1"),
        ([-1, 1], "dashed", 1.2, TEXT_COLOR),
        ([0], "solid", 1.6, TEXT_COLOR),
    ):
        present = [level for level in levels if f.min() < level < f.max()]
        if present:  # matplotlib warns of levels outside the range of f
            lines = axes.contour(
                x, y, f, levels=present, colors=colour, linestyles=style, linewidths=width
            )
            axes.clabel(lines, fmt="%g", fontsize=7)
