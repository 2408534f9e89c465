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

from saccade.look.draw import LINES, QUIET, Type, format_of, write_figure
from saccade.look.fonts import fonts_for, missing_message

Floats = NDArray[np.float64]

SIDE = 7.0  # inches
ROUND = 16  # directions that are tried, at growing distances
FARTHEST = 12  # steps away from its dot that a name may go


class Flat(NamedTuple):
    """Where words lie, and how much of their differences that shows."""

    places: Floats  # (N, 2)
    shown: float


def flattened(vectors: NDArray[np.floating]) -> Flat:
    """The first two principal components; the largest entry of each axis is made positive."""
    centred = vectors.astype(np.float64) - vectors.mean(0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    places = np.zeros((len(vectors), 2))
    kept = min(2, len(sizes))
    places[:, :kept] = left[:, :kept] * sizes[:kept]
    strongest = np.abs(places).argmax(0)
    places *= np.where(places[strongest, [0, 1]] < 0, -1, 1)
    whole = float((sizes**2).sum())
    return Flat(places, float((sizes[:2] ** 2).sum()) / whole if whole else 1.0)


class Box(NamedTuple):
    """A piece of the picture, in points."""

    left: float
    low: float
    right: float
    high: float

    def meets(self, other: "Box") -> bool:
        """Whether they share any of it."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.low < other.high
            and other.low < self.high
        )


def beside(dot: tuple[float, float], size: tuple[float, float], taken: Sequence[Box]) -> Box:
    """Where a name of that size goes: the nearest place around its dot that is free.

    If there is none, the place where it would have gone first.
    """
    width, height = size
    first: Box | None = None
    for step in range(FARTHEST):
        away = 4 + step * height * 0.5
        for turn in range(ROUND):
            angle = 2 * np.pi * turn / ROUND
            across, up = float(np.cos(angle)), float(np.sin(angle))
            middle = dot[0] + across * (away + width / 2), dot[1] + up * (away + height / 2)
            box = Box(
                middle[0] - width / 2,
                middle[1] - height / 2,
                middle[0] + width / 2,
                middle[1] + height / 2,
            )
            first = first or box
            if not any(box.meets(other) for other in taken):
                return box
    assert first is not None
    return first


def save_words(words: Sequence[str], vectors: NDArray[np.floating], path: Path) -> list[str]:
    """Draw the map; what is to be said is returned."""
    form = format_of(path)
    figure = Figure(figsize=(SIDE, SIDE), facecolor="white", layout="constrained")
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    flat = flattened(vectors)
    axes.plot(*flat.places.T, "o", color=LINES[0], ms=4, mew=0)
    axes.margins(0.12)
    axes.set_aspect("equal", adjustable="datalim")
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    for side in axes.spines.values():
        side.set_color(QUIET)
        side.set_linewidth(0.5)
    figure.supxlabel(
        f"the two directions in which they differ most: {flat.shown:.0%} of their differences",
        fontsize=9,
        color=QUIET,
    )
    type = Type(*fonts_for("".join(words)))
    canvas.draw()
    to_points = 72 / figure.dpi
    dots = (axes.transData.transform(flat.places) * to_points).tolist()
    taken = [Box(x - 3, y - 3, x + 3, y + 3) for x, y in dots]
    for place, word, (x, y) in zip(flat.places, words, dots, strict=True):
        name = axes.annotate(
            word, place, (0, 0), textcoords="offset points", ha="center", va="center"
        )
        type.write(name, 9.0)
        name.set_in_layout(False)
        extent = name.get_window_extent()
        size = float(extent.width) * to_points, float(extent.height) * to_points
        box = beside((x, y), size, taken)
        taken.append(box)
        name.xyann = (box.left + box.right) / 2 - x, (box.low + box.high) / 2 - y
    write_figure(figure, path, form)
    return [missing_message(type.missing)] if type.missing else []
