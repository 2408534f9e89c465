"""Picture of a confusion matrix: coloured by share of the true class, with counts."""

from pathlib import Path

import numpy as np

from saccade.inspection.attention_map import AttentionMap, check_map
from saccade.inspection.figures import ConfusionMatrix
from saccade.plots.attention import attention_figure, map_font
from saccade.plots.fonts import missing_message, replace_missing
from saccade.plots.style import TEXT_COLOR, image_format, write_figure
from saccade.plots.terminal import visible_text

MAX_PLOTTED_CLASSES = 40
MAX_COUNTED_CLASSES = 20  # with more classes the cells are too small for counts
COUNT_CELL_INCHES = 0.46


def save_confusion_matrix(matrix: ConfusionMatrix, path: Path) -> list[str]:
    """Draw the matrix as PNG, SVG or PDF by the suffix of `path`; return warnings.

    Colours are shares of the true class (rows sum to 1); cells show counts if there are at most
    `MAX_COUNTED_CLASSES` classes.
    """
    format = image_format(path)
    counts = np.asarray(matrix.counts)[:MAX_PLOTTED_CLASSES, :MAX_PLOTTED_CLASSES]
    classes = list(matrix.classes[:MAX_PLOTTED_CLASSES])
    totals = np.asarray(matrix.counts).sum(1, keepdims=True)[:MAX_PLOTTED_CLASSES]
    shares = counts / np.maximum(totals, 1)
    map = check_map(AttentionMap(shares, classes, classes, "Confusion matrix", "predicted", "true"))
    font = map_font([map])
    counted = len(classes) <= MAX_COUNTED_CLASSES
    square = COUNT_CELL_INCHES if counted else None
    figure = attention_figure([map], font, square, limit=1.0, bar_label="share")
    axes = figure.axes[0]
    # spaces of class names stay spaces
    visible = [visible_text(name).replace("␣", " ") for name in classes]
    names = [replace_missing(name, font.missing) for name in visible]
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    if counted:
        for row, column in np.ndindex(counts.shape):
            colour = "white" if shares[row, column] > 0.5 else TEXT_COLOR
            number = int(counts[row, column])
            text = axes.text(column, row, f"{number:,}", ha="center", va="center")
            text.set(color=colour, fontsize=8 if number < 10_000 else 6, parse_math=False)
    write_figure(figure, path, format)
    warnings = [missing_message(font.missing)] if font.missing else []
    if len(matrix.classes) > len(classes):
        warnings.append(
            f"The confusion matrix shows the first {len(classes)} of {len(matrix.classes)} classes."
        )
    return warnings
