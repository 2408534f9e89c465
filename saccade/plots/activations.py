"""The picture of the activations: a panel each, with its slope; the last has GELU's errors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.activations import (
    ACTIVATION_EQUATIONS,
    KINKED_ACTIVATIONS,
    ActivationCurve,
    GELUApproximation,
)
from saccade.plots.attention import LINE_COLORS, MUTED_COLOR, TEXT_COLOR, image_format, write_figure

PANELS_PER_ROW = 3
FUNCTION_COLOR, DERIVATIVE_COLOR = LINE_COLORS[0], LINE_COLORS[1]
ERROR_CURVE_POINTS = 801  # of a line of errors
ERROR_PANEL_LIMIT = 5.0  # of their panel, to each side


def save_activations(
    curves: Sequence[ActivationCurve], errors: Sequence[GELUApproximation], path: Path
) -> None:
    """Draw them as PNG, SVG or PDF by the path's ending."""
    form = image_format(path)
    write_figure(activations_figure(curves, errors), path, form)


def activations_figure(
    curves: Sequence[ActivationCurve], errors: Sequence[GELUApproximation]
) -> Figure:
    """A panel for each curve, one for the errors."""
    down = -(-(len(curves) + 1) // PANELS_PER_ROW)
    figure = Figure(figsize=(10, 2.7 * down), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(down, PANELS_PER_ROW, squeeze=False).flatten().tolist()
    for panel, one in zip(panels, curves, strict=False):
        _draw_curve(panel, one)
    _draw_errors(panels[len(curves)], errors)
    for panel in panels[len(curves) + 1 :]:
        panel.axis("off")
    return figure


def _draw_curve(axes: Axes, one: ActivationCurve) -> None:
    axes.axhline(0, color="#d9d9d9", lw=0.8, zorder=0)
    axes.axvline(0, color="#d9d9d9", lw=0.8, zorder=0)
    axes.plot(one.x, one.y, color=FUNCTION_COLOR, lw=1.8, label="f(x)")
    left, right = one.x < 0, one.x > 0
    if one.name in KINKED_ACTIVATIONS:  # a jump is not a steep line
        axes.plot(
            one.x[left],
            one.derivative[left],
            color=DERIVATIVE_COLOR,
            lw=1.4,
            ls=(0, (4, 2)),
            label="f'(x)",
        )
        axes.plot(
            one.x[right], one.derivative[right], color=DERIVATIVE_COLOR, lw=1.4, ls=(0, (4, 2))
        )
        axes.plot(
            [0],
            [one.derivative_at_zero],
            "o",
            ms=4.5,
            color=DERIVATIVE_COLOR,
            label=f"f'(0) := {one.derivative_at_zero:.3g}",
        )
    else:
        axes.plot(
            one.x, one.derivative, color=DERIVATIVE_COLOR, lw=1.4, ls=(0, (4, 2)), label="f'(x)"
        )
    low, high = min(one.y.min(), one.derivative.min()), max(one.y.max(), one.derivative.max())
    room = 0.08 * (high - low)
    axes.set_ylim(low - room, high + room)
    _plain(axes, one.name, ACTIVATION_EQUATIONS[one.name])
    axes.legend(frameon=False, fontsize=8, labelcolor=TEXT_COLOR, loc="upper left")


def _draw_errors(axes: Axes, errors: Sequence[GELUApproximation]) -> None:
    for one, colour in zip(errors, LINE_COLORS[2:], strict=False):
        some = np.linspace(0, len(one.x) - 1, ERROR_CURVE_POINTS).astype(np.int64)
        name = {"gelu": "by tanh", "gelu_sigmoid": "by σ(1.702 x)"}[one.name]
        label = f"{name}: {one.max_error:.2g} at most"
        axes.plot(one.x[some], np.abs(one.error[some]), color=colour, lw=1.4, label=label)
    axes.set_yscale("log")
    axes.set_ylim(1e-8, 30)
    axes.set_xlim(-ERROR_PANEL_LIMIT, ERROR_PANEL_LIMIT)
    _plain(axes, "gelu, approximated", "distance from x Φ(x)")
    axes.legend(frameon=False, fontsize=8, labelcolor=TEXT_COLOR, loc="upper left")


def _plain(axes: Axes, name: str, equation: str) -> None:
    axes.set_title(name, color=TEXT_COLOR, fontsize=10, loc="left", fontweight="bold", pad=18)
    axes.text(0, 1.04, equation, transform=axes.transAxes, color=MUTED_COLOR, fontsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#cccccc")
    axes.tick_params(which="both", length=0, labelsize=8, labelcolor=MUTED_COLOR)
