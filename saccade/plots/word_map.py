"""Map of words: their vectors projected onto the first two principal components, with labels.

Each label is placed next to its dot, in the nearest of many candidate boxes around it that
overlaps neither another label nor a dot.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from saccade.inspection.figures import WordMap
from saccade.inspection.projection import project_pca
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    LabelFont,
    image_format,
    write_figure,
)
from saccade.types.arrays import FloatArray

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
    """Draw a map of words without neighbours; return warnings."""
    return save_word_figure(WordMap(words, vectors), path)


def save_word_figure(map: WordMap, path: Path) -> list[str]:
    """Draw a `WordMap`; return warnings."""
    format = image_format(path)
    font = LabelFont(*fonts_for("".join(map.all_words)))
    write_figure(word_map_figure(map, font), path, format)
    return [missing_message(font.missing)] if font.missing else []


def word_map_figure(map: WordMap, font: LabelFont) -> Figure:
    """Return the figure: dots with labels, and lines from words to their neighbours."""
    figure = Figure(
        figsize=(WORD_MAP_INCHES, WORD_MAP_INCHES), facecolor="white", layout="constrained"
    )
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    words, count = map.all_words, len(map.words)
    projection = project_pca(map.vectors)
    points = projection.coordinates
    at = {word: point for word, point in zip(words, points, strict=True)}
    for near in map.neighbors:
        ends = np.stack([at[near.of], at[near.word]])
        axes.plot(*ends.T, "-", color="#c4c9d1", lw=0.9, zorder=1)
    axes.plot(*points[count:].T, "o", color=MUTED_COLOR, ms=3, mew=0, zorder=2)
    axes.plot(*points[:count].T, "o", color=LINE_COLORS[0], ms=5, mew=0, zorder=3)
    axes.margins(0.12)
    axes.set_aspect("equal", adjustable="datalim")
    frame_projection(axes, projection.variance_ratios)
    title = "Word vectors, projected by PCA"
    if map.neighbors:
        title += "; lines join nearest neighbours (cosine)"
    axes.set_title(title, color=TEXT_COLOR, fontsize=10, loc="left", fontweight="bold")
    canvas.draw()
    label_points(axes, words, points, count, font)
    return figure


def frame_projection(axes: Axes, variance_ratios: tuple[float, float]) -> None:
    """Draw a thin frame without numbers, and the share of the variance of both axes."""
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    for side in axes.spines.values():
        side.set_color(MUTED_COLOR)
        side.set_linewidth(0.5)
    first, second = variance_ratios
    axes.set_xlabel(f"PC1 ({first:.0%} of the variance)", fontsize=9, color=MUTED_COLOR)
    axes.set_ylabel(f"PC2 ({second:.0%} of the variance)", fontsize=9, color=MUTED_COLOR)


def label_points(
    axes: Axes, words: Sequence[str], points: FloatArray, count: int, font: LabelFont
) -> None:
    """Write each word into a free box next to its dot; the first `count` words are larger."""
    to_points = 72 / axes.figure.dpi
    dots = (axes.transData.transform(points) * to_points).tolist()
    taken = [LabelBox(x - 3, y - 3, x + 3, y + 3) for x, y in dots]
    for number, (position, word, (x, y)) in enumerate(zip(points, words, dots, strict=True)):
        label = axes.annotate(
            replace_missing(word, font.missing),
            position,
            (0, 0),
            textcoords="offset points",
            ha="center",
            va="center",
        )
        if number < count:
            font.apply(label, 9.5)
        else:
            font.apply(label, 8.0, "#5f5f5f")
        label.set_path_effects([withStroke(linewidth=2.5, foreground="white")])  # on lines
        label.set_in_layout(False)
        extent = label.get_window_extent()
        size = float(extent.width) * to_points, float(extent.height) * to_points
        box = free_label_box((x, y), size, taken)
        taken.append(box)
        label.xyann = (box.left + box.right) / 2 - x, (box.low + box.high) / 2 - y
