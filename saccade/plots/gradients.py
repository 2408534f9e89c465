"""The picture of gradients: how far back they reach, and what clipping did to them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.plots.attention import (
    LINE_COLORS,
    MUTED_COLOR,
    image_format,
    metric_series,
    style_axes,
    write_figure,
)


def save_gradient_norms(
    norms: NDArray[np.float64], records: Sequence[dict[str, Any]], clip_norm: float, path: Path
) -> None:
    """Above: the norm by distance. Below: each report's norm before clipping, and after it.

    `norms` has a row for each example and a column for each distance from 1 on; the line is
    their median, the band reaches from the lowest tenth to the highest.
    """
    form = image_format(path)
    trained = metric_series(records, "norm")
    figure = Figure(
        figsize=(8, 6 if len(trained) else 3.4), facecolor="white", layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.subplots(2 if len(trained) else 1, 1, squeeze=False)[:, 0]
    distances = np.arange(1, norms.shape[1] + 1)
    low, middle, high = np.quantile(norms, [0.1, 0.5, 0.9], axis=0)
    axes[0].fill_between(distances, low, high, color=LINE_COLORS[0], alpha=0.2, lw=0)
    axes[0].plot(distances, middle, color=LINE_COLORS[0], lw=1.6, label="median of the examples")
    axes[0].set_yscale("log")
    axes[0].set_xlabel("steps back", color=MUTED_COLOR, fontsize=9)
    style_axes(axes[0], "norm of the gradient")
    if len(trained):
        steps, before = trained[:, 0], trained[:, 1]
        axes[1].plot(steps, before, color=LINE_COLORS[1], lw=1.2, label="before clipping")
        axes[1].plot(
            steps, np.minimum(before, clip_norm), color=LINE_COLORS[2], lw=1.6, label="after it"
        )
        axes[1].axhline(clip_norm, color=MUTED_COLOR, lw=0.8, ls=(0, (4, 3)))
        axes[1].set_yscale("log")
        axes[1].set_xlabel("training step", color=MUTED_COLOR, fontsize=9)
        style_axes(axes[1], "norm of all gradients")
    write_figure(figure, path, form)
