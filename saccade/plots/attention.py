"""Pictures of attention maps: one, a grid of heads, or an overview of many, on one colour scale.

Every length is computed before anything is drawn, from the measured sizes of the texts, so that
titles and labels cannot overlap and the picture is never larger than `PAGE_INCHES`.
"""

import math
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

import numpy as np
import wcwidth
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from saccade.inspection.attention_map import (
    AttentionMap,
    check_map,
    crop_map,
    map_limit,
    scale_limit,
)
from saccade.inspection.figures import AttentionGrid
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import (
    ATTENTION_COLORMAP,
    MUTED_COLOR,
    LabelFont,
    image_format,
    write_figure,
)
from saccade.plots.terminal import (
    display_width,
    explain_invisible,
    truncate_to_width,
    visible_text,
)

# lengths in inches, font sizes in points
PAGE_INCHES = 16.0  # 2,400 pixels, of width and of height
CELL_SIZES = (0.32, 0.28, 0.24, 0.21, 0.18, 0.16, 0.14, 0.125, 0.11)
MAX_GRID_CELL = 0.24
MAX_MAP_TOKENS = {1: 60, 4: 48, 9: 36, 16: 24}  # by the number of maps: tokens of a side
MAX_LABELLED_MAPS = max(MAX_MAP_TOKENS)  # more are drawn as an overview, without tokens
MAX_OVERVIEW_MAPS, OVERVIEW_MAP_INCHES, OVERVIEW_TOKENS = 144, 0.9, 96
OVERVIEW_QUANTILE = 0.98  # of the weights, where the colour scale of an overview ends
HEADING_FONT_SIZE, TITLE_FONT_SIZE, AXIS_FONT_SIZE, OVERVIEW_FONT_SIZE = 11.0, 9.5, 9.0, 7.0
MAX_HEADING_LINES = 3
MAX_LABEL_WIDTH, MAX_GRID_LABEL_WIDTH = 18, 12  # columns of a token's label, as in a terminal
PANEL_GAP, LABEL_GAP, AXIS_LABEL_SPACE, BAR_SPACE, BAR_WIDTH = 0.24, 0.07, 0.26, 0.7, 0.12
MIN_BAR_HEIGHT, MIN_HEADING_INCHES = 0.9, 4.0

LabelFunction = Callable[[str], str]


class GridLayout(NamedTuple):
    """Sizes in inches of a grid of equal panels: row labels left of the map, title above it."""

    square: float  # side of a cell
    label_size: float  # font size of the tokens; 0: no tokens
    left: float  # width of the row labels
    top: float  # height of column labels and title
    panel: tuple[float, float]  # labels, map and the gap to the next panel
    across: int  # panels per row
    down: int
    axis_labels: tuple[float, float]  # lengths of both axis labels, which the first panel has

    @property
    def grid(self) -> tuple[float, float]:
        """Width and height of all panels, with the labels of the axes."""
        width, height = self.panel
        across, down = self.axis_labels
        return (
            AXIS_LABEL_SPACE + max(self.across * width, self.left + across + PANEL_GAP),
            AXIS_LABEL_SPACE + max(self.down * height, self.top + down + PANEL_GAP),
        )


def save_attention_maps(
    maps: Sequence[AttentionMap] | AttentionGrid,
    path: Path,
    fonts: Sequence[FontEntry] | None = None,
) -> list[str]:
    """Draw one map, or several on a grid, as PNG, SVG or PDF by the suffix of `path`.

    Large maps are cropped to what can be read (`crop_map`). Returns warnings: maps that were left
    out, characters that no font has (of `fonts`, or of all that are installed) and characters that
    are invisible.
    """
    grid = maps if isinstance(maps, AttentionGrid) else AttentionGrid(maps)
    format = image_format(path)
    if not grid.maps:
        raise ValueError("got no maps; give at least one to draw.")
    for map in grid.maps:
        check_map(map)
    readable = readable_maps(grid.maps)
    font = map_font(readable, fonts, grid.title)
    write_figure(attention_figure(readable, font, grid.title), path, format)
    warnings = [missing_message(font.missing)] if font.missing else []
    if len(readable) < len(grid.maps):
        warnings.append(
            f"The picture shows the first {len(readable)} of {len(grid.maps)} maps; select a layer "
            "or a head for others."
        )
    if len(readable) <= MAX_LABELLED_MAPS:
        for map in readable:
            warnings += explain_invisible(map.columns, "column")
            warnings += explain_invisible(map.rows, "row")
    return list(dict.fromkeys(warnings))


