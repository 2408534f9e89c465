"""Picture of gradient norms: by distance in time, and over training before and after clipping."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.inspection.figures import GradientNorms, Record
from saccade.plots.curves import metric_series
from saccade.plots.style import (
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    image_format,
    style_axes,
    use_log_axis,
    write_figure,
)


def save_gradient_norms(
    norms: NDArray[np.floating], records: Sequence[Record], clip_norm: float, path: Path
) -> None:
    """Draw the norm by distance, and below it the global norm before and after clipping.

    `norms` has a row for each example and a column for each distance from 1 on; the line is
    their median, the band reaches from the 10 % to the 90 % quantile.
    """
    format = image_format(path)
    write_figure(gradient_figure(GradientNorms(norms, records, clip_norm)), path, format)


def save_gradient_figure(gradients: GradientNorms, path: Path) -> list[str]:
    """Draw `GradientNorms`; return warnings."""
    save_gradient_norms(gradients.norms, gradients.records, gradients.clip_norm, path)
    return []


def gradient_figure(gradients: GradientNorms) -> Figure:
    """Return the figure: one panel, or two if the records have the global norm."""
    norms, clip_norm = gradients.norms, gradients.clip_norm
    logged = metric_series(gradients.records, "norm")
    figure = Figure(figsize=(8, 6 if len(logged) else 3.4), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2 if len(logged) else 1, 1, squeeze=False)[:, 0]
    distances = np.arange(1, norms.shape[1] + 1)
    low, median, high = np.quantile(norms, [0.1, 0.5, 0.9], axis=0)
    axes[0].fill_between(
        distances, low, high, color=LINE_COLORS[0], alpha=0.2, lw=0, label="10 % to 90 %"
    )
    axes[0].plot(distances, median, color=LINE_COLORS[0], lw=1.6, label="median of the examples")
    axes[0].set_xlabel("steps back in time", color=MUTED_COLOR, fontsize=9)
    style_axes(axes[0], "gradient norm")
    use_log_axis(axes[0])
    if len(logged):
        steps, before = logged[:, 0], logged[:, 1]
        after = np.minimum(before, clip_norm)
        # the same below the threshold: the upper line is thinner
        axes[1].plot(steps, before, color=LINE_COLORS[1], lw=3.4, label="before clipping")
        axes[1].plot(steps, after, color=TEXT_COLOR, lw=1.2, label="after clipping")
        axes[1].axhline(
            clip_norm, color=MUTED_COLOR, lw=0.8, ls=(0, (4, 3)), label="clipping threshold"
        )
        axes[1].set_xlabel("training step", color=MUTED_COLOR, fontsize=9)
        style_axes(axes[1], "global gradient norm")
        use_log_axis(axes[1])
    return figure
