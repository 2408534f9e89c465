"""Picture of a forward and backward pass through a small network, with all values and gradients."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from saccade.inspection.figures import ComputationGraph, GraphUnit
from saccade.plots.fonts import fonts_for, missing_message, replace_missing
from saccade.plots.style import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    LabelFont,
    image_format,
    write_figure,
)
from saccade.types.arrays import FloatArray

# lengths in inches, font sizes in points
UNIT_BOX = (0.78, 0.5)
UNIT_SPACING = 1.0  # between the centres of neighbouring units of a layer
NAME_FONT_SIZE, VALUE_FONT_SIZE, WEIGHT_FONT_SIZE = 7.5, 7.5, 6.0
WEIGHT_LABEL_BOX = (0.4, 0.13)  # space for the text of a weight
LABEL_CLEARANCE = 0.09  # from the text of a weight to other edges; more is not better
LABEL_FRACTIONS = np.linspace(0.1, 0.9, 41)  # candidate positions of a weight along its edge
MAX_UNIT_NAME_LENGTH = 28  # characters
POSITIVE_COLOR, NEGATIVE_COLOR, GRADIENT_COLOR = LINE_COLORS[0], LINE_COLORS[1], LINE_COLORS[2]
GRAPH_LEGEND = (
    "x input, z pre-activation, a activation, p probability, b bias; on an edge its weight, blue "
    "if positive, orange if negative. ∂x = ∂loss/∂x and δ = ∂loss/∂z are gradients."
)


class GraphEdge(NamedTuple):
    """A weight and the coordinates of its edge."""

    start: tuple[float, float]
    end: tuple[float, float]
    weight: float


def save_computation_graph(graph: ComputationGraph, path: Path) -> list[str]:
    """Draw the graph as PNG, SVG or PDF by the suffix of `path`; return warnings."""
    format = image_format(path)
    names = "".join(unit.name for layer in graph.layers for unit in layer)
    font = LabelFont(*fonts_for(f"{names}{graph.title}{GRAPH_LEGEND}0123456789.−…", None))
    write_figure(computation_graph_figure(graph, font), path, format)
    return [missing_message(font.missing)] if font.missing else []


def computation_graph_figure(graph: ComputationGraph, font: LabelFont) -> Figure:
    """Return the figure: inputs on the left, outputs on the right; the axes are in inches."""
    tallest = max(len(layer) for layer in graph.layers)
    height = tallest * UNIT_SPACING
    gaps = [1.7 + 0.035 * weights.size for weights in graph.weights]
    while True:  # widen the gaps until every weight has room on its edge
        middles = UNIT_BOX[0] / 2 + np.concatenate([[0.0], np.cumsum(np.array(gaps) + UNIT_BOX[0])])
        edges = [_edges(graph, gap, middles, height) for gap in range(len(gaps))]
        positions = [label_positions(some) for some in edges]
        crowded = [gap for gap, found in enumerate(positions) if found is None]
        if not crowded:
            break
        for gap in crowded:
            gaps[gap] *= 1.3
    left, right = (_label_width(graph.layers[side], font) for side in (0, -1))
    low, high = -left, float(middles[-1]) + UNIT_BOX[0] / 2 + right
    figure = Figure(figsize=(high - low, height), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(low, high)
    axes.set_ylim(0, height)
    axes.axis("off")
    _draw_edges(axes, edges, positions, font)
    for number, layer in enumerate(graph.layers):
        side = "left" if number == 0 else "right" if number == len(graph.layers) - 1 else ""
        for unit, y in zip(layer, _heights(len(layer), height), strict=True):
            _draw_unit(axes, unit, (float(middles[number]), y), side, font)
    title, legend = replace_missing(graph.title, font.missing), GRAPH_LEGEND
    above = axes.text(low, height + 0.1, fill(title, int((high - low) / 0.085)), va="bottom")
    below = axes.text(low, -0.1, fill(legend, int((high - low) / 0.056)), va="top")
    font.apply(above, 10.0)
    font.apply(below, 7.0, MUTED_COLOR)
    return figure


def _heights(count: int, height: float) -> list[float]:
    """Return the y coordinates of the centres of `count` units, the first at the top."""
    return [height * (1 - (unit + 0.5) / count) for unit in range(count)]


def _edges(
    graph: ComputationGraph, gap: int, middles: FloatArray, height: float
) -> list[GraphEdge]:
    before, after = (_heights(len(graph.layers[gap + side]), height) for side in (0, 1))
    left, right = middles[gap] + UNIT_BOX[0] / 2, middles[gap + 1] - UNIT_BOX[0] / 2
    return [
        GraphEdge((float(left), start), (float(right), end), float(graph.weights[gap][to, source]))
        for to, end in enumerate(after)
        for source, start in enumerate(before)
    ]


def label_positions(edges: Sequence[GraphEdge]) -> list[tuple[float, float]] | None:
    """Return a position on each edge for its weight, clear of other edges and weights.

    None if there is too little room.
    """
    starts, ends = (
        np.array([getattr(edge, side)[1] for edge in edges]) for side in ("start", "end")
    )
    left, right = edges[0].start[0], edges[0].end[0]
    inside = WEIGHT_LABEL_BOX[0] / 2 / (right - left)
    along = LABEL_FRACTIONS[(LABEL_FRACTIONS > inside) & (LABEL_FRACTIONS < 1 - inside)]
    heights = starts[:, None] * (1 - along) + ends[:, None] * along  # (edges, candidates)
    slopes = np.hypot(1.0, (ends - starts) / (right - left))
    taken: list[tuple[float, float]] = []
    for number in range(len(edges)):
        clear = np.abs(heights - heights[number]) / slopes[:, None]
        clear[number] = LABEL_CLEARANCE
        good = np.minimum(clear.min(axis=0), LABEL_CLEARANCE) - 0.01 * np.abs(along - 0.5)
        for candidate in np.argsort(-good, kind="stable"):
            x = left + (right - left) * float(along[candidate])
            y = float(heights[number, candidate])
            if all(
                abs(x - a) >= WEIGHT_LABEL_BOX[0] or abs(y - b) >= WEIGHT_LABEL_BOX[1]
                for a, b in taken
            ):
                taken.append((x, y))
                break
        else:
            return None
    return taken


def _draw_edges(
    axes: Axes,
    edges: Sequence[Sequence[GraphEdge]],
    positions: Sequence[list[tuple[float, float]] | None],
    font: LabelFont,
) -> None:
    largest = max(abs(edge.weight) for some in edges for edge in some) or 1.0
    for some, found in zip(edges, positions, strict=True):
        for edge, (x, y) in zip(some, found or [], strict=True):
            colour = POSITIVE_COLOR if edge.weight >= 0 else NEGATIVE_COLOR
            width = 0.3 + 2.0 * abs(edge.weight) / largest
            across, down = zip(edge.start, edge.end, strict=True)
            axes.plot(across, down, color=colour, lw=width, alpha=0.45, zorder=1)
            label = axes.text(x, y, _format_value(edge.weight), ha="center", va="center", zorder=3)
            label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.9})
            font.apply(label, WEIGHT_FONT_SIZE, colour)


def _draw_unit(
    axes: Axes, unit: GraphUnit, middle: tuple[float, float], side: str, font: LabelFont
) -> None:
    """Draw a box with the values of a unit, its name next to it or above it, its bias below."""
    x, y = middle
    width, height = UNIT_BOX
    box = FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.06"
    )
    box.set(facecolor="#f4f7fb", edgecolor="#b9c6d8", linewidth=0.8, zorder=2)
    axes.add_patch(box)
    lines = len(unit.figures)
    for line, (name, value) in enumerate(unit.figures.items()):
        line_y = y + height * (0.5 - (line + 0.5) / lines) * 0.86
        colour = GRADIENT_COLOR if name[0] in "∂δ" else TEXT_COLOR
        for text, offset, align in ((name, -0.4, "left"), (_format_value(value), 0.42, "right")):
            label = axes.text(x + offset * width, line_y, text, ha=align, va="center", zorder=4)
            font.apply(label, VALUE_FONT_SIZE, colour)
    name = replace_missing(_shorten(unit.name), font.missing)
    if side:
        sign = -1 if side == "left" else 1
        align = "right" if side == "left" else "left"
        label = axes.text(x + sign * (width / 2 + 0.08), y, name, ha=align, va="center")
    else:
        label = axes.text(x, y + height / 2 + 0.04, name, ha="center", va="bottom")
    font.apply(label, NAME_FONT_SIZE, TEXT_COLOR if side else MUTED_COLOR)
    if unit.bias is not None:
        bias = f"b {_format_value(unit.bias)}"
        below = axes.text(x, y - height / 2 - 0.04, bias, ha="center", va="top")
        font.apply(below, WEIGHT_FONT_SIZE, MUTED_COLOR)


def _label_width(layer: Sequence[GraphUnit], font: LabelFont) -> float:
    """Return the inches that the names next to an outer layer take."""
    return (
        0.25
        + max(len(replace_missing(_shorten(unit.name), font.missing)) for unit in layer)
        * NAME_FONT_SIZE
        * 0.009
    )


def _shorten(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= MAX_UNIT_NAME_LENGTH else f"{name[: MAX_UNIT_NAME_LENGTH - 1]}…"


def _format_value(value: float) -> str:
    """Format a value with at most three digits and a true minus sign."""
    if value and not 0.005 <= abs(value) < 999.5:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("-", "−")
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}".replace("-", "−")
