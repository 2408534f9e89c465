"""Picture of online learning: the running score over the rows."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import OnlineLearningCurve, running_mean
from saccade.plots.style import MUTED_COLOR, cycle_colors, image_format, style_axes, write_figure
from saccade.types.arrays import FloatArray


def save_online_scores(
    lines: Mapping[str, FloatArray], metric: str, window: int, path: Path
) -> None:
    """Draw the score of all predictions so far, and below it that of the last `window` rows.

    `lines` has one value per row for each model: 1 or 0 for correct or not, or a squared error.
    """
    save_online_curve(OnlineLearningCurve(lines, metric, window), path)


def save_online_curve(curve: OnlineLearningCurve, path: Path) -> list[str]:
    """Draw an `OnlineLearningCurve`; return warnings."""
    format = image_format(path)
    figure = Figure(figsize=(8, 5.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 1, sharex=True)
    accuracy = curve.metric == "accuracy"
    metric = "accuracy (%)" if accuracy else curve.metric
    titles = (f"{metric}, all rows so far", f"{metric}, last {curve.window} rows")
    colours = cycle_colors(len(curve.scores))
    for panel, window, title in zip(panels.tolist(), (None, curve.window), titles, strict=True):
        for (name, values), colour in zip(curve.scores.items(), colours, strict=True):
            scores = (100 if accuracy else 1) * running_mean(values, window, root=not accuracy)
            rows = np.arange(1, len(scores) + 1)
            panel.plot(rows, scores, color=colour, lw=1.4, label=f"{name} {scores[-1]:.4g}")
        if accuracy:
            panel.set_ylim(-3, 103)
        style_axes(panel, title)
    panels[-1].set_xlabel("rows predicted", color=MUTED_COLOR, fontsize=9)
    write_figure(figure, path, format)
    return []