def readable_maps(maps: Sequence[AttentionMap]) -> list[AttentionMap]:
    """Return as many maps, cropped to as many tokens, as can be read in one picture."""
    tokens = next(
        (tokens for count, tokens in MAX_MAP_TOKENS.items() if len(maps) <= count), OVERVIEW_TOKENS
    )
    return [crop_map(map, tokens, tokens) for map in maps[:MAX_OVERVIEW_MAPS]]


def map_font(
    maps: Sequence[AttentionMap], fonts: Sequence[FontEntry] | None = None, title: str = ""
) -> LabelFont:
    """Choose fonts that cover all tokens, titles and axis labels of some maps."""
    tokens = [visible_text(token) for map in maps for token in (*map.rows, *map.columns)]
    labels = [label for map in maps for label in (map.title, map.across, map.down)]
    return LabelFont(*fonts_for("".join([*tokens, *labels, title, "…"]), fonts))


def attention_figure(
    maps: Sequence[AttentionMap],
    font: LabelFont,
    title: str = "",
    *,
    square: float | None = None,
    limit: float | None = None,
    bar_label: str = "weight",
    label: LabelFunction | None = None,
) -> Figure:
    """Return the maps on a grid with one colour scale.

    Args:
        maps: the maps, in reading order.
        font: covers their text.
        title: heading of the picture; what the titles of all maps have in common is added to it.
        square: inches of one cell; by default from the number of tokens and maps.
        limit: end of the colour scale; by default from the largest weight.
        bar_label: title of the colour bar.
        label: from a token to the text on an axis; by default its first letters.
    """
    label = label or (token_label if len(maps) == 1 else short_label)
    shared, titles = split_titles([map.title for map in maps])
    layout = grid_layout(maps, titles, font, square, label)
    grid_width, grid_height = layout.grid
    width = max(grid_width + BAR_SPACE, MIN_HEADING_INCHES)
    lines = heading_lines(", ".join(part for part in (title, shared) if part), width, font)
    heading = 0.22 * len(lines) + 0.1 * bool(lines)
    height = heading + grid_height
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    if lines:
        font.apply(
            figure.text(0, 1, "\n".join(lines), va="top", linespacing=1.25), HEADING_FONT_SIZE
        )
    _label_axes(figure, maps[0], font, layout, heading)
    limit = limit or color_limit(maps)
    for number, (map, map_title) in enumerate(zip(maps, titles, strict=True)):
        row, column = divmod(number, layout.across)
        left = AXIS_LABEL_SPACE + column * layout.panel[0] + layout.left
        top = heading + AXIS_LABEL_SPACE + row * layout.panel[1] + layout.top
        map_width, map_height = (layout.square * len(side) for side in (map.columns, map.rows))
        axes = figure.add_axes(
            (left / width, 1 - (top + map_height) / height, map_width / width, map_height / height)
        )
        draw_attention_map(axes, map, font, layout.label_size, limit, label)
        if map_title:
            axes.set_title(replace_missing(map_title, font.missing), loc="left", pad=4)
            size = TITLE_FONT_SIZE if layout.label_size else OVERVIEW_FONT_SIZE
            font.apply(left_title(axes), size)
        if number == 0:
            bar_height = max(map_height, MIN_BAR_HEIGHT)
            bar = (grid_width - PANEL_GAP + 0.16, top + bar_height, BAR_WIDTH, bar_height)
            add_colorbar(
                axes,
                figure.add_axes(
                    (bar[0] / width, 1 - bar[1] / height, bar[2] / width, bar[3] / height)
                ),
                font,
                bar_height,
                bar_label,
                is_exceeded=any(map.own_weights.max(initial=0.0) > limit for map in maps),
            )
    return figure


def color_limit(maps: Sequence[AttentionMap]) -> float:
    """Return the end of the shared scale; in an overview, most weights are below it."""
    if len(maps) <= MAX_LABELLED_MAPS:
        return max(map_limit(map) for map in maps)
    weights = np.concatenate([map.own_weights.ravel() for map in maps])
    return scale_limit(np.quantile(weights[weights > 0], OVERVIEW_QUANTILE, keepdims=True))


def split_titles(titles: Sequence[str]) -> tuple[str, list[str]]:
    """Return the parts (between commas) at the start of all titles, and the rest of each title.

    The only title of a picture is its heading.
    """
    parts = [title.split(", ") for title in titles]
    shared = os.path.commonprefix(parts)  # of lists, as of strings
    rest = [", ".join(part[len(shared) :]) for part in parts]
    return ", ".join(shared), rest


