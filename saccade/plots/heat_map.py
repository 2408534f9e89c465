"""Pictures of heat maps: panels on a grid, each with its own colour scale."""

import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import HeatMap, HeatMapGrid, check_heat_map
from saccade.plots.attribution import SCORE_COLORMAP
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import (
    ATTENTION_COLORMAP,
    MUTED_COLOR,
    TEXT_COLOR,
    LabelFont,
    image_format,
    write_figure,
)
from saccade.plots.terminal import display_width, truncate_to_width, visible_text

# lengths in inches
MAX_PANEL_INCHES = {1: (11.0, 9.0), 4: (7.0, 5.0), 12: (4.6, 3.6)}  # by the number of panels
CELL_INCHES, TEXT_CELL_INCHES = 0.3, 1.15
LETTER_INCHES = 0.085  # of a title
MIN_PANEL_INCHES = 2.2
MIN_LABEL_INCHES = 0.13  # of a row or a column that has its own label
MAX_LABEL_WIDTH = 16
MAX_HEAT_PANELS = 24
TEXT_LIGHT_SHARE = 0.6  # of the scale, from which on the text of a cell is white


def save_heat_maps(grid: HeatMapGrid, path: Path) -> list[str]:
    """Draw the maps as PNG, SVG or PDF by the suffix of `path`; return warnings."""
    format = image_format(path)
    if not grid.maps:
        raise ValueError("got no maps; give at least one to draw.")
    for map in grid.maps:
        check_heat_map(map)
    drawn = grid.maps[:MAX_HEAT_PANELS]
    tokens = [visible_text(text) for map in drawn for text in (*map.rows, *map.columns)]
    labels = [text for map in drawn for text in (map.title, map.across, map.down)]
    font = LabelFont(*fonts_for("".join([*tokens, *labels, grid.title, "…"])))
    write_figure(heat_map_figure(drawn, font, grid.title), path, format)
    warnings = [missing_message(font.missing)] if font.missing else []
    if len(drawn) < len(grid.maps):
        warnings.append(f"The picture shows the first {len(drawn)} of {len(grid.maps)} maps.")
    return warnings


def heat_map_figure(maps: Sequence[HeatMap], font: LabelFont, title: str = "") -> Figure:
    """Return the figure: the panels in reading order."""
    across = 1 if len(maps) == 1 else 2 if len(maps) <= 4 else 3
    down = math.ceil(len(maps) / across)
    sizes = [panel_size(map, len(maps)) for map in maps]
    width, height = (max(side) for side in zip(*sizes, strict=True))
    figure = Figure(
        figsize=(across * (width + 1.5), down * (height + 1.2) + 0.3),
        facecolor="white",
        layout="constrained",
    )
    FigureCanvasAgg(figure)
    panels = figure.subplots(down, across, squeeze=False).flatten().tolist()
    for axes, map, size in zip(panels, maps, sizes, strict=False):
        draw_heat_map(figure, axes, map, font, size)
    for axes in panels[len(maps) :]:
        axes.axis("off")
    if title:
        heading = figure.suptitle(replace_missing(title, font.missing), x=0.01, ha="left")
        font.apply(heading, 11)
    return figure


def panel_size(map: HeatMap, count: int) -> tuple[float, float]:
    """Return width and height of a panel without its labels, in inches."""
    limits = next((size for limit, size in MAX_PANEL_INCHES.items() if count <= limit), (4.0, 3.0))
    cell = TEXT_CELL_INCHES if map.cells else CELL_INCHES
    width = min(max(cell * len(map.columns), MIN_PANEL_INCHES), limits[0])
    height = min(max(CELL_INCHES * len(map.values), 1.0), limits[1])
    return width, height


def draw_heat_map(
    figure: Figure, axes: Axes, map: HeatMap, font: LabelFont, size: tuple[float, float]
) -> None:
    """Draw one map with its labels and its colour bar."""
    low, high = map.scale
    colours = SCORE_COLORMAP if low < 0 else ATTENTION_COLORMAP
    image = axes.imshow(
        map.values, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest"
    )
    axes.spines[:].set_color("#c9d2de")
    axes.tick_params(length=0, labelsize=8, labelcolor=TEXT_COLOR)
    _label_side(axes, map.columns, size[0], font, is_column=True)
    _label_side(axes, map.rows, size[1], font, is_column=False)
    if not map.rows:
        axes.tick_params(axis="y", labelcolor=MUTED_COLOR)
    for row, texts in enumerate(map.cells):
        for column, text in enumerate(texts):
            share = (map.values[row, column] - low) / (high - low)
            strength = abs(2 * share - 1) if low < 0 else share
            colour = "white" if strength > TEXT_LIGHT_SHARE else TEXT_COLOR
            label = axes.text(column, row, text, ha="center", va="center")
            font.apply(label, 8, colour)
    heading = "\n".join(wrap(map.title, max(int(size[0] / LETTER_INCHES), 12)))
    font.apply(axes.set_title(replace_missing(heading, font.missing), loc="left"), 9.5)
    font.apply(axes.set_xlabel(map.across), 9, MUTED_COLOR)
    font.apply(axes.set_ylabel(map.down), 9, MUTED_COLOR)
    bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02, aspect=18)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=MUTED_COLOR)


def _label_side(
    axes: Axes, tokens: Sequence[str], inches: float, font: LabelFont, is_column: bool
) -> None:
    """Label every row or column, or every n-th one where they are narrow."""
    if not tokens:
        return
    every = max(1, math.ceil(MIN_LABEL_INCHES * len(tokens) / inches))
    positions = list(range(0, len(tokens), every))
    labels = [replace_missing(_short(tokens[at]), font.missing) for at in positions]
    (axes.set_xticks if is_column else axes.set_yticks)(positions, labels)
    ticks = axes.get_xticklabels() if is_column else axes.get_yticklabels()
    widest = max(display_width(label) for label in labels)
    narrow = is_column and widest * 0.075 > every * inches / len(tokens)
    for tick in ticks:
        font.apply(tick, 8)
        if narrow:
            tick.set_rotation(90)


def _short(token: str) -> str:
    text = visible_text(token) if token else ""  # "": a row or column without a name
    if display_width(text) <= MAX_LABEL_WIDTH:
        return text
    return truncate_to_width(text, MAX_LABEL_WIDTH - 1) + "…"
