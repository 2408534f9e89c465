"""Kernel-regression and forecast figures: their lines, labels and limits."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from saccade.inspection.figures import HorizonErrors, PlotLine
from saccade.plots.fits import (
    MAX_STRIP_POINTS,
    forecast_figure,
    regression_figure,
    save_forecasts,
    save_regression_fit,
)
from saccade.plots.style import LINE_COLORS
from tests.plots.overlaps import overlapping_texts

X = np.linspace(0, 1, 30)
POINTS = PlotLine("30 points", X, X**2)
FITS = [PlotLine("width 1", X, X), PlotLine("width 0.2", X, X**3)]
SERIES = PlotLine("sine", np.arange(1.0, 101), np.sin(np.arange(100) / 9))
LATER = np.arange(71.0, 101)
FORECASTS = {k: PlotLine(f"{k} ahead", LATER, np.full(30, k / 4)) for k in (1, 4)}
GROWTH = HorizonErrors(np.linspace(0.1, 0.5, 4), np.linspace(0.2, 0.6, 4))


def test_regression_figure_shows_points_truth_mean_and_fits() -> None:
    [panel] = regression_figure(POINTS, FITS, PlotLine("truth", X, X), 0.4).axes
    drawn = {line.get_label(): line for line in panel.lines}
    assert list(drawn) == ["30 points", "mean of the targets", "truth", "width 1", "width 0.2"]
    np.testing.assert_array_equal(drawn["30 points"].get_ydata(), POINTS.y)
    np.testing.assert_array_equal(drawn["width 0.2"].get_ydata(), FITS[1].y)
    assert set(drawn["mean of the targets"].get_ydata()) == {0.4}
    assert drawn["width 0.2"].get_color() == LINE_COLORS[0] != drawn["width 1"].get_color()
    assert {text.get_text() for text in panel.get_legend().get_texts()} == set(drawn)


def test_regression_figure_without_truth() -> None:
    [panel] = regression_figure(POINTS, FITS[1:], None, 0.4).axes
    assert [line.get_label() for line in panel.lines] == [
        "30 points",
        "mean of the targets",
        "width 0.2",
    ]


def test_regression_figure_thins_many_points() -> None:
    x = np.arange(100_000.0)
    [panel] = regression_figure(PlotLine("many", x, x), FITS, None, 0.0).axes
    dots = panel.lines[0].get_xdata()
    assert len(dots) == 2000 and (dots[0], dots[-1]) == (0, 99_999)


def test_forecast_figure_has_a_strip_for_each_forecast_and_the_error_by_horizon() -> None:
    rollout = PlotLine("rollout", LATER, np.zeros(30))
    *strips, below = forecast_figure(SERIES, FORECASTS, rollout, GROWTH).axes
    for strip, line in zip(strips, [*FORECASTS.values(), rollout], strict=True):
        truth, forecast, start = strip.lines
        np.testing.assert_array_equal(forecast.get_xydata(), np.stack([line.x, line.y], 1))
        np.testing.assert_array_equal(truth.get_ydata(), SERIES.y[-len(truth.get_ydata()) :])
        assert truth.get_xdata()[0] < start.get_xdata()[0] == LATER[0]
        legend = [text.get_text() for text in strip.get_legend().get_texts()]
        assert legend == (["sine", line.label] if strip is strips[0] else [line.label])
    lines = {line.get_label(): line for line in below.lines}
    np.testing.assert_array_equal(lines["forecast"].get_ydata(), GROWTH.errors)
    np.testing.assert_array_equal(lines["forecast"].get_xdata(), [1, 2, 3, 4])
    np.testing.assert_array_equal(lines["naive (last value)"].get_ydata(), GROWTH.naive)
    dots = [line for line in below.lines if line.get_marker() == "o"]
    assert [(m.get_xdata()[0], m.get_ydata()[0]) for m in dots] == [(1, 0.1), (4, 0.5)]
    colours = [strip.lines[1].get_color() for strip in strips[:2]]
    assert [m.get_color() for m in dots] == colours  # dots have the colour of their line


def test_forecast_figure_shows_the_first_values_of_a_long_series() -> None:
    times = np.arange(3000.0)
    series = PlotLine("long", times, np.sin(times))
    line = PlotLine("1 ahead", times[2000:], np.sin(times[2000:]))
    figure = forecast_figure(series, {1: line}, line, HorizonErrors(np.ones(1), np.ones(1)))
    strip = figure.axes[0]
    assert len(strip.lines[1].get_xdata()) == MAX_STRIP_POINTS
    assert strip.lines[0].get_xdata()[0] == 2000 - MAX_STRIP_POINTS // 4
    assert figure.axes[1].get_xlabel() == "time, first 200 of 1,000 held-out values"
    assert overlapping_texts(figure) == []


@pytest.mark.parametrize("wild", [1e12, np.inf, np.nan])
def test_forecast_figure_limits_ignore_a_diverging_rollout(wild: float) -> None:
    rollout = PlotLine("rollout", LATER, np.full(30, wild))
    for strip in forecast_figure(SERIES, FORECASTS, rollout, GROWTH).axes[:-1]:
        low, high = strip.get_ylim()
        assert -2 < low < -1 and 1 < high < 2


def test_forecast_figure_draws_a_constant_series() -> None:
    flat = PlotLine("flat", np.arange(1.0, 11), np.full(10, 3.0))
    lines = {1: PlotLine("1 ahead", np.arange(8.0, 11), np.full(3, 3.0))}
    strip = forecast_figure(flat, lines, lines[1], HorizonErrors(np.zeros(1), np.zeros(1))).axes[0]
    assert strip.get_ylim() == (2, 4)


def test_fit_figures_are_written_as_images(tmp_path: Path) -> None:
    save_regression_fit(POINTS, FITS, tmp_path / "fit.png", None, 0.4)
    save_forecasts(SERIES, FORECASTS, SERIES, GROWTH, tmp_path / "forecast.png")
    for name in ("fit.png", "forecast.png"):
        assert imread(tmp_path / name).std() > 0.01
    with pytest.raises(ValueError, match="ends in '.txt'"):
        save_regression_fit(POINTS, FITS, tmp_path / "fit.txt")
