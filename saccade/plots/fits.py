"""Pictures of kernel regression and of forecasts over the held-out part of a series."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from saccade.inspection.attention_map import check_map, map_limit
from saccade.inspection.figures import ForecastCurves, HorizonErrors, KernelFit, PlotLine
from saccade.plots.attention import AXIS_FONT_SIZE, add_colorbar, draw_attention_map, map_font
from saccade.plots.fonts import missing_message
from saccade.plots.style import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    cycle_colors,
    image_format,
    style_axes,
    write_figure,
)
from saccade.types.arrays import FloatArray

MAX_PLOTTED_POINTS = 2000  # of a line or scatter plot; more cannot be distinguished
MAX_STRIP_POINTS = 200  # held-out values of a forecast; more would overplot
STRIP_INCHES = 1.15

# --- kernel regression --------------------------------------------------------------------------


def save_regression_fit(
    points: PlotLine,
    fits: Sequence[PlotLine],
    path: Path,
    truth: PlotLine | None = None,
    average: float = 0.0,
) -> None:
    """Draw points, the noiseless function if known, fits, and the mean of the targets."""
    save_kernel_fit(KernelFit(points, fits, average, truth), path)


def save_kernel_fit(fit: KernelFit, path: Path) -> list[str]:
    """Draw a kernel regression, with its attention map below if there is one; return warnings."""
    format = image_format(path)
    figure = regression_figure(fit.points, fit.fits, fit.truth, fit.mean, fit)
    write_figure(figure, path, format)
    missing = map_font([fit.attention]).missing if fit.attention is not None else []
    return [missing_message(missing)] if missing else []


def regression_figure(
    points: PlotLine,
    fits: Sequence[PlotLine],
    truth: PlotLine | None,
    average: float,
    kernel_fit: KernelFit | None = None,
) -> Figure:
    """Return the figure; fits are drawn in order, the last one on top."""
    attention = kernel_fit.attention if kernel_fit is not None else None
    figure, axes = _panels([4.5] if attention is None else [4.5, 4.5])
    panel = axes[0]
    kept = _evenly_spaced(len(points.x))
    panel.plot(
        points.x[kept],
        points.y[kept],
        "o",
        color=MUTED_COLOR,
        ms=4,
        alpha=0.7,
        mew=0,
        label=points.label,
    )
    panel.axhline(average, color=MUTED_COLOR, lw=1.0, ls=(0, (1, 2)), label="mean of the targets")
    if truth is not None:
        panel.plot(truth.x, truth.y, color=TEXT_COLOR, lw=1.2, ls=(0, (4, 3)), label=truth.label)
    for fit, colour in zip(fits, _last_is_blue(len(fits)), strict=True):
        panel.plot(fit.x, fit.y, color=colour, lw=1.8, label=fit.label)
    panel.set_xlabel("x", color=MUTED_COLOR, fontsize=9)
    style_axes(panel, "y")
    if attention is not None:
        font = map_font([check_map(attention)])
        draw_attention_map(axes[1], attention, font, 7.0, map_limit(attention))
        axes[1].set_aspect("auto")
        axes[1].xaxis.set_label_position("top")
        axes[1].set(xlabel=attention.across, ylabel=attention.down)
        for axis in (axes[1].xaxis, axes[1].yaxis):
            font.apply(axis.label, AXIS_FONT_SIZE, MUTED_COLOR)
        add_colorbar(axes[1], axes[1].inset_axes((1.02, 0.0, 0.015, 1.0)), font, 3.0)
    return figure


def _last_is_blue(count: int) -> list[str]:
    """Return line colours; the last one, for the result, is blue in every picture."""
    return [*cycle_colors(count)[1:], LINE_COLORS[0]] if count > 1 else cycle_colors(count)


# --- forecasts ----------------------------------------------------------------------------------


def save_forecasts(
    series: PlotLine,
    forecasts: Mapping[int, PlotLine],
    rollout: PlotLine,
    growth: HorizonErrors,
    path: Path,
) -> None:
    """Draw a series with forecasts at some horizons, and the error by horizon.

    `rollout` is one forecast that reads only its own predictions.
    """
    write_figure(forecast_figure(series, forecasts, rollout, growth), path, image_format(path))


def save_forecast_curves(curves: ForecastCurves, path: Path) -> list[str]:
    """Draw `ForecastCurves`; return warnings."""
    save_forecasts(curves.series, curves.forecasts, curves.rollout, curves.growth, path)
    return []


def forecast_figure(
    series: PlotLine, forecasts: Mapping[int, PlotLine], rollout: PlotLine, growth: HorizonErrors
) -> Figure:
    """Return the figure: a strip for each forecast over the series, the error by horizon below.

    Of a long series, the strips show the first held-out values and some before them.
    """
    lines = {**forecasts, 0: rollout}
    figure, axes = _panels([STRIP_INCHES] * len(lines) + [2.2])
    strips, below = axes[:-1], axes[-1]
    parts = [_first_points(line, MAX_STRIP_POINTS) for line in lines.values()]
    start, end = parts[0].x[0], parts[0].x[-1]
    before = max(len(parts[0].x) // 4, 1)
    first = max(int(np.searchsorted(series.x, start)) - before, 0)
    last = int(np.searchsorted(series.x, end, side="right"))
    truth = PlotLine(series.label, series.x[first:last], series.y[first:last])
    low, high = _value_limits([truth.y, *(line.y for line in parts[:-1])])
    colours = [*cycle_colors(len(forecasts)), TEXT_COLOR]
    for number, (panel, line, colour) in enumerate(zip(strips, parts, colours, strict=True)):
        label = truth.label if number == 0 else None
        panel.plot(truth.x, truth.y, color="#b9bfc9", lw=1.0, label=label)
        panel.plot(line.x, line.y, color=colour, lw=1.3, label=line.label)
        panel.axvline(float(start), color=MUTED_COLOR, lw=0.8, ls=(0, (4, 3)), zorder=0.5)
        panel.set_ylim(low, high)  # a diverging forecast must not flatten the other lines
        panel.set_xlim(float(truth.x[0]), max(float(end), float(truth.x[0]) + 1e-9))
        panel.tick_params(labelbottom=panel is strips[-1])
        style_axes(panel, "", legend=False)
        panel.legend(
            frameon=False,
            fontsize=8,
            labelcolor=TEXT_COLOR,
            loc="lower left",
            ncols=2,
            bbox_to_anchor=(0, 1.0),
            borderaxespad=0,
            borderpad=0,
        )
    total = len(rollout.x)
    part = (
        f", first {len(parts[0].x):,} of {total:,} held-out values"
        if len(parts[0].x) < total
        else ""
    )
    strips[-1].set_xlabel(f"time{part}", color=MUTED_COLOR, fontsize=9)
    draw_horizon_errors(below, growth, list(forecasts))
    return figure


def _first_points(line: PlotLine, count: int) -> PlotLine:
    return PlotLine(line.label, line.x[:count], line.y[:count])


def draw_horizon_errors(axes: Axes, growth: HorizonErrors, horizons: Sequence[int]) -> None:
    """Draw the error by horizon, with dots at the horizons whose forecasts are drawn above."""
    steps = np.arange(1, len(growth.errors) + 1)
    axes.plot(
        steps, growth.naive, color=MUTED_COLOR, lw=1.2, ls=(0, (1, 2)), label="naive (last value)"
    )
    axes.plot(steps, growth.errors, color=TEXT_COLOR, lw=1.4, label="forecast")
    for horizon, colour in zip(horizons, cycle_colors(len(horizons)), strict=True):
        axes.plot([horizon], [growth.errors[horizon - 1]], "o", color=colour, ms=5)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0.5, len(steps) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("horizon (steps ahead)", color=MUTED_COLOR, fontsize=9)
    style_axes(axes, "RMSE")


def _value_limits(rows: Sequence[FloatArray]) -> tuple[float, float]:
    """Return the 0.2 % and 99.8 % quantiles of all finite values, with a margin."""
    values = np.concatenate([row[np.isfinite(row)] for row in rows])
    low, high = np.quantile(values, [0.002, 0.998])
    margin = 0.08 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def _evenly_spaced(count: int) -> NDArray[np.int64]:
    return np.unique(
        np.linspace(0, count - 1, min(count, MAX_PLOTTED_POINTS)).round().astype(np.int64)
    )


def _panels(heights: list[float]) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(8, sum(heights) + 0.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)
    return figure, axes.flatten().tolist()
