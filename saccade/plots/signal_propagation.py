"""Picture of signal propagation: signals, gradients, eigenvalues of the product of weights."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from saccade.inspection.figures import SignalPropagation, StackConfig
from saccade.plots.style import (
    ATTENTION_COLORMAP,
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    image_format,
    style_axes,
    write_figure,
)
from saccade.types.arrays import FloatArray

MIN_DECADES = 2.0  # least span of an axis, so that a stable signal looks stable


def save_signal_propagation(propagation: SignalPropagation, path: Path) -> list[str]:
    """Draw `SignalPropagation` as PNG, SVG or PDF by the suffix of `path`; return warnings."""
    format = image_format(path)
    write_figure(signal_propagation_figure(propagation), path, format)
    return []


def signal_propagation_figure(propagation: SignalPropagation) -> Figure:
    """Return three panels: forward signals, backward gradients, spectra of the weights."""
    figure = Figure(figsize=(11, 3.6), facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", w_pad=0.08)
    forward, backward, spectra = figure.subplots(1, 3)
    signals = {
        "mean of h²": propagation.signals,
        "variance over inputs": propagation.differences,
    }
    _draw_layers(forward, signals)
    _draw_layers(backward, {"mean of (∂L/∂h)²": propagation.gradients})
    _draw_moduli(spectra, propagation)
    names = ("signals", "gradients", "eigenvalues of W_l … W_1")
    for axes, name in zip((forward, backward, spectra), names, strict=True):
        axes.set_title(name, color=TEXT_COLOR, fontsize=10, loc="left", fontweight="bold")
    title = stack_title(propagation.stack)
    figure.suptitle(title, color=MUTED_COLOR, fontsize=9, x=0.01, ha="left")
    return figure


def stack_title(stack: StackConfig) -> str:
    """Return the settings of a stack in one line."""
    alpha = "" if stack.alpha is None else f" (α = {stack.alpha:g})"
    activation = f"{stack.activation}{alpha}"
    parts = [f"{stack.layers} layers of width {stack.width}", activation, stack.init]
    if stack.norm != "none":
        parts.append(f"{stack.norm} norm")
    if stack.residual:
        parts.append("residual")
    return ", ".join([*parts, f"seed {stack.seed}"])


def _draw_layers(axes: Axes, lines: dict[str, FloatArray]) -> None:
    for (label, values), colour in zip(lines.items(), LINE_COLORS, strict=False):
        with np.errstate(divide="ignore"):
            logs = np.log10(values)
        finite = np.flatnonzero(np.isfinite(logs))
        if (values == 0).any():
            label += " (0 where the line is missing)"
        marker = "o" if len(finite) <= 30 else ""
        # dashed, so that both lines are visible where they coincide
        style = "-" if colour == LINE_COLORS[0] else (0, (4, 2))
        axes.plot(
            finite, logs[finite], color=colour, lw=1.8, ls=style, marker=marker, ms=3, label=label
        )
    axes.set_xlabel("layer", color=MUTED_COLOR, fontsize=9)
    last = len(values) - 1
    axes.set_xlim(-0.03 * last, 1.03 * last)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    _use_powers_of_ten(axes)


def _draw_moduli(axes: Axes, propagation: SignalPropagation) -> None:
    spectra = propagation.spectra
    for number, spectrum in enumerate(spectra, 1):
        shade = ATTENTION_COLORMAP(0.3 + 0.7 * number / len(spectra))
        ranks = np.arange(1, len(spectrum.moduli) + 1)
        label = f"l = {spectrum.depth}" if len(ranks) else f"l = {spectrum.depth}: all 0"
        axes.plot(ranks, spectrum.moduli, color=shade, lw=1.6, label=label)
    axes.axhline(0, color=MUTED_COLOR, lw=0.8, ls=(0, (4, 3)))
    axes.set_xlabel("rank (largest first)", color=MUTED_COLOR, fontsize=9)
    axes.set_xlim(1, propagation.stack.width)
    _use_powers_of_ten(axes, "modulus")
    axes.legend(  # outside the panel, which the lines may fill
        frameon=False, fontsize=8, labelcolor=TEXT_COLOR, loc="center left", bbox_to_anchor=(1, 0.5)
    )


def _use_powers_of_ten(axes: Axes, name: str = "") -> None:
    """Label an axis of log10 values with powers of ten and widen it to `MIN_DECADES`."""
    low, high = axes.get_ylim()
    margin = max(0.0, MIN_DECADES - (high - low)) / 2
    axes.set_ylim(low - margin, high + margin)
    axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_formatter(lambda power, _: rf"$10^{{{power:.0f}}}$")
    style_axes(axes, name)
