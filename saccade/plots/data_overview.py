"""Picture of a data set: lengths of its texts, class balance, missing values."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import DataOverview, LengthDistribution
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import (
    LINE_COLORS,
    MUTED_COLOR,
    LabelFont,
    cycle_colors,
    image_format,
    style_axes,
    write_figure,
)
from saccade.plots.terminal import visible_text
from saccade.types.arrays import FloatArray

LENGTH_BINS = 40
LOG_LENGTH_RATIO = 30  # of the longest to the shortest text; beyond, the axis is logarithmic
MIN_BAR_ROWS = 6  # of a panel, so that two bars are not as thick as the panel
MAX_BAR_LABEL = 28  # characters of the name of a class or a column

Panel = Callable[[Axes], None]


def save_data_overview(overview: DataOverview, path: Path) -> list[str]:
    """Draw a `DataOverview`, one panel for each part that the data has; return warnings."""
    format = image_format(path)
    names = [*overview.classes, *overview.missing, *(part.name for part in overview.lengths)]
    font = LabelFont(*fonts_for("".join([overview.name, overview.label, *names])))
    panels: list[tuple[int, Panel]] = []  # rows of bars, drawing function
    if overview.lengths:
        panels.append((0, lambda axes: _draw_lengths(axes, overview, font)))
    if overview.classes:
        title = f"rows by {_visible(overview.label, font)}"
        total = sum(overview.classes.values())
        bars = {name: (count / total, f"{count:,}") for name, count in overview.classes.items()}
        panels.append((len(bars), lambda axes: _draw_bars(axes, title, bars, font, LINE_COLORS[0])))
    if overview.missing:
        shares = {name: (share, f"{share:.1%}") for name, share in overview.missing.items()}
        panels.append(
            (
                len(shares),
                lambda axes: _draw_bars(
                    axes, "missing values, share of the rows", shares, font, LINE_COLORS[1]
                ),
            )
        )
    if not panels:
        raise ValueError(
            f"got {overview.name} without texts, classes and missing values; nothing to draw."
        )
    height = max(3.2, 1.2 + 0.3 * max(rows for rows, _ in panels))
    figure = Figure(figsize=(5.0 * len(panels), height), facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", w_pad=0.15)
    for axes, (_, draw) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        draw(axes)
    heading = f"{_visible(overview.name, font)}   {overview.rows:,} rows"
    font.apply(figure.suptitle(heading, x=0.01, ha="left"), 10.5)
    write_figure(figure, path, format)
    return [missing_message(font.missing)] if font.missing else []


def _draw_lengths(axes: Axes, overview: DataOverview, font: LabelFont) -> None:
    """Draw a histogram of the lengths of each text column, with its median."""
    shortest = max(1, min(int(part.lengths.min()) for part in overview.lengths))
    longest = max(int(part.lengths.max()) for part in overview.lengths)
    is_log = longest > LOG_LENGTH_RATIO * shortest
    edges = (
        np.geomspace(shortest, longest + 1, LENGTH_BINS + 1)
        if is_log
        else np.linspace(shortest, longest + 1, min(LENGTH_BINS, longest + 1 - shortest) + 1)
    )
    for part, colour in zip(overview.lengths, cycle_colors(len(overview.lengths)), strict=True):
        heights = _bin_shares(part, edges)
        label = f"{_visible(part.name, font)}, median {part.median:,}"
        axes.stairs(heights, edges, fill=True, color=colour, alpha=0.25)
        axes.stairs(heights, edges, color=colour, lw=1.3, label=label)
        axes.axvline(part.median, color=colour, lw=0.9, ls=":")
    if is_log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    style_axes(axes, "")
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("characters", color=MUTED_COLOR, fontsize=9)
    font.apply(axes.set_title("length of the texts", loc="left"), 9.5)
    legend = axes.get_legend()
    for text in legend.get_texts() if legend is not None else []:
        font.apply(text, 8.0)


def _bin_shares(part: LengthDistribution, edges: FloatArray) -> FloatArray:
    """Return the share of the texts in each bin; the outermost bins have the rest."""
    inside = np.clip(part.lengths, edges[0], np.nextafter(edges[-1], 0))
    return np.histogram(inside, edges, weights=part.counts)[0] / max(1, part.counts.sum())


def _draw_bars(
    axes: Axes, title: str, bars: dict[str, tuple[float, str]], font: LabelFont, colour: str
) -> None:
    """Draw horizontal bars of shares, the first at the top, with the figure at the end."""
    rows = np.arange(len(bars))
    shares = [share for share, _ in bars.values()]
    axes.barh(rows, shares, 0.72, color=colour, alpha=0.75)
    limit = max(shares)
    for row, (share, figure) in enumerate(bars.values()):
        axes.text(share + 0.015 * limit, row, figure, va="center", fontsize=8, color=MUTED_COLOR)
    axes.set_yticks(rows, [_visible(_shorten(name), font) for name in bars])
    axes.set_ylim(max(len(bars), MIN_BAR_ROWS) - 0.4, -0.6)
    axes.set_xlim(0, 1.18 * limit)
    style_axes(axes, "", legend=False)
    axes.grid(visible=False)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.locator_params(axis="x", nbins=5)
    for label in axes.get_yticklabels():
        font.apply(label, 8.5)
    font.apply(axes.set_title(title, loc="left"), 9.5)


def _shorten(name: str) -> str:
    return name if len(name) <= MAX_BAR_LABEL else name[: MAX_BAR_LABEL - 1] + "…"


def _visible(text: str, font: LabelFont) -> str:
    # words of a name keep their spaces; a name of spaces alone is made visible
    words = [visible_text(word) for word in text.split()]
    return replace_missing(" ".join(words) or visible_text(text), font.missing)
