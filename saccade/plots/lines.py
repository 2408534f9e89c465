"""Pictures of lines in panels: losses, gradients, paths of an optimizer."""

import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import LinePanel, LinePanels
from saccade.plots.style import (
    MUTED_COLOR,
    TEXT_COLOR,
    image_format,
    nested_lines,
    style_axes,
    write_figure,
)

PANELS_ACROSS = 2


def save_line_panels(panels: LinePanels, path: Path) -> list[str]:
    """Draw the panels as PNG, SVG or PDF by the suffix of `path`; return warnings."""
    format = image_format(path)
    write_figure(line_figure(panels), path, format)
    return []


def line_figure(panels: LinePanels) -> Figure:
    """Return the figure: the panels in reading order."""
    across = min(len(panels.panels), PANELS_ACROSS)
    down = math.ceil(len(panels.panels) / across)
    figure = Figure(figsize=(5.6 * across, 3.9 * down), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    every = figure.subplots(down, across, squeeze=False).flatten().tolist()
    for axes, panel in zip(every, panels.panels, strict=False):
        _draw_panel(axes, panel)
    for axes in every[len(panels.panels) :]:
        axes.axis("off")
    if panels.title:
        figure.suptitle(panels.title, x=0.01, ha="left", fontsize=11, color=TEXT_COLOR)
    return figure


def _draw_panel(axes: Axes, panel: LinePanel) -> None:
    styles = nested_lines(len(panel.lines))
    for line, (colour, width) in zip(panel.lines, styles, strict=True):
        axes.plot(line.x, line.y, color=colour, lw=width, label=line.label)
    for label, x, y in panel.points:
        axes.plot([x], [y], "o", color=TEXT_COLOR, ms=4)
        axes.annotate(label, (x, y), (5, 5), textcoords="offset points", fontsize=8)
    if panel.equal:
        axes.set_aspect("equal", adjustable="datalim")
    axes.set_title(panel.title, loc="left", fontsize=10, color=TEXT_COLOR)
    axes.set_xlabel(panel.x_label, color=MUTED_COLOR, fontsize=9)
    style_axes(axes, panel.y_label, legend=len(panel.lines) > 1)
