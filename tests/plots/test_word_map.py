"""Word maps: principal components and labels that do not overlap."""

from pathlib import Path

import numpy as np
import pytest

from saccade.inspection.projection import project_pca
from saccade.plots.word_map import LabelBox, free_label_box, save_word_map


def test_project_pca_recovers_a_plane() -> None:
    random = np.random.default_rng(1)
    plane = random.standard_normal((30, 2)) * [5, 2]
    turn = np.linalg.qr(random.standard_normal((8, 8)))[0][:2]
    projection = project_pca(plane @ turn)
    assert projection.explained_variance == pytest.approx(1)
    assert projection.variance_ratios[0] > projection.variance_ratios[1]
    assert np.allclose(
        np.linalg.norm(projection.coordinates[:, None] - projection.coordinates[None], axis=-1),
        np.linalg.norm(plane[:, None] - plane[None], axis=-1),
    )


def test_word_map_draws_equal_vectors(tmp_path: Path) -> None:
    assert project_pca(np.ones((3, 4))).explained_variance == 1
    save_word_map(["a", "b", "c"], np.ones((3, 4)), tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_free_label_box_finds_disjoint_boxes() -> None:
    random = np.random.default_rng(1)
    dots = (random.random((40, 2)) * 500).tolist()
    taken = [LabelBox(x - 3, y - 3, x + 3, y + 3) for x, y in dots]
    boxes = []
    for x, y in dots:
        box = free_label_box((x, y), (40.0, 10.0), taken)
        assert not any(box.overlaps(other) for other in taken)
        taken.append(box)
        boxes.append(box)
    for (x, y), box in zip(dots, boxes, strict=True):  # and stay near their dots
        assert abs((box.left + box.right) / 2 - x) < 90 and abs((box.low + box.high) / 2 - y) < 90


def test_word_map_draws_any_script(tmp_path: Path) -> None:
    words = ["$a_1$", "слово", "λόγος", "מילה"]
    rows = np.random.default_rng(1).random((4, 5))
    for ending in ("png", "svg", "pdf"):
        save_word_map(words, rows, tmp_path / f"map.{ending}")
        assert (tmp_path / f"map.{ending}").exists()
    with pytest.raises(ValueError, match="png"):
        save_word_map(words, rows, tmp_path / "map.bmp")
