"""Pictures for files: attention maps, and how a training went.

Figures are made whole and written in one move; nothing global in matplotlib is touched.
"""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import wcwidth
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, FontProperties
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from saccade.io.atomic import write_atomically
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.terminal import (
    AttentionMap,
    check_map,
    display_width,
    explain_invisible,
    scale_limit,
    visible_text,
)

IMAGE_FORMATS = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
# White to dark blue, each step as much darker to the eye as the one before.
ATTENTION_COLORMAP = LinearSegmentedColormap.from_list(
    "saccade",
    ["#ffffff", "#d3e0f4", "#a6c1e8", "#78a3da", "#4a84c6", "#2a66a8", "#174a83", "#0a2f5c"],
)
TEXT_COLOR, MUTED_COLOR = "#222222", "#8a8a8a"
LINE_COLORS = ("#3b6fb6", "#d1495b", "#2e8b57", "#8d5fb0", "#c98a1b", "#3aa6a6")
# Records hold more than scores; these are drawn elsewhere or not at all.
NON_SCORE_KEYS = {
    "step",
    "loss",
    "rate",
    "learning_rate",
    "seconds",
    "minutes",
    "epoch",
    "tokens",
    "norm",
    "ratio",
}


class LabelFont(NamedTuple):
    """The letters of a picture: families that have them, and those that none has."""

    families: list[str]
    missing: list[str]

    def apply(self, text: Text, size: float, colour: str = TEXT_COLOR) -> None:
        """Set a text in this type; a `$` in it is a dollar, not mathematics."""
        text.set_fontproperties(FontProperties(family=self.families, size=size))
        text.set_color(colour)
        text.set_parse_math(False)


def save_attention_maps(
    maps: Sequence[AttentionMap], path: Path, fonts: Sequence[FontEntry] | None = None
) -> list[str]:
    """Draw one map, or several side by side, as PNG, SVG or PDF by the path's ending.

    Returns what a person should know: letters that no font has (of `fonts`, or of all that are
    installed) and characters that cannot be seen.
    """
    form = image_format(path)
    if not maps:
        raise ValueError("got no maps; give at least one to draw.")
    for map in maps:
        check_map(map)
    pieces = [visible_text(piece) for map in maps for piece in (*map.rows, *map.columns)]
    words = [word for map in maps for word in (map.title, map.across, map.down)]
    font = LabelFont(*fonts_for("".join([*pieces, *words]), fonts))
    write_figure(attention_figure(maps, font), path, form)
    notes = [missing_message(font.missing)] if font.missing else []
    for map in maps:
        notes += explain_invisible(map.columns, "column") + explain_invisible(map.rows, "row")
    return list(dict.fromkeys(notes))


