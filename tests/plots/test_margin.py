"""The picture of a margin: what is in it."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from saccade.plots.margin import margin_figure, save_margin

POINTS = np.random.default_rng(0).normal(size=(30, 2))
LABELS = (POINTS[:, 0] > 0).astype(int)
SUPPORT = np.abs(POINTS[:, 0]) < 0.5


def slope(points: np.ndarray) -> np.ndarray:
    return 2 * points[:, 0]


def test_points_support_vectors_and_levels_are_drawn() -> None:
    [axes] = margin_figure(POINTS, LABELS, SUPPORT, slope).axes
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


def test_a_machine_that_sees_one_side_only_can_be_drawn(tmp_path: Path) -> None:
    save_margin(POINTS, LABELS, SUPPORT, lambda x: slope(x) * 0 + 0.5, tmp_path / "margin.png")
    assert imread(tmp_path / "margin.png").std() > 0.01


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"shape \(30, 3\) in 2 classes"):
        margin_figure(np.ones((30, 3)), LABELS, SUPPORT, slope)
    with pytest.raises(ValueError, match="in 30 classes"):
        margin_figure(POINTS, np.arange(30), SUPPORT, slope)
    with pytest.raises(ValueError, match="ends in '.txt'"):
        save_margin(POINTS, LABELS, SUPPORT, slope, tmp_path / "margin.txt")
