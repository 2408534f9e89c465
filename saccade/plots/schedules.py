"""Picture of learning-rate schedules over the steps of a training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from saccade.inspection.figures import LearningRateSchedules
from saccade.plots.style import (
    MUTED_COLOR,
    TEXT_COLOR,
    image_format,
    nested_lines,
    style_axes,
    write_figure,
)
from saccade.types.arrays import FloatArray


def save_schedules(
    steps: NDArray[np.integer[Any]], rates: Mapping[str, FloatArray], path: Path
) -> None:
    """Draw the learning rate at each step, a line per schedule."""
    save_schedule_figure(LearningRateSchedules(steps, rates), path)


def save_schedule_figure(schedules: LearningRateSchedules, path: Path) -> list[str]:
    """Draw `LearningRateSchedules`; return warnings."""
    format = image_format(path)
    figure = Figure(figsize=(8.0, 4.5), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    names = [name.replace("_", " ") for name in schedules.rates]
    styles = nested_lines(len(names), 0.5)  # schedules coincide in places
    for name, rates, style in zip(names, schedules.rates.values(), styles, strict=True):
        colour, width = style
        axes.plot(schedules.steps, rates, color=colour, lw=width, label=name)
    title = "Learning-rate schedules" if len(names) > 1 else f"Learning-rate schedule: {names[0]}"
    axes.set_title(title, color=TEXT_COLOR, fontsize=10, loc="left", fontweight="bold")
    axes.set_xlabel("step", color=MUTED_COLOR, fontsize=9)
    style_axes(axes, "learning rate", legend=len(names) > 1)
    write_figure(figure, path, format)
    return []
