"""The picture of learning online: the running score over the rows."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.plots.attention import (
    MUTED_COLOR,
    cycle_colors,
    image_format,
    style_axes,
    write_figure,
)

FloatArray = NDArray[np.float64]


def running_mean(values: FloatArray, window: int | None = None, root: bool = False) -> FloatArray:
    r"""s_n = (1/w) Σ of the last w values up to n, w = n or, with a window, no more than that.

    With `root` the square root of it: of squared errors, the root mean squared error.
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.zeros_like(ends) if window is None else np.maximum(ends - window, 0)
    means = (sums[ends] - sums[starts]) / (ends - starts)
    return np.sqrt(np.maximum(means, 0.0)) if root else means  # a difference of sums may be < 0


def save_online_scores(
    lines: Mapping[str, FloatArray], metric: str, window: int, path: Path
) -> None:
    """Above, the score of all answers so far; below, of the last `window` of them.

    `lines` has for each model a value a row: 1 or 0 for right or wrong, or a squared error.
    """
    form = image_format(path)
    figure = Figure(figsize=(8, 5.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 1, sharex=True)
    accuracy = metric == "accuracy"
    titles = (f"{metric} so far", f"{metric} of the last {window} rows")
    for panel, width, title in zip(panels.tolist(), (None, window), titles, strict=True):
        for (name, values), colour in zip(lines.items(), cycle_colors(len(lines)), strict=True):
            scores = (100 if accuracy else 1) * running_mean(values, width, root=not accuracy)
            rows = np.arange(1, len(scores) + 1)
            panel.plot(rows, scores, color=colour, lw=1.4, label=f"{name} {scores[-1]:.4g}")
        if accuracy:
            panel.set_ylim(-3, 103)
        style_axes(panel, title)
    panels[-1].set_xlabel("rows answered", color=MUTED_COLOR, fontsize=9)
    write_figure(figure, path, form)