def heading_lines(text: str, width: float, font: LabelFont) -> list[str]:
    """Return the heading in lines of the picture's width; a long one is cut."""
    text = replace_missing(" ".join(text.split()), font.missing)
    if not text:
        return []
    inches = text_size(text, font, HEADING_FONT_SIZE)[0]
    lines = wrap(text, max(int(0.95 * len(text) * width / inches), 8))
    if len(lines) > MAX_HEADING_LINES:
        lines = [*lines[: MAX_HEADING_LINES - 1], f"{lines[MAX_HEADING_LINES - 1][:-1]}…"]
    return lines


def grid_layout(
    maps: Sequence[AttentionMap],
    titles: Sequence[str],
    font: LabelFont,
    square: float | None,
    label: LabelFunction,
) -> GridLayout:
    """Return the layout with the largest cells that fits on the page."""
    if len(maps) > MAX_LABELLED_MAPS:
        longest = max(max(map.weights.shape) for map in maps)
        return _layout_for(maps, titles, font, OVERVIEW_MAP_INCHES / longest, label)
    largest = CELL_SIZES[0] if len(maps) == 1 else MAX_GRID_CELL
    sizes = [size for size in CELL_SIZES if size <= largest] if square is None else [square]
    for size in sizes:
        layout = _layout_for(maps, titles, font, size, label)
        if max(layout.grid) + BAR_SPACE <= PAGE_INCHES:
            break
    return layout


def _layout_for(
    maps: Sequence[AttentionMap],
    titles: Sequence[str],
    font: LabelFont,
    square: float,
    label: LabelFunction,
) -> GridLayout:
    is_overview = len(maps) > MAX_LABELLED_MAPS
    size = 0.0 if is_overview else min(11.0, square * 72 * 0.66)
    left = top = 0.0
    if size:
        rows, columns = (
            {replace_missing(label(token), font.missing) for some in sides for token in some}
            for sides in zip(*((map.rows, map.columns) for map in maps), strict=True)
        )
        left = LABEL_GAP + max(text_size(text, font, size)[0] for text in rows)
        top = LABEL_GAP + max(
            text_size(text, font, size)[0 if is_rotated(text) else 1] for text in columns
        )
    title_font = OVERVIEW_FONT_SIZE if is_overview else TITLE_FONT_SIZE
    titles_inches = [text_size(title, font, title_font) for title in titles if title]
    if titles_inches:
        top += LABEL_GAP + max(height for _, height in titles_inches)
    width = max(
        [square * len(map.columns) for map in maps] + [inches for inches, _ in titles_inches]
    )
    height = square * max(len(map.rows) for map in maps)
    panel = left + width + PANEL_GAP, top + height + PANEL_GAP
    across = panel_columns(len(maps), *panel)
    if is_overview:
        across = heads_per_layer(titles) or across
    down = math.ceil(len(maps) / across)
    x_label, y_label = (
        text_size(replace_missing(text, font.missing), font, AXIS_FONT_SIZE)[0]
        for text in (maps[0].across, maps[0].down)
    )
    return GridLayout(square, size, left, top, panel, across, down, (x_label, y_label))


def heads_per_layer(titles: Sequence[str]) -> int | None:
    """Return how many titles each group has (those that differ in their last part only)."""
    groups: dict[str, int] = {}
    for title in titles:
        group = title.rpartition(", ")[0]
        groups[group] = groups.get(group, 0) + 1
    sizes = set(groups.values())
    return sizes.pop() if len(sizes) == 1 and 1 < len(groups) < len(titles) else None


def panel_columns(count: int, width: float, height: float) -> int:
    """Return the number of panels per row: on the page, near 16:9, with a well-filled last row."""

    def badness(across: int) -> tuple[float, float]:
        sides = across * width, math.ceil(count / across) * height
        shape = abs(math.log(sides[0] / sides[1] / 1.8))
        return max(max(sides) - PAGE_INCHES + 1, 0.0), shape + (-count % across) / across

    return min(range(1, count + 1), key=badness)


def text_size(text: str, font: LabelFont, size: float) -> tuple[float, float]:
    """Return the width and height of a text in inches."""
    return _measure(text, tuple(font.families), size)


