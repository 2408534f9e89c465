"""Pictures of fits: a curve through points, and forecasts over the time that was held out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from saccade.plots.attention import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    cycle_colors,
    image_format,
    style_axes,
    write_figure,
)

FloatArray = NDArray[np.float64]
MAX_PLOTTED_POINTS = 2000  # values of a line, or dots: more cannot be told apart


class PlotLine(NamedTuple):
    """One line of a picture."""

    label: str
    x: FloatArray
    y: FloatArray


class HorizonErrors(NamedTuple):
    """The error of forecasts 1, 2, … values ahead, and that of saying the last value again."""

    errors: FloatArray
    naive: FloatArray


# --- a curve ------------------------------------------------------------------------------------


def save_regression_fit(
    points: PlotLine,
    fits: Sequence[PlotLine],
    path: Path,
    truth: PlotLine | None = None,
    average: float = 0.0,
) -> None:
    """Draw points, the curve they come from if it is known, fits to them, and their average."""
    write_figure(regression_figure(points, fits, truth, average), path, image_format(path))


def regression_figure(
    points: PlotLine, fits: Sequence[PlotLine], truth: PlotLine | None, average: float
) -> Figure:
    """Fits are drawn in their order, the last one above the others."""
    figure, axes = _panels([4.5])
    panel = axes[0]
    some = _some(len(points.x))
    panel.plot(
        points.x[some],
        points.y[some],
        "o",
        color=MUTED_COLOR,
        ms=4,
        alpha=0.7,
        mew=0,
        label=points.label,
    )
    panel.axhline(average, color=MUTED_COLOR, lw=1.0, ls=(0, (1, 2)), label="plain average")
    if truth is not None:
        panel.plot(truth.x, truth.y, color=TEXT_COLOR, lw=1.2, ls=(0, (4, 3)), label=truth.label)
    for fit, colour in zip(fits, _strongest_last(len(fits)), strict=True):
        panel.plot(fit.x, fit.y, color=colour, lw=1.8, label=fit.label)
    panel.set_xlabel("x", color=MUTED_COLOR, fontsize=9)
    style_axes(panel, "y")
    return figure


def _strongest_last(count: int) -> list[str]:
    """The last line is the one that counts: it is blue in every picture."""
    return [*cycle_colors(count)[1:], LINE_COLORS[0]] if count > 1 else cycle_colors(count)


# --- forecasts ----------------------------------------------------------------------------------


def save_forecasts(
    series: PlotLine,
    forecasts: Mapping[int, PlotLine],
    rollout: PlotLine,
    growth: HorizonErrors,
    path: Path,
) -> None:
    """Draw a series with forecasts so many values ahead, and how their error grows.

    `free` is the forecast that starts once and reads nothing but its own answers.
    """
    write_figure(forecast_figure(series, forecasts, rollout, growth), path, image_format(path))


def forecast_figure(
    series: PlotLine, forecasts: Mapping[int, PlotLine], rollout: PlotLine, growth: HorizonErrors
) -> Figure:
    """Time above, the error against the number of values ahead below."""
    figure, (above, below) = _panels([3.6, 2.2])
    some = _some(len(series.x))
    above.plot(series.x[some], series.y[some], color="#c4c9d1", lw=0.9, label=series.label)
    for (_, line), colour in zip(forecasts.items(), cycle_colors(len(forecasts)), strict=True):
        above.plot(line.x, line.y, color=colour, lw=1.3, label=line.label)
    above.plot(rollout.x, rollout.y, color=TEXT_COLOR, lw=1.2, ls=(0, (4, 3)), label=rollout.label)
    low, high = _room_for([series.y, *(line.y for line in forecasts.values())])
    above.set_ylim(low, high)  # a forecast that runs away must not press the others flat
    above.set_xlabel("time", color=MUTED_COLOR, fontsize=9)
    style_axes(above, "value")
    draw_horizon_errors(below, growth, list(forecasts))
    return figure


def draw_horizon_errors(axes: Axes, growth: HorizonErrors, marked: Sequence[int]) -> None:
    """The error against the number of values ahead; those drawn above are marked."""
    steps = np.arange(1, len(growth.errors) + 1)
    axes.plot(
        steps, growth.naive, color=MUTED_COLOR, lw=1.2, ls=(0, (1, 2)), label="last value again"
    )
    axes.plot(steps, growth.errors, color=TEXT_COLOR, lw=1.4, label="forecast")
    for ahead, colour in zip(marked, cycle_colors(len(marked)), strict=True):
        axes.plot([ahead], [growth.errors[ahead - 1]], "o", color=colour, ms=5)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("values ahead", color=MUTED_COLOR, fontsize=9)
    style_axes(axes, "error (rmse)")


def _room_for(rows: Sequence[FloatArray]) -> tuple[float, float]:
    """From the lowest to the highest of all but a few values, with a little air."""
    values = np.concatenate([row[np.isfinite(row)] for row in rows])
    low, high = np.quantile(values, [0.002, 0.998])
    air = 0.08 * (high - low) or 1.0
    return float(low - air), float(high + air)


def _some(count: int) -> NDArray[np.int64]:
    return np.unique(
        np.linspace(0, count - 1, min(count, MAX_PLOTTED_POINTS)).round().astype(np.int64)
    )


def _panels(heights: list[float]) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(8, sum(heights) + 0.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)
    return figure, axes.flatten().tolist()
