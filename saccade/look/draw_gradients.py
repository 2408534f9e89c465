"""The picture of gradients: how far back they reach, and what clipping did to them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.look.draw import LINES, QUIET, format_of, plain_axes, series, write_figure


def save_gradients(
    norms: NDArray[np.float64], records: Sequence[dict[str, Any]], clip: float, path: Path
) -> None:
    """Above: the norm by distance. Below: each report's norm before clipping, and after it.

    `norms` has a row for each example and a column for each distance from 1 on; the line is
    their median, the band reaches from the lowest tenth to the highest.
    """
    form = format_of(path)
    trained = series(records, "norm")
    figure = Figure(
        figsize=(8, 6 if len(trained) else 3.4), facecolor="white", layout="constrained"
    )
    FigureCanvasAgg(figure)
    axes = figure.subplots(2 if len(trained) else 1, 1, squeeze=False)[:, 0]
    distances = np.arange(1, norms.shape[1] + 1)
    low, middle, high = np.quantile(norms, [0.1, 0.5, 0.9], axis=0)
    axes[0].fill_between(distances, low, high, color=LINES[0], alpha=0.2, lw=0)
    axes[0].plot(distances, middle, color=LINES[0], lw=1.6, label="median of the examples")
    axes[0].set_yscale("log")
    axes[0].set_xlabel("steps back", color=QUIET, fontsize=9)
    plain_axes(axes[0], "norm of the gradient")
    if len(trained):
        steps, before = trained[:, 0], trained[:, 1]
        axes[1].plot(steps, before, color=LINES[1], lw=1.2, label="before clipping")
        axes[1].plot(steps, np.minimum(before, clip), color=LINES[2], lw=1.6, label="after it")
        axes[1].axhline(clip, color=QUIET, lw=0.8, ls=(0, (4, 3)))
        axes[1].set_yscale("log")
        axes[1].set_xlabel("training step", color=QUIET, fontsize=9)
        plain_axes(axes[1], "norm of all gradients")
    write_figure(figure, path, form)
