"""A picture of a machine that divides a plane: points, the line between them, and its margin."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.plots.attention import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    image_format,
    style_axes,
    write_figure,
)

FloatArray = NDArray[np.float64]
DecisionFunction = Callable[[FloatArray], FloatArray]

DECISION_GRID_POINTS = 200  # places along each side at which the machine is asked
MAX_DECISION_LEVEL = 4  # level lines are drawn up to this value on either side
REGION_COLORS = (
    "#dde7f5",
    "#eef3fa",
    "#fbeef0",
    "#f6dde1",
)  # from inside the first to inside the second


def save_margin(
    points: FloatArray,
    labels: NDArray[Any],
    support: NDArray[np.bool_],
    decision_function: DecisionFunction,
    path: Path,
) -> None:
    """Draw (N, 2) points of two classes with f = 0, the margin f = ±1 and the support vectors."""
    write_figure(
        margin_figure(points, labels, support, decision_function), path, image_format(path)
    )


def margin_figure(
    points: FloatArray,
    labels: NDArray[Any],
    support: NDArray[np.bool_],
    decision_function: DecisionFunction,
) -> Figure:
    """The figure; `decide` gives f of (T, 2) points, over 0 for the second class."""
    names = np.unique(labels)
    if points.ndim != 2 or points.shape[1] != 2 or len(names) != 2:
        raise ValueError(
            f"got points of shape {points.shape} in {len(names)} classes; a margin can be drawn "
            "of two columns and two classes."
        )
    figure = Figure(figsize=(7, 5.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    draw_decision_levels(axes, points, decision_function)
    for name, colour in zip(names, LINE_COLORS, strict=False):
        of = points[labels == name]
        axes.plot(*of.T, "o", color=colour, ms=5, mew=0, label=f"class {name}")
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


def draw_decision_levels(
    axes: Axes, points: FloatArray, decision_function: DecisionFunction
) -> None:
    """The plane by f: both sides, f = 0, the margin, and lines of equal f beyond it."""
    low, high = points.min(axis=0), points.max(axis=0)
    air = 0.08 * (high - low) + 1e-9
    x, y = (np.linspace(low[d] - air[d], high[d] + air[d], DECISION_GRID_POINTS) for d in (0, 1))
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    f = decision_function(grid).reshape(DECISION_GRID_POINTS, DECISION_GRID_POINTS)
    far = float(np.abs(f).max()) + 2
    axes.contourf(x, y, f, levels=[-far, -1, 0, 1, far], colors=REGION_COLORS)
    beyond = [
        level for level in range(-MAX_DECISION_LEVEL, MAX_DECISION_LEVEL + 1) if abs(level) > 1
    ]
    for levels, style, width, colour in (
        (beyond, "solid", 0.5, "#c4c9d1"),
        ([-1, 1], "dashed", 1.2, TEXT_COLOR),
        ([0], "solid", 1.6, TEXT_COLOR),
    ):
        there = [level for level in levels if f.min() < level < f.max()]
        if there:  # matplotlib warns of levels that are nowhere
            lines = axes.contour(
                x, y, f, levels=there, colors=colour, linestyles=style, linewidths=width
            )
            axes.clabel(lines, fmt="%g", fontsize=7)
