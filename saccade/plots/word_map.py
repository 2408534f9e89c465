"""Map of words: their vectors projected onto the first two principal components, with labels.

Each label is placed next to its dot, in the nearest of many candidate boxes around it that
overlaps neither another label nor a dot.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.inspection.figures import WordMap
from saccade.inspection.projection import project_pca
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import LINE_COLORS, MUTED_COLOR, LabelFont, image_format, write_figure

WORD_MAP_INCHES = 7.0
LABEL_DIRECTIONS = 16  # directions tried around a dot, at growing distances
MAX_LABEL_STEPS = 12  # distances tried


class LabelBox(NamedTuple):
    """A rectangle of the picture, in points."""

    left: float
    low: float
    right: float
    high: float

    def overlaps(self, other: "LabelBox") -> bool:
        """True if both share an area."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.low < other.high
            and other.low < self.high
        )


def free_label_box(
    dot: tuple[float, float], size: tuple[float, float], taken: Sequence[LabelBox]
) -> LabelBox:
    """Return the nearest free box around a dot, or the first candidate if none is free."""
    width, height = size
    first: LabelBox | None = None
    for step in range(MAX_LABEL_STEPS):
        distance = 4 + step * height * 0.5
        for turn in range(LABEL_DIRECTIONS):
            angle = 2 * np.pi * turn / LABEL_DIRECTIONS
            across, up = float(np.cos(angle)), float(np.sin(angle))
            x = dot[0] + across * (distance + width / 2)
            y = dot[1] + up * (distance + height / 2)
            box = LabelBox(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            first = first or box
            if not any(box.overlaps(other) for other in taken):
                return box
    assert first is not None
    return first


def save_word_map(words: Sequence[str], vectors: NDArray[np.floating], path: Path) -> list[str]:
    """Draw the map; return warnings."""
    format = image_format(path)
    figure = Figure(
        figsize=(WORD_MAP_INCHES, WORD_MAP_INCHES), facecolor="white", layout="constrained"
    )
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    projection = project_pca(vectors)
    axes.plot(*projection.coordinates.T, "o", color=LINE_COLORS[0], ms=4, mew=0)
    axes.margins(0.12)
    axes.set_aspect("equal", adjustable="datalim")
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    for side in axes.spines.values():
        side.set_color(MUTED_COLOR)
        side.set_linewidth(0.5)
    first, second = projection.variance_ratios
    axes.set_xlabel(f"PC1 ({first:.0%} of the variance)", fontsize=9, color=MUTED_COLOR)
    axes.set_ylabel(f"PC2 ({second:.0%} of the variance)", fontsize=9, color=MUTED_COLOR)
    font = LabelFont(*fonts_for("".join(words)))
    canvas.draw()
    to_points = 72 / figure.dpi
    dots = (axes.transData.transform(projection.coordinates) * to_points).tolist()
    taken = [LabelBox(x - 3, y - 3, x + 3, y + 3) for x, y in dots]
    for position, word, (x, y) in zip(projection.coordinates, words, dots, strict=True):
        label = axes.annotate(
            replace_missing(word, font.missing),
            position,
            (0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
        )
        font.apply(label, 9.0)
        label.set_in_layout(False)
        extent = label.get_window_extent()
        size = float(extent.width) * to_points, float(extent.height) * to_points
        box = free_label_box((x, y), size, taken)
        taken.append(box)
        label.xyann = (box.left + box.right) / 2 - x, (box.low + box.high) / 2 - y
    write_figure(figure, path, format)
    return [missing_message(font.missing)] if font.missing else []


def save_word_figure(map: WordMap, path: Path) -> list[str]:
    """Draw a `WordMap`; return warnings."""
    return save_word_map(map.words, map.vectors, path)
