"""Pictures of images: scales of maps, colours of classes, and texts from right to left."""

from pathlib import Path

import numpy as np
import pytest

from saccade.inspection.image_figures import EmbeddingMap, ImageMap, ImageMaps
from saccade.plots.embedding import save_embedding_map
from saccade.plots.images import format_probability, save_image_maps
from saccade.plots.style import LINE_COLORS

IMAGE = np.zeros((4, 4, 3), np.uint8)


def test_each_map_has_its_scale(tmp_path: Path) -> None:
    values = np.linspace(-0.125, 0.75, 16).reshape(4, 4)
    maps = [ImageMap("one", values.clip(0), "positive"), ImageMap("two", values, "signed", True)]
    assert save_image_maps(ImageMaps(IMAGE, "cat", 0.5, maps, "a.jpg"), tmp_path / "a.svg") == []
    text = (tmp_path / "a.svg").read_text()
    for label in ("0", "0.75", "-0.75", "positive", "signed", "a.jpg: 50.0% cat"):
        assert f"<!-- {label} -->" in text, label


def test_captions_of_any_script_are_drawn(tmp_path: Path) -> None:
    maps = [ImageMap("مربع", np.eye(2)), ImageMap("ריבוע", np.eye(2))]
    found = ImageMaps(IMAGE, "مربع ריבוע", 1e-5, maps)
    assert save_image_maps(found, tmp_path / "a.svg") == []
    assert "<!-- 1.0e-05 " in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    "value, text", [(0.7412, "74.1%"), (0.0005, "0.1%"), (5.9e-6, "5.9e-06"), (0.0, "0.0%")]
)
def test_small_probabilities_are_not_rounded_to_zero(value: float, text: str) -> None:
    assert format_probability(value) == text


def test_thumbnails_have_the_colour_of_their_class(tmp_path: Path) -> None:
    found = EmbeddingMap(
        np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]),
        (0.6, 0.4),
        np.array([0, 1, -1]),
        ["cat", "dog"],
        ["1.png", "2.png", "3.png"],
        np.array([0, 1, 2]),
        [IMAGE, IMAGE, IMAGE],
    )
    save_embedding_map(found, tmp_path / "a.svg")
    frames = [line for line in (tmp_path / "a.svg").read_text().splitlines() if "1.5" in line]
    for color in LINE_COLORS[:2]:
        assert any(f"stroke: {color.lower()}" in line for line in frames)
