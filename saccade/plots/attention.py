"""Pictures of attention maps: one, or a grid of heads with a shared colour scale."""

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import wcwidth
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry
from matplotlib.ticker import MaxNLocator

from saccade.inspection.attention_map import AttentionMap, check_map, scale_limit
from saccade.inspection.figures import AttentionGrid
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import (
    ATTENTION_COLORMAP,
    MUTED_COLOR,
    LabelFont,
    image_format,
    write_figure,
)
from saccade.plots.terminal import display_width, explain_invisible, visible_text

TITLE_FONT_SIZE = 11.0
TITLE_LETTER_INCHES = 0.092  # width of a letter of a title
MIN_TITLE_LINE = 16  # letters before a title is wrapped


def save_attention_maps(
    maps: Sequence[AttentionMap] | AttentionGrid,
    path: Path,
    fonts: Sequence[FontEntry] | None = None,
) -> list[str]:
    """Draw one map, or several on a grid, as PNG, SVG or PDF by the suffix of `path`.

    Returns warnings: characters that no font has (of `fonts`, or of all that are installed) and
    characters that are invisible.
    """
    maps = maps.maps if isinstance(maps, AttentionGrid) else maps
    format = image_format(path)
    if not maps:
        raise ValueError("got no maps; give at least one to draw.")
    for map in maps:
        check_map(map)
    font = map_font(maps, fonts)
    write_figure(attention_figure(maps, font), path, format)
    warnings = [missing_message(font.missing)] if font.missing else []
    for map in maps:
        warnings += explain_invisible(map.columns, "column") + explain_invisible(map.rows, "row")
    return list(dict.fromkeys(warnings))


def map_font(maps: Sequence[AttentionMap], fonts: Sequence[FontEntry] | None = None) -> LabelFont:
    """Choose fonts that cover all tokens, titles and axis labels of some maps."""
    tokens = [visible_text(token) for map in maps for token in (*map.rows, *map.columns)]
    labels = [label for map in maps for label in (map.title, map.across, map.down)]
    return LabelFont(*fonts_for("".join([*tokens, *labels]), fonts))


def attention_figure(
    maps: Sequence[AttentionMap],
    font: LabelFont,
    square: float | None = None,
    limit: float | None = None,
    bar_label: str = "weight",
) -> Figure:
    """Return the maps on a grid with one colour scale.

    Args:
        maps: the maps, in reading order.
        font: covers their text.
        square: inches of one cell; by default from the number of tokens and maps.
        limit: end of the colour scale; by default from the largest weight.
        bar_label: title of the colour bar.
    """
    square = square or cell_size(maps)
    size = min(11.0, square * 72 * 0.66)  # points
    titles = [wrap_title(map, square) if len(maps) > 1 else map.title for map in maps]
    sizes = [
        panel_size(map, title, font, square, size) for map, title in zip(maps, titles, strict=True)
    ]
    width, height = (max(sides) for sides in zip(*sizes, strict=True))
    across = panel_columns(len(maps), width, height)
    down = math.ceil(len(maps) / across)
    figure = Figure(figsize=(across * width + 1.0, down * height + 0.3), facecolor="white")
    FigureCanvasAgg(figure)
    # "compressed" closes the gaps between panels without regard to titles wider than their map
    overhang = max(
        title_width(title) - square * len(map.columns)
        for map, title in zip(maps, titles, strict=True)
    )
    if len(maps) == 1 or overhang < 0:
        overhang = 0.0
    figure.set_layout_engine("constrained" if overhang else "compressed", h_pad=0.1, w_pad=0.08)
    panels = figure.subplots(down, across, squeeze=False).flatten().tolist()
    limit = limit or max(scale_limit(map.weights) for map in maps)
    for number, (panel, map) in enumerate(zip(panels, maps, strict=False)):
        draw_attention_map(panel, map._replace(title=titles[number]), font, size, limit)
        label_axes(panel, map, font, across=number < across, down=number % across == 0)
    for panel in panels[len(maps) :]:
        panel.axis("off")
    gap = 0.02 + overhang / 2 / (across * width)
    add_colorbar(figure, panels, font, down, square * len(maps[0].rows), bar_label, gap)
    return figure


def cell_size(maps: Sequence[AttentionMap]) -> float:
    """Return the inches of one cell: smaller for large maps and for many, but readable."""
    longest = max(max(len(map.rows), len(map.columns)) for map in maps)
    available, largest = (10.0, 0.32) if len(maps) == 1 else (4.5, 0.22)
    return min(max(available / longest, 0.1), largest)


def wrap_title(map: AttentionMap, square: float) -> str:
    """Break a title after commas, evenly, into the fewest lines that fit the width of the map."""
    limit = max(MIN_TITLE_LINE, int(square * len(map.columns) / TITLE_LETTER_INCHES))
    parts = map.title.split(", ")
    best = map.title
    for count in range(1, len(parts) + 1):
        layouts = [
            _join_parts(parts, breaks) for breaks in combinations(range(1, len(parts)), count - 1)
        ]
        best = min(layouts, key=title_width)
        if title_width(best) <= TITLE_LETTER_INCHES * limit:
            break
    return best


