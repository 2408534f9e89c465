"""Texts of a figure that overlap, by the bounding boxes of the Agg renderer."""

from typing import Any
from unittest.mock import patch

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

MAX_SHARED_PIXELS = 1.5  # of a side: boxes are larger than the glyphs in them


def drawn_texts(figure: Figure) -> list[tuple[str, Bbox]]:
    """Return every text that is drawn, with its box in pixels."""
    found: dict[int, Text] = {}
    draw = Text.draw

    def record(self: Text, renderer: Any, *arguments: Any, **options: Any) -> None:
        if self.get_visible() and self.get_text().strip():
            found[id(self)] = self
        draw(self, renderer, *arguments, **options)

    canvas = FigureCanvasAgg(figure)
    with patch.object(Text, "draw", record):
        canvas.draw()
    renderer = canvas.get_renderer()
    return [(text.get_text(), text.get_window_extent(renderer)) for text in found.values()]


def overlapping_texts(figure: Figure) -> list[tuple[str, str]]:
    """Return the pairs of texts whose boxes share more than a pixel."""
    texts = drawn_texts(figure)
    return [
        (one, other)
        for number, (one, a) in enumerate(texts)
        for other, b in texts[number + 1 :]
        if min(a.x1, b.x1) - max(a.x0, b.x0) > MAX_SHARED_PIXELS
        and min(a.y1, b.y1) - max(a.y0, b.y0) > MAX_SHARED_PIXELS
    ]
