"""Picture of a confusion matrix: coloured by share of the true class, with counts and shares."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.inspection.attention_map import AttentionMap, check_map
from saccade.inspection.figures import ConfusionMatrix
from saccade.plots.attention import attention_figure, map_font
from saccade.plots.fonts import missing_message
from saccade.plots.style import TEXT_COLOR, LabelFont, image_format, write_figure
from saccade.plots.terminal import shorten_name
from saccade.types.arrays import FloatArray

MAX_PLOTTED_CLASSES = 40  # the classes with most examples
MAX_COUNTED_CLASSES = 20  # with more classes the cells are too small for numbers
MAX_CLASS_NAME_LENGTH = 24  # characters
COUNT_CELL_INCHES = 0.56


def save_confusion_matrix(matrix: ConfusionMatrix, path: Path) -> list[str]:
    """Draw the matrix as PNG, SVG or PDF by the suffix of `path`; return warnings.

    Colours are shares of the true class (rows sum to 1); cells show count and share if there are
    at most `MAX_COUNTED_CLASSES` classes. Of more than `MAX_PLOTTED_CLASSES` classes, those with
    most examples are drawn.
    """
    format = image_format(path)
    kept = plotted_classes(matrix)
    font = map_font([_share_map(matrix, kept)])
    write_figure(confusion_figure(matrix, font), path, format)
    warnings = [missing_message(font.missing)] if font.missing else []
    if len(kept) < len(matrix.classes):
        warnings.append(
            f"The confusion matrix shows the {len(kept)} classes with most examples, of "
            f"{len(matrix.classes)}."
        )
    return warnings


def plotted_classes(matrix: ConfusionMatrix) -> NDArray[np.int64]:
    """Return the rows to draw: all, or the classes with most examples, in their order."""
    totals = np.asarray(matrix.counts).sum(1)
    return np.sort(np.argsort(-totals, kind="stable")[:MAX_PLOTTED_CLASSES]).astype(np.int64)


def class_label(name: str) -> str:
    """Return the name of a class in one line of limited length; its spaces stay spaces."""
    return shorten_name(name, MAX_CLASS_NAME_LENGTH)


def confusion_title(matrix: ConfusionMatrix) -> str:
    """Return the title with the number of correct predictions."""
    counts = np.asarray(matrix.counts)
    total, correct = int(counts.sum()), int(np.trace(counts))
    if not total:
        return "Confusion matrix"
    return f"Confusion matrix: {correct:,} of {total:,} correct ({correct / total:.1%})"


def confusion_figure(matrix: ConfusionMatrix, font: LabelFont) -> Figure:
    """Return the figure: true classes down the side, predicted ones across the top."""
    kept = plotted_classes(matrix)
    map = check_map(_share_map(matrix, kept))
    has_numbers = len(kept) <= MAX_COUNTED_CLASSES
    square = COUNT_CELL_INCHES if has_numbers else None
    figure = attention_figure(
        [map], font, square=square, limit=1.0, bar_label="share", label=class_label
    )
    axes = figure.axes[0]
    if has_numbers:
        _write_numbers(axes, np.asarray(matrix.counts)[np.ix_(kept, kept)], map.weights)
    return figure


def _share_map(matrix: ConfusionMatrix, kept: NDArray[np.int64]) -> AttentionMap:
    counts = np.asarray(matrix.counts)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    names = [matrix.classes[row] for row in kept]
    title = confusion_title(matrix)
    return AttentionMap(shares[np.ix_(kept, kept)], names, names, title, "predicted", "true")


def _write_numbers(axes: Axes, counts: NDArray[np.int64], shares: FloatArray) -> None:
    """Write count and share of the row into each cell; a zero is faint and has no share."""
    for row, column in np.ndindex(counts.shape):
        number, share = int(counts[row, column]), shares[row, column]
        text = f"{number:,}\n{share:.0%}" if number else "0"
        colour = "white" if share > 0.5 else TEXT_COLOR
        label = axes.text(column, row, text, ha="center", va="center", linespacing=1.25)
        label.set(color=colour, fontsize=8 if number < 100_000 else 6, parse_math=False)
        if not number:
            label.set_alpha(0.45)
