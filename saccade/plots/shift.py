"""Pictures of two tables: the columns of both, one over the other."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from saccade.plots.attention import LINE_COLORS, MUTED_COLOR, LabelFont, image_format, write_figure
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.terminal import visible_text

TABLE_COLORS = LINE_COLORS[0], LINE_COLORS[1]
HISTOGRAM_BINS = 24
MAX_CATEGORY_BARS = 8  # values that get a bar each; of more categories the rarest are one
MAX_VALUE_LENGTH = 18  # letters of a value


class ColumnPair(NamedTuple):
    """One column in two tables: numbers, or texts."""

    name: str
    source: NDArray[Any]
    target: NDArray[Any]
    note: str = ""  # behind the name


def save_column_distributions(
    panels: Sequence[ColumnPair], names: tuple[str, str], path: Path, across: int = 3
) -> list[str]:
    """Draw how each column is spread in both tables, a panel each; what is to be said is returned.

    The height of a bar is the share of the table's own rows, so that tables of different lengths
    can be compared.
    """
    form = image_format(path)
    if not panels:
        raise ValueError("got no columns; give at least one to draw.")
    across = min(across, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(3.9 * across, 2.7 * down + 0.5), facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", h_pad=0.08, w_pad=0.08)
    every = figure.subplots(down, across, squeeze=False).flatten().tolist()
    values = [v for p in panels if p.source.dtype.kind == "U" for v in _values(p)]
    font = LabelFont(*fonts_for("".join([*names, *values, *(p.name + p.note for p in panels)])))
    for axes, panel in zip(every, panels, strict=False):
        _draw(axes, panel, font)
    for axes in every[len(panels) :]:
        axes.set_axis_off()
    patches = [Patch(color=colour, alpha=0.75) for colour in TABLE_COLORS]
    legend = figure.legend(
        patches, [_spelt(name, font) for name in names], loc="outside upper left", ncols=2
    )
    legend.set_frame_on(False)
    for text in legend.get_texts():
        font.apply(text, 9.0)
    write_figure(figure, path, form)
    return [missing_message(font.missing)] if font.missing else []


def _draw(axes: Axes, panel: ColumnPair, font: LabelFont) -> None:
    named = f"{_spelt(panel.name, font)}   {panel.note}".rstrip()
    font.apply(axes.set_title(named, loc="left"), 9.5)
    axes.tick_params(length=2, labelsize=8, labelcolor=MUTED_COLOR, color=MUTED_COLOR)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.locator_params(axis="y", nbins=4)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(MUTED_COLOR)
        spine.set_linewidth(0.5)
    if panel.source.dtype.kind == "U" or len(_known(panel)) <= MAX_CATEGORY_BARS:
        _bars(axes, panel, font)
    else:
        _steps(axes, panel)


def _known(panel: ColumnPair) -> list[Any]:
    """The different numbers that are there."""
    both = np.concatenate([panel.source, panel.target])
    return np.unique(both[~np.isnan(both)]).tolist()


def _steps(axes: Axes, panel: ColumnPair) -> None:
    """Numbers: the share of rows in each of some bins; the farthest are in the outermost."""
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


def _values(panel: ColumnPair) -> list[str]:
    """The commonest categories, as many as get a bar."""
    shares: Counter[str] = Counter()
    for part in (panel.source, panel.target):
        for value, count in Counter(part.tolist()).items():
            shares[value] += count / len(part)  # type: ignore[assignment]
    return [value for value, _ in shares.most_common(MAX_CATEGORY_BARS)]


def _bars(axes: Axes, panel: ColumnPair, font: LabelFont) -> None:
    """Categories, or a few numbers: two bars for each."""
    of_numbers = panel.source.dtype.kind != "U"
    values = _known(panel) if of_numbers else _values(panel)
    labels = [f"{v:g}" if of_numbers else _spelt(v[:MAX_VALUE_LENGTH], font) for v in values]
    rest = not of_numbers and not set(panel.source) | set(panel.target) <= set(values)
    for place, (part, colour) in enumerate(
        zip((panel.source, panel.target), TABLE_COLORS, strict=True)
    ):
        heights = [float(np.mean(part == value)) for value in values]
        heights += [1 - sum(heights)] if rest else []
        at = np.arange(len(heights)) + 0.4 * place - 0.2
        axes.bar(at, heights, 0.38, color=colour, alpha=0.75)
    labels += ["others"] if rest else []
    turned = sum(map(len, labels)) > 28
    axes.set_xticks(range(len(labels)), labels)
    for label in axes.get_xticklabels():
        font.apply(label, 8.0, MUTED_COLOR)
        if turned:
            label.set(rotation=35, ha="right", rotation_mode="anchor")


def _spelt(text: str, font: LabelFont) -> str:
    return replace_missing(visible_text(text), font.missing)