def attention_figure(maps: Sequence[AttentionMap], font: LabelFont) -> Figure:
    """The maps on a grid, all on one scale of colours."""
    square = cell_size(maps)
    size = min(11.0, square * 72 * 0.66)  # points
    sizes = [panel_size(map, font, square, size) for map in maps]
    width, height = (max(sides) for sides in zip(*sizes, strict=True))
    across = panel_columns(len(maps), width, height)
    down = math.ceil(len(maps) / across)
    figure = Figure(figsize=(across * width + 1.0, down * height + 0.3), facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("compressed", h_pad=0.1, w_pad=0.08)
    panels = figure.subplots(down, across, squeeze=False).flatten().tolist()
    end = max(scale_limit(map.weights) for map in maps)
    for number, (panel, map) in enumerate(zip(panels, maps, strict=False)):
        draw_attention_map(panel, map, font, size, end)
        label_axes(panel, map, font, across=number < across, down=number % across == 0)
    for panel in panels[len(maps) :]:
        panel.axis("off")
    add_colorbar(figure, panels, font, down, square * len(maps[0].rows))
    return figure


def cell_size(maps: Sequence[AttentionMap]) -> float:
    """Inches for one weight: large maps and many maps get smaller squares, never unreadable."""
    longest = max(max(len(map.rows), len(map.columns)) for map in maps)
    room, most = (10.0, 0.32) if len(maps) == 1 else (4.5, 0.22)
    return min(max(room / longest, 0.1), most)


def panel_size(
    map: AttentionMap, font: LabelFont, square: float, size: float
) -> tuple[float, float]:
    """Inches a panel needs with its labels and title."""
    letter = size * 0.65 / 72
    left = (
        max(display_width(replace_missing(visible_text(piece), font.missing)) for piece in map.rows)
        * letter
    )
    above = (
        max(
            display_width(replace_missing(visible_text(piece), font.missing))
            for piece in map.columns
        )
        * letter
    )
    width = max(left + square * len(map.columns), 0.09 * display_width(map.title))
    return width + 0.6, above + square * len(map.rows) + 1.0


def panel_columns(count: int, width: float, height: float) -> int:
    """The number of panels side by side: shaped like a screen, the last row well filled."""
    best = min(
        range(1, count + 1),
        key=lambda across: (
            abs(math.log(across * width / (math.ceil(count / across) * height) / 1.8))
            + (-count % across) / across
        ),
    )
    return best


def draw_attention_map(
    axes: Axes, map: AttentionMap, font: LabelFont, size: float, end: float
) -> None:
    """One map: source across the top, target down the side."""
    axes.imshow(map.weights, cmap=ATTENTION_COLORMAP, vmin=0, vmax=end, interpolation="nearest")
    axes.tick_params(length=0, pad=3, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.set_xticks(
        range(len(map.columns)),
        [replace_missing(visible_text(p), font.missing) for p in map.columns],
    )
    axes.set_yticks(
        range(len(map.rows)), [replace_missing(visible_text(p), font.missing) for p in map.rows]
    )
    for label, piece in zip(axes.get_xticklabels(), map.columns, strict=True):
        font.apply(label, label_font_size(label.get_text(), piece, size))
        if label_width(label.get_text()) > 2:
            label.set_rotation(90)
    for label, piece in zip(axes.get_yticklabels(), map.rows, strict=True):
        font.apply(label, label_font_size(label.get_text(), piece, size))
    if max(map.weights.shape) <= 40:
        draw_cell_grid(axes, map.weights.shape)
    axes.spines[:].set_color("#c9d2de")
    font.apply(axes.set_title(replace_missing(map.title, font.missing), pad=8), 11.0)


def label_axes(axes: Axes, map: AttentionMap, font: LabelFont, across: bool, down: bool) -> None:
    """Say what the axes are, once for each row and column of panels."""
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
    """Columns of a label when no font melts its parts into one (flags, families of emoji)."""
    return sum(max(wcwidth.wcwidth(letter), 0) for letter in text)


def label_font_size(text: str, piece: str, size: float) -> float:
    """The size of a label: smaller where a number stands for a letter."""
    return size if text == visible_text(piece) else size * 0.75


def draw_cell_grid(axes: Axes, shape: tuple[int, ...]) -> None:
    """Hairlines between the squares, so that a column can be followed down."""
    axes.set_xticks(np.arange(-0.5, shape[1]), minor=True)
    axes.set_yticks(np.arange(-0.5, shape[0]), minor=True)
    axes.grid(which="minor", color="#e9edf3", linewidth=0.6)
    axes.tick_params(which="minor", length=0)


def add_colorbar(
    figure: Figure, panels: list[Axes], font: LabelFont, down: int, height: float
) -> None:
    """The bar that says which colour is which weight."""
    bar = figure.colorbar(
        panels[0].images[0],
        ax=panels,
        shrink=0.9 / down,
        aspect=max(2.0, 0.9 * height / 0.14),
        pad=0.02,
        anchor=(0, 1.0),
    )
    bar.outline.set_color("#c9d2de")
    bar.ax.yaxis.set_major_locator(MaxNLocator(min(max(int(2 * height), 1), 5)))
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=MUTED_COLOR)
    font.apply(bar.ax.set_title("weight"), 8.0, MUTED_COLOR)


def image_format(path: Path) -> str:
    """What to write, by the ending of a path."""
    if path.suffix.lower() in IMAGE_FORMATS:
        return IMAGE_FORMATS[path.suffix.lower()]
    raise ValueError(
        f"{path} ends in {path.suffix or 'nothing'!r}; a picture can be {', '.join(IMAGE_FORMATS)}: "
        f"try {path.with_suffix('.png')}."
    )


def write_figure(figure: Figure, path: Path, form: str) -> None:
    """The figure in a file, whole or not at all."""
    content = io.BytesIO()
    figure.savefig(content, format=form, dpi=150, bbox_inches="tight", pad_inches=0.15)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.getvalue())


# --- curves -----------------------------------------------------------------------------------


