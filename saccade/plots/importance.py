"""Picture of permutation importance: a bar per column, the most important on top."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import FeatureImportance
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    LabelFont,
    image_format,
    style_axes,
    write_figure,
)
from saccade.plots.terminal import shorten_name

MAX_IMPORTANCE_BARS = 20
MAX_COLUMN_NAME_LENGTH = 32  # characters


def save_importance(importance: FeatureImportance, path: Path) -> list[str]:
    """Draw the importance of the columns as PNG, SVG or PDF; return warnings."""
    format = image_format(path)
    font = LabelFont(*fonts_for("".join([*importance.names, importance.metric, "…"])))
    write_figure(importance_figure(importance, font), path, format)
    warnings = [missing_message(font.missing)] if font.missing else []
    if len(importance.names) > MAX_IMPORTANCE_BARS:
        warnings.append(
            f"The picture shows the {MAX_IMPORTANCE_BARS} most important of "
            f"{len(importance.names)} columns."
        )
    return warnings


def importance_figure(importance: FeatureImportance, font: LabelFont) -> Figure:
    """Return the figure: mean of the shuffles as a bar, their range as a line."""
    order = importance.order()[:MAX_IMPORTANCE_BARS]
    drops = importance.drops[order]
    means = drops.mean(1)
    figure = Figure(figsize=(7.0, 0.3 * len(order) + 1.3), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    positions = np.arange(len(order))
    axes.barh(positions, means, color=LINE_COLORS[0], height=0.64)
    axes.hlines(positions, drops.min(1), drops.max(1), color=TEXT_COLOR, lw=1.2)
    axes.invert_yaxis()
    style_axes(axes, "", legend=False)
    axes.set_yticks(positions, [_label(importance.names[row], font) for row in order])
    for label in axes.get_yticklabels():
        font.apply(label, 9.0)
    axes.axvline(0.0, color="#cccccc", lw=0.8)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#e6e6e6", lw=0.7)
    change = "loss of" if importance.metric == "accuracy" else "increase of"
    shuffles = importance.drops.shape[1]
    axes.set_xlabel(
        replace_missing(
            f"{change} {importance.metric} if the column is shuffled "
            f"(mean and range of {shuffles} shuffles)",
            font.missing,
        )
    )
    font.apply(axes.xaxis.label, 9.0, MUTED_COLOR)
    title = axes.set_title(
        f"Permutation importance: {importance.rows:,} held-out rows, "
        f"{replace_missing(importance.metric, font.missing)} {importance.score:.4g}",
        loc="left",
    )
    font.apply(title, 10.0)
    return figure


def _label(name: str, font: LabelFont) -> str:
    return replace_missing(shorten_name(name, MAX_COLUMN_NAME_LENGTH), font.missing)