def _join_parts(parts: list[str], breaks: tuple[int, ...]) -> str:
    edges = [0, *breaks, len(parts)]
    return ",\n".join(", ".join(parts[start:end]) for start, end in pairwise(edges))


def title_width(title: str) -> float:
    """Return the inches of the longest line of a title."""
    return TITLE_LETTER_INCHES * max(display_width(line) for line in title.split("\n"))


def panel_size(
    map: AttentionMap, title: str, font: LabelFont, square: float, size: float
) -> tuple[float, float]:
    """Return the inches that a panel takes with its labels and title."""
    letter = size * 0.65 / 72
    left, above = (
        max(display_width(replace_missing(visible_text(token), font.missing)) for token in tokens)
        * letter
        for tokens in (map.rows, map.columns)
    )
    width = max(left + square * len(map.columns), title_width(title))
    return width + 0.6, above + square * len(map.rows) + 1.0 + 0.17 * title.count("\n")


def panel_columns(count: int, width: float, height: float) -> int:
    """Return the number of panels per row: near 16:9, with a well-filled last row."""
    best = min(
        range(1, count + 1),
        key=lambda across: (
            abs(math.log(across * width / (math.ceil(count / across) * height) / 1.8))
            + (-count % across) / across
        ),
    )
    return best


def draw_attention_map(
    axes: Axes, map: AttentionMap, font: LabelFont, size: float, limit: float
) -> None:
    """Draw one map: keys across the top, queries down the side."""
    axes.imshow(map.weights, cmap=ATTENTION_COLORMAP, vmin=0, vmax=limit, interpolation="nearest")
    axes.tick_params(length=0, pad=3, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.set_xticks(
        range(len(map.columns)),
        [replace_missing(visible_text(token), font.missing) for token in map.columns],
    )
    axes.set_yticks(
        range(len(map.rows)),
        [replace_missing(visible_text(token), font.missing) for token in map.rows],
    )
    for label, token in zip(axes.get_xticklabels(), map.columns, strict=True):
        font.apply(label, label_font_size(label.get_text(), token, size))
        if label_width(label.get_text()) > 2:
            label.set_rotation(90)
    for label, token in zip(axes.get_yticklabels(), map.rows, strict=True):
        font.apply(label, label_font_size(label.get_text(), token, size))
    if max(map.weights.shape) <= 40:
        draw_cell_grid(axes, map.weights.shape)
    axes.spines[:].set_color("#c9d2de")
    font.apply(axes.set_title(replace_missing_lines(map.title, font), pad=8), TITLE_FONT_SIZE)


def replace_missing_lines(text: str, font: LabelFont) -> str:
    """Apply `replace_missing` to each line."""
    return "\n".join(replace_missing(line, font.missing) for line in text.split("\n"))


def label_axes(axes: Axes, map: AttentionMap, font: LabelFont, across: bool, down: bool) -> None:
    """Label the axes of a panel in the first row (`across`) or the first column (`down`)."""
    axes.xaxis.set_label_position("top")
    if across:
        font.apply(
            axes.set_xlabel(replace_missing(map.across, font.missing), labelpad=6), 9.0, MUTED_COLOR
        )
    if down:
        font.apply(
            axes.set_ylabel(replace_missing(map.down, font.missing), labelpad=6), 9.0, MUTED_COLOR
        )


def label_width(text: str) -> int:
    """Return the columns of a label if no font joins its code points (flags, emoji families)."""
    return sum(max(wcwidth.wcwidth(letter), 0) for letter in text)


def label_font_size(text: str, token: str, size: float) -> float:
    """Return the font size of a label: smaller where a code point replaces a character."""
    return size if text == visible_text(token) else size * 0.75


def draw_cell_grid(axes: Axes, shape: tuple[int, ...]) -> None:
    """Draw hairlines between the cells."""
    axes.set_xticks(np.arange(-0.5, shape[1]), minor=True)
    axes.set_yticks(np.arange(-0.5, shape[0]), minor=True)
    axes.grid(which="minor", color="#e9edf3", linewidth=0.6)
    axes.tick_params(which="minor", length=0)


def add_colorbar(
    figure: Figure,
    panels: list[Axes],
    font: LabelFont,
    down: int,
    height: float,
    label: str,
    gap: float,
) -> None:
    """Add the colour bar of the shared scale, `gap` of the figure's width from the panels."""
    bar = figure.colorbar(
        panels[0].images[0],
        ax=panels,
        shrink=0.9 / down,
        aspect=max(2.0, 0.9 * height / 0.14),
        pad=gap,
        anchor=(0, 1.0),
    )
    bar.outline.set_color("#c9d2de")
    bar.ax.yaxis.set_major_locator(MaxNLocator(min(max(int(2 * height), 1), 5)))
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=MUTED_COLOR)
    font.apply(bar.ax.set_title(label), 8.0, MUTED_COLOR)
