"""Pictures of fits: what is in them, and that nothing presses them flat."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from saccade.plots.attention import LINE_COLORS
from saccade.plots.fits import (
    HorizonErrors,
    PlotLine,
    forecast_figure,
    regression_figure,
    save_forecasts,
    save_regression_fit,
)

X = np.linspace(0, 1, 30)
POINTS = PlotLine("30 points", X, X**2)
FITS = [PlotLine("width 1", X, X), PlotLine("width 0.2", X, X**3)]
SERIES = PlotLine("sine", np.arange(1.0, 101), np.sin(np.arange(100) / 9))
LATER = np.arange(71.0, 101)
FORECASTS = {k: PlotLine(f"{k} ahead", LATER, np.full(30, k / 4)) for k in (1, 4)}
GROWTH = HorizonErrors(np.linspace(0.1, 0.5, 4), np.linspace(0.2, 0.6, 4))


def test_a_fit_shows_points_truth_average_and_every_width() -> None:
    [panel] = regression_figure(POINTS, FITS, PlotLine("truth", X, X), 0.4).axes
    drawn = {line.get_label(): line for line in panel.lines}
    assert list(drawn) == ["30 points", "plain average", "truth", "width 1", "width 0.2"]
    np.testing.assert_array_equal(drawn["30 points"].get_ydata(), POINTS.y)
    np.testing.assert_array_equal(drawn["width 0.2"].get_ydata(), FITS[1].y)
    assert set(drawn["plain average"].get_ydata()) == {0.4}
    assert drawn["width 0.2"].get_color() == LINE_COLORS[0] != drawn["width 1"].get_color()
    assert {text.get_text() for text in panel.get_legend().get_texts()} == set(drawn)


def test_without_a_known_curve_none_is_drawn() -> None:
    [panel] = regression_figure(POINTS, FITS[1:], None, 0.4).axes
    assert [line.get_label() for line in panel.lines] == [
        "30 points",
        "plain average",
        "width 0.2",
    ]


def test_many_points_are_thinned_and_keep_their_ends() -> None:
    x = np.arange(100_000.0)
    [panel] = regression_figure(PlotLine("many", x, x), FITS, None, 0.0).axes
    dots = panel.lines[0].get_xdata()
    assert len(dots) == 2000 and (dots[0], dots[-1]) == (0, 99_999)


def test_forecasts_and_the_growth_of_their_error_are_drawn_together() -> None:
    rollout = PlotLine("all the way", LATER, np.zeros(30))
    above, below = forecast_figure(SERIES, FORECASTS, rollout, GROWTH).axes
    assert [line.get_label() for line in above.lines] == [
        "sine",
        "1 ahead",
        "4 ahead",
        "all the way",
    ]
    lines = {line.get_label(): line for line in below.lines}
    np.testing.assert_array_equal(lines["forecast"].get_ydata(), GROWTH.errors)
    np.testing.assert_array_equal(lines["forecast"].get_xdata(), [1, 2, 3, 4])
    np.testing.assert_array_equal(lines["last value again"].get_ydata(), GROWTH.naive)
    marks = [line for line in below.lines if line.get_marker() == "o"]
    assert [(m.get_xdata()[0], m.get_ydata()[0]) for m in marks] == [(1, 0.1), (4, 0.5)]
    colours = [above.lines[1].get_color(), above.lines[2].get_color()]
    assert [m.get_color() for m in marks] == colours  # a dot below is a line above


@pytest.mark.parametrize("wild", [1e12, np.inf, np.nan])
def test_a_forecast_that_runs_away_does_not_press_the_others_flat(wild: float) -> None:
    rollout = PlotLine("all the way", LATER, np.full(30, wild))
    above, _ = forecast_figure(SERIES, FORECASTS, rollout, GROWTH).axes
    low, high = above.get_ylim()
    assert -2 < low < -1 and 1 < high < 2


def test_a_series_that_never_moves_can_be_drawn() -> None:
    flat = PlotLine("flat", np.arange(1.0, 11), np.full(10, 3.0))
    lines = {1: PlotLine("1 ahead", np.arange(8.0, 11), np.full(3, 3.0))}
    above, _ = forecast_figure(flat, lines, lines[1], HorizonErrors(np.zeros(1), np.zeros(1))).axes
    assert above.get_ylim() == (2, 4)


def test_both_are_written_as_pictures(tmp_path: Path) -> None:
    save_regression_fit(POINTS, FITS, tmp_path / "fit.png", None, 0.4)
    save_forecasts(SERIES, FORECASTS, SERIES, GROWTH, tmp_path / "forecast.png")
    for name in ("fit.png", "forecast.png"):
        assert imread(tmp_path / name).std() > 0.01
    with pytest.raises(ValueError, match="ends in '.txt'"):
        save_regression_fit(POINTS, FITS, tmp_path / "fit.txt")
