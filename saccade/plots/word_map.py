"""A map of words: their vectors from the side on which they are farthest apart, with their names.

The two axes are the first principal components of the words shown. Each name stands beside its
dot, in the first of many places around it where it covers neither another name nor a dot."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.plots.attention import LINE_COLORS, MUTED_COLOR, LabelFont, image_format, write_figure
from saccade.plots.fonts import fonts_for, missing_message

FloatArray = NDArray[np.float64]

WORD_MAP_INCHES = 7.0  # inches
LABEL_DIRECTIONS = 16  # directions that are tried, at growing distances
MAX_LABEL_STEPS = 12  # steps away from its dot that a name may go


class Projection(NamedTuple):
    """Where words lie, and how much of their differences that shows."""

    coordinates: FloatArray  # (N, 2)
    explained_variance: float


def project_pca(vectors: NDArray[np.floating]) -> Projection:
    """The first two principal components; the largest entry of each axis is made positive."""
    centred = vectors.astype(np.float64) - vectors.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    coordinates = np.zeros((len(vectors), 2))
    kept = min(2, len(sizes))
    coordinates[:, :kept] = left[:, :kept] * sizes[:kept]
    strongest = np.abs(coordinates).argmax(0)
    coordinates *= np.where(coordinates[strongest, [0, 1]] < 0, -1, 1)
    whole = float((sizes**2).sum())
    return Projection(coordinates, float((sizes[:2] ** 2).sum()) / whole if whole else 1.0)


class LabelBox(NamedTuple):
    """A piece of the picture, in points."""

    left: float
    low: float
    right: float
    high: float

    def overlaps(self, other: "LabelBox") -> bool:
        """Whether they share any of it."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.low < other.high
            and other.low < self.high
        )


def free_label_box(
    dot: tuple[float, float], size: tuple[float, float], taken: Sequence[LabelBox]
) -> LabelBox:
    """Where a name of that size goes: the nearest place around its dot that is free.

    If there is none, the place where it would have gone first.
    """
    width, height = size
    first: LabelBox | None = None
    for step in range(MAX_LABEL_STEPS):
        away = 4 + step * height * 0.5
        for turn in range(LABEL_DIRECTIONS):
            angle = 2 * np.pi * turn / LABEL_DIRECTIONS
            across, up = float(np.cos(angle)), float(np.sin(angle))
            middle = dot[0] + across * (away + width / 2), dot[1] + up * (away + height / 2)
            box = LabelBox(
                middle[0] - width / 2,
                middle[1] - height / 2,
                middle[0] + width / 2,
                middle[1] + height / 2,
            )
            first = first or box
            if not any(box.overlaps(other) for other in taken):
                return box
    assert first is not None
    return first


def save_word_map(words: Sequence[str], vectors: NDArray[np.floating], path: Path) -> list[str]:
    """Draw the map; what is to be said is returned."""
    form = image_format(path)
    figure = Figure(
        figsize=(WORD_MAP_INCHES, WORD_MAP_INCHES), facecolor="white", layout="constrained"
    )
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    flat = project_pca(vectors)
    axes.plot(*flat.coordinates.T, "o", color=LINE_COLORS[0], ms=4, mew=0)
    axes.margins(0.12)
    axes.set_aspect("equal", adjustable="datalim")
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    for side in axes.spines.values():
        side.set_color(MUTED_COLOR)
        side.set_linewidth(0.5)
    figure.supxlabel(
        f"the two directions in which they differ most: {flat.explained_variance:.0%} of their differences",
        fontsize=9,
        color=MUTED_COLOR,
    )
    font = LabelFont(*fonts_for("".join(words)))
    canvas.draw()
    to_points = 72 / figure.dpi
    dots = (axes.transData.transform(flat.coordinates) * to_points).tolist()
    taken = [LabelBox(x - 3, y - 3, x + 3, y + 3) for x, y in dots]
    for place, word, (x, y) in zip(flat.coordinates, words, dots, strict=True):
        name = axes.annotate(
            word, place, (0, 0), textcoords="offset points", ha="center", va="center"
        )
        font.apply(name, 9.0)
        name.set_in_layout(False)
        extent = name.get_window_extent()
        size = float(extent.width) * to_points, float(extent.height) * to_points
        box = free_label_box((x, y), size, taken)
        taken.append(box)
        name.xyann = (box.left + box.right) / 2 - x, (box.low + box.high) / 2 - y
    write_figure(figure, path, form)
    return [missing_message(font.missing)] if font.missing else []
