"""Map of images: their features in two dimensions, coloured by class, with some of the images."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from saccade.inspection.image_figures import EmbeddingMap
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    LabelFont,
    image_format,
    write_figure,
)
from saccade.plots.word_map import frame_projection

EMBEDDING_INCHES = (8.0, 6.4)
THUMBNAIL_POINTS = 22.0  # side of an image on the map
MAX_LEGEND_CLASSES = 30  # the most frequent ones; the others are grey
MARKERS = "os^Dv"  # next to the colours, which repeat


def save_embedding_map(found: EmbeddingMap, path: Path) -> list[str]:
    """Draw the map as PNG, SVG or PDF; return warnings."""
    format = image_format(path)
    font = LabelFont(*fonts_for("".join([*found.labels, "…"])))
    figure = Figure(figsize=EMBEDDING_INCHES, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    colours = _draw_points(axes, found, font)
    for row, pixels in zip(found.thumbnail_rows.tolist(), found.thumbnails, strict=True):
        colour = colours.get(int(found.classes[row]), MUTED_COLOR)
        _draw_thumbnail(axes, found.coordinates[row], pixels, colour)
    axes.margins(0.08)
    frame_projection(axes, found.variance_ratios)
    title = f"Features of {len(found.names):,} images, projected by PCA"
    axes.set_title(title, color=TEXT_COLOR, fontsize=10, loc="left", fontweight="bold")
    write_figure(figure, path, format)
    return [missing_message(font.missing)] if font.missing else []


def _draw_points(axes: Axes, found: EmbeddingMap, font: LabelFont) -> dict[int, str]:
    """Draw the points of each class with a legend of the most frequent ones; return colours."""
    colours: dict[int, str] = {}
    known = found.classes[found.classes >= 0]
    counts = np.bincount(known, minlength=len(found.labels))
    frequent = np.sort(np.argsort(-counts, kind="stable")[:MAX_LEGEND_CLASSES])
    others = ~np.isin(found.classes, frequent)
    axes.plot(*found.coordinates[others].T, "o", color=MUTED_COLOR, ms=3, mew=0, alpha=0.6)
    for number, label in enumerate(frequent.tolist()):
        points = found.coordinates[found.classes == label].T
        if not points.size:
            continue
        round_ = number // len(LINE_COLORS)
        marker = MARKERS[round_ % len(MARKERS)]
        color = colours[label] = LINE_COLORS[number % len(LINE_COLORS)]
        name = replace_missing(found.labels[label], font.missing)
        axes.plot(*points, marker, color=color, ms=3.5, mew=0, alpha=0.75, label=name)
    if len(known):
        legend = axes.legend(
            loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, markerscale=1.8
        )
        for text in legend.get_texts():
            font.apply(text, 8.5)
    return colours


def _draw_thumbnail(axes: Axes, point: np.ndarray, pixels: np.ndarray, colour: str) -> None:
    """Draw an image at its point, in a frame of the colour of its class."""
    side = max(pixels.shape[:2])
    values = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    # three channels: grey values would be scaled to their own range
    colours = values if values.ndim == 3 else np.repeat(values[..., None], 3, 2)
    picture = OffsetImage(colours, zoom=THUMBNAIL_POINTS / side, interpolation="nearest")
    frame = {"edgecolor": colour, "linewidth": 1.5}
    axes.add_artist(
        AnnotationBbox(picture, (float(point[0]), float(point[1])), pad=0.05, bboxprops=frame)
    )
