"""The picture of Zipf's law: rank against frequency on two logarithmic axes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.zipf import IntArray, ZipfFit, fit_zipf_by_order
from saccade.plots.attention import (
    MUTED_COLOR,
    cycle_colors,
    image_format,
    style_axes,
    write_figure,
)

ZIPF_CURVE_POINTS = 400  # of a line: a million ranks would make a file of many megabytes
NGRAM_NAMES = {1: "words", 2: "pairs of words", 3: "triples of words"}


def save_zipf(counts: Mapping[int, IntArray], path: Path) -> dict[int, ZipfFit]:
    """Draw what `rank_frequencies` counted, the fitted law dashed over the ranks it was fitted to.

    PNG, SVG or PDF by the path's ending. Returns the laws that were fitted.
    """
    form = image_format(path)
    if not any(len(frequencies) for frequencies in counts.values()):
        raise ValueError("got no counts to draw; give a text of one word or more.")
    laws = fit_zipf_by_order(counts)
    figure = zipf_figure(counts, laws)
    write_figure(figure, path, form)
    return laws


def zipf_figure(counts: Mapping[int, IntArray], laws: Mapping[int, ZipfFit]) -> Figure:
    """One line for each order, and its law."""
    figure = Figure(figsize=(8, 5), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (order, frequencies), colour in zip(counts.items(), cycle_colors(len(counts)), strict=True):
        ranks = log_spaced_ranks(len(frequencies))
        label = NGRAM_NAMES.get(order, f"runs of {order} words")
        if order in laws:
            law = laws[order]
            label += (
                f": α = {law.exponent:.2f} (ranks {law.first:,} to {law.last:,}; "
                f"likeliest {law.likelihood_exponent:.2f})"
            )
            ends = np.array([law.first, law.last], np.float64)
            heights = law.constant * ends**-law.exponent
            axes.plot(ends, heights, color=colour, lw=1.2, ls=(0, (4, 3)))
        axes.plot(ranks, frequencies[ranks - 1], color=colour, lw=1.6, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rank", color=MUTED_COLOR, fontsize=9)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    style_axes(axes, "frequency")
    return figure


def log_spaced_ranks(count: int) -> IntArray:
    """Ranks from 1 to `count`, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, count, ZIPF_CURVE_POINTS).round().astype(np.int64))
