"""The picture of Zipf's law: rank against frequency on two logarithmic axes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.look.counts import Numbers, Zipf, fits
from saccade.look.draw import QUIET, cycle, format_of, plain_axes, write_figure

POINTS = 400  # of a line: a million ranks would make a file of many megabytes
NAMES = {1: "words", 2: "pairs of words", 3: "triples of words"}


def save_zipf(counts: Mapping[int, Numbers], path: Path) -> dict[int, Zipf]:
    """Draw what `rank_frequencies` counted, the fitted law dashed over the ranks it was fitted to.

    PNG, SVG or PDF by the path's ending. Returns the laws that were fitted.
    """
    form = format_of(path)
    if not any(len(frequencies) for frequencies in counts.values()):
        raise ValueError("got no counts to draw; give a text of one word or more.")
    laws = fits(counts)
    figure = zipf_figure(counts, laws)
    write_figure(figure, path, form)
    return laws


def zipf_figure(counts: Mapping[int, Numbers], laws: Mapping[int, Zipf]) -> Figure:
    """One line for each order, and its law."""
    figure = Figure(figsize=(8, 5), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (order, frequencies), colour in zip(counts.items(), cycle(len(counts)), strict=True):
        ranks = some_ranks(len(frequencies))
        label = NAMES.get(order, f"runs of {order} words")
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
    axes.set_xlabel("rank", color=QUIET, fontsize=9)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    plain_axes(axes, "frequency")
    return figure


def some_ranks(count: int) -> Numbers:
    """Ranks from 1 to `count`, evenly spread on a logarithmic axis."""
    return np.unique(np.geomspace(1, count, POINTS).round().astype(np.int64))
