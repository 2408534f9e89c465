"""The picture of depth: signals, gradients, and the eigenvalues of the weights' product."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from saccade.inspection.signal_propagation import FloatArray, SignalPropagation, StackConfig
from saccade.plots.attention import (
    ATTENTION_COLORMAP,
    LINE_COLORS,
    MUTED_COLOR,
    TEXT_COLOR,
    image_format,
    style_axes,
    write_figure,
)

MIN_DECADES = 2.0  # that an axis spans at least, so that what holds looks as if it held


def save_signal_propagation(depth: SignalPropagation, path: Path) -> None:
    """Draw it as PNG, SVG or PDF by the path's ending."""
    form = image_format(path)
    write_figure(signal_propagation_figure(depth), path, form)


def signal_propagation_figure(depth: SignalPropagation) -> Figure:
    """Three panels: the way there, the way back, the matrices."""
    figure = Figure(figsize=(11, 3.6), facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine("constrained", w_pad=0.08)
    there, back, matrices = figure.subplots(1, 3)
    _draw_layers(there, {"mean of h²": depth.signals, "variance over inputs": depth.differences})
    _draw_layers(back, {"mean of (∂L/∂h)²": depth.gradients})
    _draw_moduli(matrices, depth)
    names = ("signals", "gradients", "eigenvalues of W_l … W_1")
    for axes, name in zip((there, back, matrices), names, strict=True):
        axes.set_title(name, color=TEXT_COLOR, fontsize=10, loc="left", fontweight="bold")
    figure.suptitle(stack_title(depth.stack), color=MUTED_COLOR, fontsize=9, x=0.01, ha="left")
    return figure


def stack_title(stack: StackConfig) -> str:
    """What was looked at, in a line."""
    parts = [f"{stack.layers} layers of width {stack.width}", stack.activation, stack.init]
    if stack.norm != "none":
        parts.append(f"{stack.norm} norm")
    if stack.residual:
        parts.append("residual")
    return ", ".join([*parts, f"seed {stack.seed}"])


def _draw_layers(axes: Axes, lines: dict[str, FloatArray]) -> None:
    for (label, values), colour in zip(lines.items(), LINE_COLORS, strict=False):
        with np.errstate(divide="ignore"):
            logs = np.log10(values)
        seen = np.flatnonzero(np.isfinite(logs))
        if (values == 0).any():
            label += " (0 where no line is)"
        mark = "o" if len(seen) <= 30 else ""
        dashes = (
            "-" if colour == LINE_COLORS[0] else (0, (4, 2))
        )  # where both are one, both are seen
        axes.plot(seen, logs[seen], color=colour, lw=1.8, ls=dashes, marker=mark, ms=3, label=label)
    axes.set_xlabel("layer", color=MUTED_COLOR, fontsize=9)
    last = len(values) - 1
    axes.set_xlim(-0.03 * last, 1.03 * last)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    _powers(axes)


def _draw_moduli(axes: Axes, depth: SignalPropagation) -> None:
    spectra = depth.spectra
    for place, one in enumerate(spectra):
        shade = ATTENTION_COLORMAP(0.3 + 0.7 * (place + 1) / len(spectra))
        ranks = np.arange(1, len(one.moduli) + 1)
        label = f"l = {one.depth}" if len(ranks) else f"l = {one.depth}: all are 0"
        axes.plot(ranks, one.moduli, color=shade, lw=1.6, label=label)
    axes.axhline(0, color=MUTED_COLOR, lw=0.8, ls=(0, (4, 3)))
    axes.set_xlabel("rank, the largest first", color=MUTED_COLOR, fontsize=9)
    axes.set_xlim(1, depth.stack.width)
    _powers(axes, "modulus")
    axes.legend(  # beside the lines, which may be anywhere
        frameon=False, fontsize=8, labelcolor=TEXT_COLOR, loc="center left", bbox_to_anchor=(1, 0.5)
    )


def _powers(axes: Axes, name: str = "") -> None:
    """An axis of logarithms, wide enough, with powers of ten."""
    low, high = axes.get_ylim()
    more = max(0.0, MIN_DECADES - (high - low)) / 2
    axes.set_ylim(low - more, high + more)
    axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_formatter(lambda power, place: rf"$10^{{{power:.0f}}}$")
    style_axes(axes, name)
