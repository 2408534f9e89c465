"""Picture of an attribution: a text with coloured words, or bars of the columns of a row.

Blue parts raise the value of the output, red ones lower it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from saccade.inspection.attribution import ATTRIBUTION_METHODS, Attribution, check_attribution
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
from saccade.plots.terminal import has_right_to_left, visible_text

RAISES_COLOR, LOWERS_COLOR = LINE_COLORS[:2]
SCORE_COLORMAP = LinearSegmentedColormap.from_list("scores", [LOWERS_COLOR, "white", RAISES_COLOR])
TEXT_LINE_POINTS = 520.0  # width of a line of words
WORD_FONT_SIZE = 12.0
WORD_LINE_POINTS = 24.0  # distance of two lines
MAX_PLOTTED_PARTS = 400  # words of a text
MAX_PLOTTED_BARS = 20  # columns of a row


class WordBox(NamedTuple):
    """A word of the picture: its text, left edge and width in points, and line."""

    text: str
    left: float
    width: float
    line: int


def save_attribution(attribution: Attribution, path: Path) -> list[str]:
    """Draw the attribution as PNG, SVG or PDF by the suffix of `path`; return warnings."""
    format = image_format(path)
    check_attribution(attribution)
    labels = [visible_text(part) for part in attribution.parts]
    names = [attribution.output, attribution.against, *attribution.cells]
    font = LabelFont(*fonts_for("".join([*labels, *names])))
    draw = word_figure if attribution.spans else bar_figure
    write_figure(draw(attribution, font), path, format)
    warnings = [missing_message(font.missing)] if font.missing else []
    limit = MAX_PLOTTED_PARTS if attribution.spans else MAX_PLOTTED_BARS
    if len(labels) > limit:
        which = "first" if attribution.spans else "strongest"
        warnings.append(f"The picture shows the {which} {limit} of {len(labels)} parts.")
    return warnings


def attribution_title(attribution: Attribution) -> str:
    """Return the title: the output with its probability, the runner-up, the method."""
    output = attribution.output
    if attribution.probability is not None:
        output += f" ({attribution.probability:.1%})"
    against = f", compared with {attribution.against}" if attribution.against else ""
    return f"{output}{against}"


def score_limit(scores: Sequence[float] | np.ndarray) -> float:
    """Return the end of a symmetric colour scale; 1 if all scores are zero."""
    return float(np.abs(scores).max()) or 1.0


def word_figure(attribution: Attribution, font: LabelFont) -> Figure:
    """Return the words of the text in reading order, each on its colour."""
    words = layout_words(attribution, font)
    lines = words[-1].line + 1
    height = lines * WORD_LINE_POINTS
    figure = Figure(figsize=(TEXT_LINE_POINTS / 72 + 0.4, height / 72 + 1.1), facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    axes.set_xlim(0, TEXT_LINE_POINTS)
    axes.set_ylim(height, 0)
    axes.axis("off")
    scores = np.asarray(attribution.scores, np.float64)
    limit = score_limit(scores)
    for word, score in zip(words, scores, strict=False):
        strength = float(score) / limit
        top = word.line * WORD_LINE_POINTS + 3
        axes.add_patch(
            FancyBboxPatch(
                (word.left + 1, top),
                max(word.width - 2, 1.0),
                WORD_LINE_POINTS - 6,
                boxstyle="round,pad=0,rounding_size=3",
                facecolor=SCORE_COLORMAP((1 + strength) / 2),
                edgecolor="none",
            )
        )
        middle = top + (WORD_LINE_POINTS - 6) / 2
        label = axes.text(word.left + word.width / 2, middle, word.text, ha="center", va="center")
        font.apply(label, WORD_FONT_SIZE, "white" if abs(strength) > 0.75 else TEXT_COLOR)
    _add_title(axes, attribution, font)
    _add_scale(figure, axes, attribution, limit)
    return figure


def layout_words(attribution: Attribution, font: LabelFont) -> list[WordBox]:
    """Lay the words out in lines; right to left if most of them are."""
    parts = list(attribution.parts[:MAX_PLOTTED_PARTS])
    texts = [replace_missing(visible_text(part), font.missing) for part in parts]
    widths = _measure(texts, font)
    placed: list[WordBox] = []
    left, line = 0.0, 0
    previous_end: int | None = None
    for text, width, (start, end) in zip(texts, widths, attribution.spans, strict=False):
        gap = 4.0 if previous_end is not None and start > previous_end else 0.0
        if placed and left + gap + width > TEXT_LINE_POINTS:
            left, gap, line = 0.0, 0.0, line + 1
        placed.append(WordBox(text, left + gap, width, line))
        left, previous_end = left + gap + width, end
    if sum(map(has_right_to_left, parts)) > len(parts) / 2:
        return [word._replace(left=TEXT_LINE_POINTS - word.left - word.width) for word in placed]
    return placed


def _measure(texts: Sequence[str], font: LabelFont) -> list[float]:
    """Return the width of each text in points, with a margin."""
    figure = Figure(dpi=72)
    renderer = FigureCanvasAgg(figure).get_renderer()
    label = figure.text(0, 0, "")
    font.apply(label, WORD_FONT_SIZE)
    widths = {}
    for text in dict.fromkeys(texts):
        label.set_text(text)
        widths[text] = min(label.get_window_extent(renderer).width + 8, TEXT_LINE_POINTS)
    return [widths[text] for text in texts]


def bar_figure(attribution: Attribution, font: LabelFont) -> Figure:
    """Return the strongest columns as bars, the strongest on top."""
    order = attribution.strongest(MAX_PLOTTED_BARS)
    scores = np.asarray(attribution.scores, np.float64)[order]
    names = [attribution.parts[i] for i in order]
    if attribution.cells:
        names = [f"{name} = {attribution.cells[i]}" for name, i in zip(names, order, strict=True)]
    figure = Figure(figsize=(7.0, 0.34 * len(order) + 1.3), facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained")
    axes = figure.add_subplot()
    colours = [RAISES_COLOR if score >= 0 else LOWERS_COLOR for score in scores]
    positions = np.arange(len(order))
    axes.barh(positions, scores, color=colours, height=0.66)
    axes.invert_yaxis()
    style_axes(axes, "", legend=False)
    axes.set_yticks(positions, [replace_missing(visible_name(n), font.missing) for n in names])
    for label in axes.get_yticklabels():
        font.apply(label, 9)
    axes.axvline(0.0, color="#cccccc", linewidth=0.8)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.7)
    axes.set_xlabel(_scale_label(attribution), color=MUTED_COLOR, fontsize=9)
    _add_title(axes, attribution, font)
    return figure


def visible_name(name: str) -> str:
    """Return a name in one line whose spaces stay spaces."""
    return visible_text(" ".join(name.split()) or name).replace("␣", " ")


def _add_title(axes: Axes, attribution: Attribution, font: LabelFont) -> None:
    title = axes.set_title(
        replace_missing(attribution_title(attribution), font.missing), loc="left"
    )
    font.apply(title, 11)


def _scale_label(attribution: Attribution) -> str:
    method = ATTRIBUTION_METHODS[attribution.method]
    return f"{attribution.unit}: {method}\nbaseline: {attribution.baseline}"


def _add_scale(figure: Figure, axes: Axes, attribution: Attribution, limit: float) -> None:
    """Add a horizontal colour bar below the words."""
    mappable = ScalarMappable(Normalize(-limit, limit), SCORE_COLORMAP)
    bar = figure.colorbar(
        mappable, ax=axes, orientation="horizontal", fraction=0.08, aspect=40, pad=0.04
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=MUTED_COLOR)
    bar.set_label(_scale_label(attribution), color=MUTED_COLOR, fontsize=9)
