"""Picture of activations and their derivatives, with a panel of GELU's approximation errors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import (
    ACTIVATION_EQUATIONS,
    KINKED_ACTIVATIONS,
    ActivationCurve,
    ActivationCurves,
    GELUApproximation,
)
from saccade.plots.style import LINE_COLORS, MUTED_COLOR, TEXT_COLOR, image_format, write_figure

PANELS_PER_ROW = 3
FUNCTION_COLOR, DERIVATIVE_COLOR = LINE_COLORS[0], LINE_COLORS[1]
ERROR_CURVE_POINTS = 801
ERROR_PANEL_LIMIT = 5.0  # |x| at the edges of the error panel


def save_activations(
    curves: Sequence[ActivationCurve], errors: Sequence[GELUApproximation], path: Path
) -> None:
    """Draw the panels as PNG, SVG or PDF by the suffix of `path`."""
    format = image_format(path)
    write_figure(activations_figure(curves, errors), path, format)


def save_activation_curves(activations: ActivationCurves, path: Path) -> list[str]:
    """Draw `ActivationCurves`; return warnings."""
    save_activations(activations.curves, activations.errors, path)
    return []


def activations_figure(
    curves: Sequence[ActivationCurve], errors: Sequence[GELUApproximation]
) -> Figure:
    """Return the figure: a panel for each activation, and one for the errors of GELU."""
    down = -(-(len(curves) + 1) // PANELS_PER_ROW)
    figure = Figure(figsize=(10, 2.7 * down), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(down, PANELS_PER_ROW, squeeze=False).flatten().tolist()
    for panel, curve in zip(panels, curves, strict=False):
        _draw_curve(panel, curve)
    _draw_errors(panels[len(curves)], errors)
    for panel in panels[len(curves) + 1 :]:
        panel.axis("off")
    return figure


def _draw_curve(axes: Axes, curve: ActivationCurve) -> None:
    axes.axhline(0, color="#d9d9d9", lw=0.8, zorder=0)
    axes.axvline(0, color="#d9d9d9", lw=0.8, zorder=0)
    axes.plot(curve.x, curve.y, color=FUNCTION_COLOR, lw=1.8, label="f(x)")
    left, right = curve.x < 0, curve.x > 0
    if curve.name in KINKED_ACTIVATIONS:  # draw a jump as a gap, not as a steep line
        axes.plot(
            curve.x[left],
            curve.derivative[left],
            color=DERIVATIVE_COLOR,
            lw=1.4,
            ls=(0, (4, 2)),
            label="f'(x)",
        )
        axes.plot(
            curve.x[right], curve.derivative[right], color=DERIVATIVE_COLOR, lw=1.4, ls=(0, (4, 2))
        )
        axes.plot(
            [0],
            [curve.derivative_at_zero],
            "o",
            ms=4.5,
            color=DERIVATIVE_COLOR,
            label=f"f'(0) := {curve.derivative_at_zero:.3g}",
        )
    else:
        axes.plot(
            curve.x, curve.derivative, color=DERIVATIVE_COLOR, lw=1.4, ls=(0, (4, 2)), label="f'(x)"
        )
    both = np.concatenate([curve.y, curve.derivative])
    low, high = both.min(), both.max()
    margin = 0.08 * (high - low)
    axes.set_ylim(low - margin, high + margin)
    _style(axes, curve.name, ACTIVATION_EQUATIONS[curve.name])
    axes.legend(frameon=False, fontsize=8, labelcolor=TEXT_COLOR, loc="upper left")


def _draw_errors(axes: Axes, errors: Sequence[GELUApproximation]) -> None:
    for approximation, colour in zip(errors, LINE_COLORS[2:], strict=False):
        points = np.linspace(0, len(approximation.x) - 1, ERROR_CURVE_POINTS).astype(np.int64)
        name = {"gelu": "by tanh", "gelu_sigmoid": "by σ(1.702 x)"}[approximation.name]
        label = f"{name}: {approximation.max_error:.2g} at most"
        error = np.abs(approximation.error[points])
        axes.plot(approximation.x[points], error, color=colour, lw=1.4, label=label)
    axes.set_yscale("log")
    axes.set_ylim(1e-8, 30)
    axes.set_xlim(-ERROR_PANEL_LIMIT, ERROR_PANEL_LIMIT)
    _style(axes, "gelu, approximated", "|error| against x Φ(x)")
    axes.legend(frameon=False, fontsize=8, labelcolor=TEXT_COLOR, loc="upper left")


def _style(axes: Axes, name: str, equation: str) -> None:
    axes.set_title(name, color=TEXT_COLOR, fontsize=10, loc="left", fontweight="bold", pad=18)
    axes.text(0, 1.04, equation, transform=axes.transAxes, color=MUTED_COLOR, fontsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#cccccc")
    axes.tick_params(which="both", length=0, labelsize=8, labelcolor=MUTED_COLOR)
