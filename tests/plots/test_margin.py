"""Margin figure of a support vector machine."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from saccade.inspection.figures import evaluate_margin
from saccade.plots.margin import margin_figure, save_margin

POINTS = np.random.default_rng(0).normal(size=(30, 2))
LABELS = (POINTS[:, 0] > 0).astype(int)
SUPPORT = np.abs(POINTS[:, 0]) < 0.5


def decision(points: np.ndarray) -> np.ndarray:
    return 2 * points[:, 0]


def test_margin_figure_shows_points_support_vectors_and_levels() -> None:
    [axes] = margin_figure(evaluate_margin(POINTS, LABELS, SUPPORT, decision)).axes
    first, second, rings = axes.lines
    np.testing.assert_array_equal(first.get_xydata(), POINTS[LABELS == 0])
    np.testing.assert_array_equal(second.get_xydata(), POINTS[LABELS == 1])
    np.testing.assert_array_equal(rings.get_xydata(), POINTS[SUPPORT])
    assert rings.get_label() == f"support vectors ({SUPPORT.sum()} of 30)"
    levels = {level for drawn in axes.collections for level in drawn.levels if abs(level) <= 1}
    assert levels == {-1, 0, 1}
    zero = [drawn for drawn in axes.collections if list(drawn.levels) == [0]]
    [path] = zero[0].get_paths()
    np.testing.assert_allclose(path.vertices[:, 0], 0, atol=1e-9)  # where 2x = 0


def test_margin_figure_draws_a_constant_decision_function(tmp_path: Path) -> None:
    save_margin(POINTS, LABELS, SUPPORT, lambda x: decision(x) * 0 + 0.5, tmp_path / "margin.png")
    assert imread(tmp_path / "margin.png").std() > 0.01


def test_margin_refuses_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"shape \(30, 3\) in 2 classes"):
        evaluate_margin(np.ones((30, 3)), LABELS, SUPPORT, decision)
    with pytest.raises(ValueError, match="in 30 classes"):
        evaluate_margin(POINTS, np.arange(30), SUPPORT, decision)
    with pytest.raises(ValueError, match="ends in '.txt'"):
        save_margin(POINTS, LABELS, SUPPORT, decision, tmp_path / "margin.txt")
