"""Word maps: principal components and labels that do not overlap."""

from pathlib import Path

import numpy as np
import pytest

from saccade.inspection.figures import WordMap, WordNeighbor
from saccade.inspection.projection import project_pca
from saccade.plots.style import LabelFont
from saccade.plots.word_map import LabelBox, free_label_box, save_word_map, word_map_figure
from tests.plots.overlaps import overlapping_texts


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


def test_word_map_joins_words_to_their_neighbours() -> None:
    near = [WordNeighbor("dog", "cat", 0.9), WordNeighbor("moon", "sun", 0.8)]
    near.append(WordNeighbor("sun", "cat", 0.1))
    vectors = np.random.default_rng(0).normal(size=(4, 6))
    map = WordMap(["cat", "sun"], vectors, near)
    assert map.all_words == ["cat", "sun", "dog", "moon"]
    figure = word_map_figure(map, LabelFont(["DejaVu Sans"], []))
    [axes] = figure.axes
    at = dict(zip(map.all_words, project_pca(vectors).coordinates, strict=True))
    edges = [line.get_xydata() for line in axes.lines if line.get_linestyle() == "-"]
    for edge, neighbor in zip(edges, near, strict=True):
        np.testing.assert_allclose(edge, [at[neighbor.of], at[neighbor.word]])
    assert [text.get_text() for text in axes.texts] == map.all_words
    sizes = [text.get_fontsize() for text in axes.texts]
    assert sizes[0] == sizes[1] > sizes[2] == sizes[3]
    first, second = project_pca(vectors).variance_ratios
    assert axes.get_xlabel() == f"PC1 ({first:.0%} of the variance)"
    assert axes.get_ylabel() == f"PC2 ({second:.0%} of the variance)"
    assert overlapping_texts(figure) == []
