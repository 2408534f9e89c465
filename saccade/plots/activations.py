"""Picture of activations and their derivatives, with a panel of GELU's approximation errors."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import (
    ActivationCurve,
    ActivationCurves,
    GELUApproximation,
)
from saccade.plots.style import LINE_COLORS, MUTED_COLOR, TEXT_COLOR, image_format, write_figure
from saccade.types.arrays import FloatArray

PANELS_PER_ROW, MAX_PANELS_PER_ROW = 3, 6
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
    """Return the figure: a panel for each activation, and one for the errors of GELU, if any.

    Curves of one activation with several α are next to each other, with the same limits of y.
    """
    count = len(curves) + bool(errors)
    across = _panels_per_row(curves)
    down = -(-count // across)
    size = (10 * max(1.0, across / 4), 2.7 * down)
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(down, across, squeeze=False).flatten().tolist()
    for panel, curve in zip(panels, curves, strict=False):
        same = [other for other in curves if other.name == curve.name]
        _draw_curve(panel, curve, np.concatenate([[*o.y, *o.derivative] for o in same]))
    if errors:
        _draw_errors(panels[len(curves)], errors)
    for panel in panels[count:]:
        panel.axis("off")
    return figure


def _panels_per_row(curves: Sequence[ActivationCurve]) -> int:
    """Return the number of panels in a row: that of the α of an activation, if it has several."""
    same = max([0, *Counter(curve.name for curve in curves).values()])
    return min(same, MAX_PANELS_PER_ROW) if same > 1 else PANELS_PER_ROW


def _draw_curve(axes: Axes, curve: ActivationCurve, values: FloatArray) -> None:
    """Draw a curve and its derivative; the limits of y include all of `values`."""
    axes.axhline(0, color="#d9d9d9", lw=0.8, zorder=0)
    axes.axvline(0, color="#d9d9d9", lw=0.8, zorder=0)
    axes.plot(curve.x, curve.y, color=FUNCTION_COLOR, lw=1.8, label="f(x)")
    left, right = curve.x < 0, curve.x > 0
    if curve.is_kinked:  # draw a jump as a gap, not as a steep line
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
    low, high = values.min(), values.max()
    margin = 0.08 * (high - low)
    axes.set_ylim(low - margin, high + margin)
    _style(axes, curve.label, curve.equation)
    axes.legend(
        frameon=False,
        fontsize=8,
        labelcolor=TEXT_COLOR,
        loc="upper left" if curve.alpha is None else "best",  # with a large α, f' is there
    )


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
