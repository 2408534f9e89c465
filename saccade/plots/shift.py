"""Picture of distribution shift: each column of two tables, overlaid."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from saccade.inspection.figures import ColumnPair, DistributionShift
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import LINE_COLORS, MUTED_COLOR, LabelFont, image_format, write_figure
from saccade.plots.terminal import visible_text

TABLE_COLORS = LINE_COLORS[0], LINE_COLORS[1]
HISTOGRAM_BINS = 24
MAX_CATEGORY_BARS = 8  # of more categories the rarest share one bar
MAX_VALUE_LENGTH = 18  # letters of a category


def save_column_distributions(
    panels: Sequence[ColumnPair], names: tuple[str, str], path: Path, across: int = 3
) -> list[str]:
    """Draw the distribution of each column in both tables, a panel each; return warnings.

    Heights are shares of the rows of each table, so that tables of different lengths can be
    compared.
    """
    format = image_format(path)
    if not panels:
        raise ValueError("got no columns; give at least one to draw.")
    across = min(across, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(3.9 * across, 2.7 * down + 0.5), facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", h_pad=0.08, w_pad=0.08)
    grid = figure.subplots(down, across, squeeze=False).flatten().tolist()
    values = [v for p in panels if p.source.dtype.kind == "U" for v in _frequent_values(p)]
    font = LabelFont(*fonts_for("".join([*names, *values, *(p.name + p.note for p in panels)])))
    for axes, panel in zip(grid, panels, strict=False):
        _draw_panel(axes, panel, font)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    patches = [Patch(color=colour, alpha=0.75) for colour in TABLE_COLORS]
    legend = figure.legend(
        patches, [_visible(name, font) for name in names], loc="outside upper left", ncols=2
    )
    legend.set_frame_on(False)
    for text in legend.get_texts():
        font.apply(text, 9.0)
    write_figure(figure, path, format)
    return [missing_message(font.missing)] if font.missing else []


def save_distribution_shift(shift: DistributionShift, path: Path) -> list[str]:
    """Draw a `DistributionShift`; return warnings."""
    return save_column_distributions(shift.columns, shift.tables, path)


def _draw_panel(axes: Axes, panel: ColumnPair, font: LabelFont) -> None:
    title = f"{_visible(panel.name, font)}   {panel.note}".rstrip()
    font.apply(axes.set_title(title, loc="left"), 9.5)
    axes.tick_params(length=2, labelsize=8, labelcolor=MUTED_COLOR, color=MUTED_COLOR)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.locator_params(axis="y", nbins=4)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(MUTED_COLOR)
        spine.set_linewidth(0.5)
    if panel.source.dtype.kind == "U" or len(_distinct_numbers(panel)) <= MAX_CATEGORY_BARS:
        _draw_bars(axes, panel, font)
    else:
        _draw_histogram(axes, panel)


def _distinct_numbers(panel: ColumnPair) -> list[Any]:
    """Return the distinct numbers of a column in both tables, without NaN."""
    both = np.concatenate([panel.source, panel.target])
    return np.unique(both[~np.isnan(both)]).tolist()


def _draw_histogram(axes: Axes, panel: ColumnPair) -> None:
    """Draw the histograms of a numeric column; the outermost bins include the outliers."""
    both = np.concatenate([panel.source, panel.target])
    low, high = np.nanquantile(both, [0.005, 0.995]).tolist()
    edges = np.linspace(low, high if high > low else low + 1.0, HISTOGRAM_BINS + 1)
    for values, colour in zip((panel.source, panel.target), TABLE_COLORS, strict=True):
        inside = np.clip(values[~np.isnan(values)], edges[0], edges[-1])
        heights = np.histogram(inside, edges)[0] / max(len(values), 1)
        axes.stairs(heights, edges, fill=True, color=colour, alpha=0.3)
        axes.stairs(heights, edges, color=colour, lw=1.4)
    axes.locator_params(axis="x", nbins=5)
    axes.set_ylim(bottom=0)


def _frequent_values(panel: ColumnPair) -> list[str]:
    """Return the most common categories of both tables, at most `MAX_CATEGORY_BARS`."""
    shares: Counter[str] = Counter()
    for part in (panel.source, panel.target):
        for value, count in Counter(part.tolist()).items():
            shares[value] += count / len(part)  # type: ignore[assignment]
    return [value for value, _ in shares.most_common(MAX_CATEGORY_BARS)]


def _draw_bars(axes: Axes, panel: ColumnPair, font: LabelFont) -> None:
    """Draw two bars for each category, or for each of a few distinct numbers."""
    is_numeric = panel.source.dtype.kind != "U"
    values = _distinct_numbers(panel) if is_numeric else _frequent_values(panel)
    labels = [f"{v:g}" if is_numeric else _visible(v[:MAX_VALUE_LENGTH], font) for v in values]
    rest = not is_numeric and not set(panel.source) | set(panel.target) <= set(values)
    for table, (part, colour) in enumerate(
        zip((panel.source, panel.target), TABLE_COLORS, strict=True)
    ):
        heights = [float(np.mean(part == value)) for value in values]
        heights += [1 - sum(heights)] if rest else []
        positions = np.arange(len(heights)) + 0.4 * table - 0.2
        axes.bar(positions, heights, 0.38, color=colour, alpha=0.75)
    labels += ["others"] if rest else []
    rotated = sum(map(len, labels)) > 28
    axes.set_xticks(range(len(labels)), labels)
    for label in axes.get_xticklabels():
        font.apply(label, 8.0, MUTED_COLOR)
        if rotated:
            label.set(rotation=35, ha="right", rotation_mode="anchor")


def _visible(text: str, font: LabelFont) -> str:
    return replace_missing(visible_text(text), font.missing)