@cache
def _measure(text: str, families: tuple[str, ...], size: float) -> tuple[float, float]:
    figure = Figure(dpi=72)
    renderer = FigureCanvasAgg(figure).get_renderer()
    label = figure.text(0, 0, text)
    LabelFont(list(families), []).apply(label, size)
    box = label.get_window_extent(renderer)
    return float(box.width) / 72, float(box.height) / 72


def token_label(token: str, limit: int = MAX_LABEL_WIDTH) -> str:
    """Return the text of a token on an axis: visible, and not too long."""
    text = visible_text(token)
    return text if display_width(text) <= limit else truncate_to_width(text, limit - 1) + "…"


def short_label(token: str) -> str:
    """Return the text of a token in a grid of maps."""
    return token_label(token, MAX_GRID_LABEL_WIDTH)


def is_rotated(label: str) -> bool:
    """True for column labels that are set vertically; one or two letters stay upright."""
    return label_width(label) > 2


def label_width(text: str) -> int:
    """Return the columns of a label if no font joins its code points (flags, emoji families)."""
    return sum(max(wcwidth.wcwidth(letter), 0) for letter in text)


def draw_attention_map(
    axes: Axes,
    map: AttentionMap,
    font: LabelFont,
    size: float,
    limit: float,
    label: LabelFunction = token_label,
) -> None:
    """Draw one map: keys across the top, queries down the side; no tokens if `size` is 0."""
    axes.imshow(map.weights, cmap=ATTENTION_COLORMAP, vmin=0, vmax=limit, interpolation="nearest")
    if map.rest is not None:  # a sum over many keys: on a scale of its own, in grey
        other = np.full(map.weights.shape, np.nan)
        other[:, map.rest] = map.weights[:, map.rest]
        axes.imshow(other, cmap="Greys", vmin=0, vmax=1.6, interpolation="nearest")
    axes.spines[:].set_color("#c9d2de")
    axes.tick_params(length=0, pad=3, top=True, labeltop=True, bottom=False, labelbottom=False)
    if not size:
        axes.set(xticks=[], yticks=[])
        return
    rows, columns = (
        [replace_missing(label(token), font.missing) for token in tokens]
        for tokens in (map.rows, map.columns)
    )
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        font.apply(text, size)
    for text in axes.get_xticklabels():
        text.set_rotation(90 if is_rotated(text.get_text()) else 0)
    if max(map.weights.shape) <= 60:
        draw_cell_grid(axes, map.weights.shape)


def left_title(axes: Axes) -> Text:
    """Return the title that is aligned with the left edge."""
    title: Text = axes._left_title  # type: ignore[attr-defined]  # there is no public name
    return title


def _label_axes(
    figure: Figure, map: AttentionMap, font: LabelFont, layout: GridLayout, heading: float
) -> None:
    """Write what the tokens are: once, above the first row and left of the first column."""
    width, height = figure.get_size_inches()
    left, top = AXIS_LABEL_SPACE + layout.left, heading + AXIS_LABEL_SPACE + layout.top
    across, down = (replace_missing(text, font.missing) for text in (map.across, map.down))
    texts = (
        figure.text(left / width, 1 - heading / height, across, va="top"),
        figure.text(0, 1 - top / height, down, va="top", rotation=90),
    )
    for text in texts:
        font.apply(text, AXIS_FONT_SIZE, MUTED_COLOR)


def draw_cell_grid(axes: Axes, shape: tuple[int, ...]) -> None:
    """Draw hairlines between the cells."""
    axes.set_xticks(np.arange(-0.5, shape[1]), minor=True)
    axes.set_yticks(np.arange(-0.5, shape[0]), minor=True)
    axes.grid(which="minor", color="#e9edf3", linewidth=0.6)
    axes.tick_params(which="minor", length=0)


def add_colorbar(
    axes: Axes,
    bar_axes: Axes,
    font: LabelFont,
    height: float,
    label: str = "weight",
    is_exceeded: bool = False,
) -> None:
    """Draw the colour bar of a map into axes of this height in inches.

    `is_exceeded` marks a scale that ends below the largest weight.
    """
    extend = "max" if is_exceeded else "neither"
    bar = axes.figure.colorbar(axes.images[0], cax=bar_axes, extend=extend)
    bar.outline.set_color("#c9d2de")
    bar.ax.yaxis.set_major_locator(MaxNLocator(min(max(int(2 * height), 1), 5)))
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=MUTED_COLOR)
    font.apply(bar.ax.set_title(label), 8.0, MUTED_COLOR)
