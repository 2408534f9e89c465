"""Pictures of images: maps drawn over an image, and grids of small images."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from saccade.inspection.image_figures import ImageGrid, ImageMap, ImageMaps
from saccade.plots.attribution import SCORE_COLORMAP
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import MUTED_COLOR, TEXT_COLOR, LabelFont, image_format, write_figure

# lengths in inches
PANEL_INCHES = 2.8
TILE_INCHES = 1.25
CAPTION_INCHES = 0.2  # of a line
MAX_ACROSS = 8  # tiles of a row
MAX_PANELS_ACROSS = 5  # maps of a row, the image among them
MAP_OPACITY = 0.55
MAX_CAPTION = 22  # characters of a line
NOTE_TOP = -0.13  # of the description below a map and its scale, in heights of the map


def save_image_maps(found: ImageMaps, path: Path) -> list[str]:
    """Draw the image and each of its maps as PNG, SVG or PDF; return warnings."""
    format = image_format(path)
    # the probability first: next to a caption from right to left, its figures would be moved
    title = f"{format_probability(found.probability)} {found.output}"
    if found.source:
        title = f"{Path(found.source).name}: {title}"
    texts = [text for part in found.maps for text in (part.name, part.description)]
    font = _font(title, *texts)
    panels = 1 + len(found.maps)
    down = math.ceil(panels / MAX_PANELS_ACROSS)
    across = math.ceil(panels / down)
    figure = _empty_figure(across * PANEL_INCHES, down * (PANEL_INCHES + 0.6) + 0.35)
    axes = figure.subplots(down, across, squeeze=False).flatten().tolist()
    for panel in axes:
        panel.axis("off")
    _draw_pixels(axes[0], found.image)
    for part, panel in zip(found.maps, axes[1:], strict=False):
        _add_scale(figure, panel, _draw_map(panel, found.image, part))
        _caption(panel, part.name, font, 9)
        note = panel.text(0.5, NOTE_TOP, replace_missing(part.description, font.missing))
        note.set_transform(panel.transAxes)
        note.set_ha("center")
        note.set_va("top")
        font.apply(note, 6.5, MUTED_COLOR)
    heading = figure.suptitle(replace_missing(title, font.missing), x=0.01, ha="left")
    font.apply(heading, 11)
    write_figure(figure, path, format)
    return [missing_message(font.missing)] if font.missing else []


def save_image_grid(grid: ImageGrid, path: Path) -> list[str]:
    """Draw small images with captions, row by row, as PNG, SVG or PDF; return warnings."""
    format = image_format(path)
    if not len(grid.tiles):
        raise ValueError("got no images; give at least one to draw.")
    font = _font(grid.title, *grid.captions)
    across = min(MAX_ACROSS, math.ceil(math.sqrt(len(grid.tiles))))
    down = math.ceil(len(grid.tiles) / across)
    lines = max(caption.count("\n") + 1 for caption in grid.captions)
    height = down * (TILE_INCHES + lines * CAPTION_INCHES) + 0.4
    figure = _empty_figure(max(across * TILE_INCHES, 3.0), height)
    panels = figure.subplots(down, across, squeeze=False).flatten().tolist()
    for panel in panels:
        panel.axis("off")
    for panel, tile, caption in zip(panels, grid.tiles, grid.captions, strict=False):
        _draw_pixels(panel, tile)
        _caption(panel, _short_lines(caption), font, 6.5)
    if grid.title:
        heading = figure.suptitle(replace_missing(grid.title, font.missing), x=0.01, ha="left")
        font.apply(heading, 10)
    write_figure(figure, path, format)
    return [missing_message(font.missing)] if font.missing else []


def _empty_figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _font(*texts: str) -> LabelFont:
    return LabelFont(*fonts_for("".join([*texts, "…"])))


def _caption(axes: Axes, text: str, font: LabelFont, size: float) -> None:
    title = axes.set_title(replace_missing(text, font.missing), pad=2)
    font.apply(title, size, TEXT_COLOR)


def _short_lines(caption: str) -> str:
    lines = caption.split("\n")
    return "\n".join(
        line if len(line) <= MAX_CAPTION else f"{line[: MAX_CAPTION - 1]}…" for line in lines
    )


def _draw_pixels(axes: Axes, pixels: Any) -> None:
    """Draw bytes as they are, and real numbers from their smallest to their largest."""
    values = np.asarray(pixels)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[..., 0]
    if values.dtype != np.uint8:
        low, high = float(values.min()), float(values.max())
        values = (values - low) / (high - low) if high > low else np.full_like(values, 0.5)
    top = 255 if values.dtype == np.uint8 else 1
    axes.imshow(values, cmap="gray", vmin=0, vmax=top, interpolation="nearest")
    axes.axis("off")


def _draw_map(axes: Axes, image: Any, part: ImageMap) -> AxesImage:
    """Draw a map over the grey image, a cell over its pixels; of a signed one, white is zero."""
    grey = np.asarray(image, np.float64).mean(2)
    axes.imshow(grey, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    largest = float(np.abs(part.values).max()) or 1.0
    colours: dict[str, Any] = {"cmap": "inferno", "vmin": 0.0, "vmax": largest}
    if part.is_signed:
        colours = {"cmap": SCORE_COLORMAP, "vmin": -largest, "vmax": largest}
    height, width = grey.shape
    corners = (-0.5, width - 0.5, height - 0.5, -0.5)
    drawn = axes.imshow(
        part.values, alpha=MAP_OPACITY, interpolation="nearest", extent=corners, **colours
    )
    axes.axis("off")
    return drawn


def _add_scale(figure: Figure, axes: Axes, drawn: AxesImage) -> None:
    """Add the colours of a map with their smallest and largest value below it."""
    low, high = drawn.get_clim()
    bar = figure.colorbar(drawn, cax=axes.inset_axes((0.15, -0.055, 0.7, 0.03)), ticks=[low, high],
                          orientation="horizontal")  # fmt: skip
    bar.ax.set_xticklabels([f"{value:.2g}" for value in (low, high)])
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, pad=1.5, labelsize=6.5, labelcolor=MUTED_COLOR)


def format_probability(value: float) -> str:
    """Return a probability in percent, a very small one as a power of ten."""
    return f"{value:.1%}" if value >= MIN_PERCENT or value == 0 else f"{value:.1e}"


MIN_PERCENT = 0.0005  # below which 0.0 % would be shown
SHADES = " ░▒▓█"
MAP_GAP = 3  # columns between two maps in a terminal
MAX_SHADED_SIDE = 24  # characters of a map in a terminal, two for each column


def render_image_map(part: ImageMap) -> str:
    """Return a map as shades for a terminal, darker where values are larger."""
    values = np.maximum(np.asarray(part.values, np.float64), 0)
    rows, columns = (_block_edges(side) for side in values.shape)
    sums = np.add.reduceat(np.add.reduceat(values, rows, 0), columns, 1)
    sizes = np.outer(_lengths(rows, values.shape[0]), _lengths(columns, values.shape[1]))
    means = sums / sizes
    largest = float(means.max()) or 1.0
    levels = np.minimum((means / largest * len(SHADES)).astype(int), len(SHADES) - 1)
    lines = ["".join(2 * SHADES[level] for level in row).rstrip() for row in levels.tolist()]
    return "\n".join([f"{part.name} ({part.description})", *lines])


def render_image_maps(parts: Sequence[ImageMap], width: int) -> str:
    """Return maps as shades for a terminal, as many next to each other as fit into the width."""
    blocks = [render_image_map(part).split("\n") for part in parts]
    column = max(len(line) for block in blocks for line in block) + MAP_GAP
    across = max(1, width // column)
    rows = []
    for start in range(0, len(blocks), across):
        some = blocks[start : start + across]
        height = max(map(len, some))
        lines = zip(*(block + [""] * (height - len(block)) for block in some), strict=True)
        rows.append("\n".join("".join(f"{x:{column}}" for x in line).rstrip() for line in lines))
    return "\n\n".join(rows)


def _block_edges(side: int) -> Any:
    count = min(side, MAX_SHADED_SIDE)
    return np.arange(count) * side // count


def _lengths(edges: Sequence[int], side: int) -> Any:
    return np.diff([*edges, side])