def save_training_curves(records: Sequence[dict[str, Any]], path: Path) -> list[str]:
    """Draw a run's reports over its steps: loss, scores and learning rate, as far as they go.

    Where a step was reported twice (a run taken up again) the later report counts. Returns what
    a person should know.
    """
    form = image_format(path)
    losses = {
        "training": metric_series(records, "loss"),
        "held out": metric_series(records, "dev_loss"),
    }
    scores = {name: metric_series(records, name) for name in score_names(records)}
    rate = {"learning rate": metric_series(records, "learning_rate")}
    panels = [(losses, "loss", 3.0), (scores, "score, of 100", 2.2), (rate, "learning rate", 1.1)]
    filled = [panel for panel in panels if any(len(points) for points in panel[0].values())]
    if not filled:
        raise ValueError(
            f"got {len(records)} records and none with a step and a figure; "
            "train a little first: there are no curves to draw."
        )
    heights = [height for _, _, height in filled]
    figure = Figure(figsize=(8, sum(heights) + 0.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(filled), 1, sharex=True, squeeze=False, height_ratios=heights)
    for panel, (lines, name, _) in zip(axes.flatten().tolist(), filled, strict=True):
        draw_lines(panel, lines, name)
    axes[-1, 0].set_xlabel("step", color=MUTED_COLOR, fontsize=9)
    figure.align_ylabels()
    write_figure(figure, path, form)
    broken = sum(not math.isfinite(value) for record in records for value in numeric_values(record))
    return [f"Figures that are not finite were left out: {broken}."] if broken else []


def numeric_values(record: dict[str, Any]) -> list[int | float]:
    """The numbers of a record."""
    return [value for value in record.values() if is_plottable(value)]


def is_plottable(value: object) -> bool:
    """Whether a record's value is a number that could be drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def score_names(records: Sequence[dict[str, Any]]) -> list[str]:
    """The figures that are scores: shares from 0 to 1, BLEU and chrF."""
    names = dict.fromkeys(name for record in records for name in record)
    return [name for name in names if is_score(name, metric_series(records, name))]


def is_score(name: str, points: np.ndarray) -> bool:
    """Whether a figure belongs on a scale of 100."""
    if name in NON_SCORE_KEYS or name.endswith(("loss", "rate", "perplexity", "width")):
        return False
    if "rmse" in name or not len(points):  # in units of the data, wherever it happens to lie
        return False
    return is_percentage(name) or bool(0 <= points[:, 1].min() <= points[:, 1].max() <= 1)


def is_percentage(name: str) -> bool:
    """Whether a figure runs to 100 by custom (the taught BLEU runs to 1)."""
    return name.removeprefix("dev_") in {"bleu", "chrf"}


def metric_series(records: Sequence[dict[str, Any]], name: str) -> np.ndarray:
    """(N, 2): the steps at which a figure was reported, and the figure; finite ones only."""
    latest = {
        record["step"]: float(record[name])
        for record in records
        if "step" in record and is_plottable(record.get(name)) and math.isfinite(record[name])
    }
    return np.array(sorted(latest.items()), dtype=float).reshape(-1, 2)


def draw_lines(axes: Axes, lines: dict[str, np.ndarray], name: str) -> None:
    """One panel: a line for each figure, its last value in the legend."""
    scores = name.startswith("score")
    for (label, points), colour in zip(lines.items(), cycle_colors(len(lines)), strict=True):
        if len(points):
            factor = 100 if scores and not is_percentage(label) else 1
            values = points[:, 1] * factor
            mark = "o" if len(points) <= 40 else ""
            label = f"{label} {values[-1]:.4g}".replace("_", " ")
            axes.plot(points[:, 0], values, color=colour, lw=1.6, marker=mark, ms=3, label=label)
    values = np.concatenate([points[:, 1] for points in lines.values()])
    if name == "loss" and values.min() > 0 and values.max() > 20 * values.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    if scores:
        axes.set_ylim(-3, 103)
    style_axes(axes, name)


def cycle_colors(count: int) -> list[str]:
    """As many colours as there are lines."""
    return [LINE_COLORS[number % len(LINE_COLORS)] for number in range(count)]


def style_axes(axes: Axes, name: str) -> None:
    """Little ink: no box, faint lines, quiet numbers."""
    axes.set_ylabel(name, color=MUTED_COLOR, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#cccccc")
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelsize=8, labelcolor=MUTED_COLOR)
    if name != "learning rate":
        axes.legend(frameon=False, fontsize=8, labelcolor=TEXT_COLOR)
