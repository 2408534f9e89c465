"""Pictures of schedules: learning rates over the steps of a training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def save_schedules(
    steps: NDArray[np.integer[Any]], rates: Mapping[str, NDArray[np.float64]], path: Path
) -> None:
    """Draw the rate at each step, a line for each schedule, as PNG, SVG or PDF by the ending."""
    form = image_format(path)
    figure = Figure(figsize=(8.0, 4.5), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (name, line), colour in zip(rates.items(), cycle_colors(len(rates)), strict=True):
        axes.plot(steps, line, color=colour, lw=1.6, label=name.replace("_", " "))
    axes.set_xlabel("step", color=MUTED_COLOR, fontsize=9)
    style_axes(axes, "rate of learning")
    write_figure(figure, path, form)
