"""Picture of calibration: accuracy against confidence, and how many predictions each bin has."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import ReliabilityDiagram
from saccade.plots.style import LINE_COLORS, MUTED_COLOR, image_format, style_axes, write_figure

BAR_WIDTH_SHARE = 0.08  # of the axis from 0 to 1


def save_reliability(diagram: ReliabilityDiagram, path: Path) -> list[str]:
    """Draw the diagram as PNG, SVG or PDF by the suffix of `path`; return warnings."""
    format = image_format(path)
    write_figure(reliability_figure(diagram), path, format)
    return []


def reliability_figure(diagram: ReliabilityDiagram) -> Figure:
    """Return accuracy by confidence above, and the number of predictions below."""
    figure = Figure(figsize=(5.0, 5.4), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    above.plot([0, 1], [0, 1], color=MUTED_COLOR, linewidth=1, linestyle="--", label="calibrated")
    above.plot(diagram.confidence, diagram.accuracy, "o-", color=LINE_COLORS[0], label="this model")
    above.set_xlim(0, 1)
    above.set_ylim(0, 1.02)
    above.set_title(
        f"Reliability: calibration error {diagram.error:.3f}, temperature "
        f"{diagram.temperature:.2f}",
        fontsize=10,
        loc="left",
    )
    style_axes(above, "share of correct predictions")
    below.bar(diagram.confidence, diagram.counts, width=BAR_WIDTH_SHARE, color=LINE_COLORS[0])
    style_axes(below, "predictions", legend=False)
    below.set_xlabel("confidence (probability of the prediction)", color=MUTED_COLOR, fontsize=9)
    below.set_xticks(np.linspace(0, 1, 6))
    return figure
