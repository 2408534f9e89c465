"""Picture of Zipf's law: frequency against rank on two logarithmic axes."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from saccade.inspection.figures import ZipfCurves
from saccade.inspection.zipf import ZipfFit, fit_zipf_by_order
from saccade.plots.style import (
    MUTED_COLOR,
    TEXT_COLOR,
    add_legend_below,
    cycle_colors,
    image_format,
    style_axes,
    write_figure,
)
from saccade.types.arrays import IntArray

ZIPF_CURVE_POINTS = 400  # of a line; a million ranks would make a file of many megabytes


def save_zipf(counts: Mapping[int, IntArray], path: Path, unit: str = "word") -> dict[int, ZipfFit]:
    """Draw the result of `rank_frequencies` with the fitted power laws; return the fits.

    `unit` is what the text was split into: word or character.
    """
    format = image_format(path)
    if not any(len(frequencies) for frequencies in counts.values()):
        raise ValueError("got no counts to draw; give a text of one word or more.")
    fits = fit_zipf_by_order(counts)
    write_figure(zipf_figure(counts, fits, unit), path, format)
    return fits


def save_zipf_curves(curves: ZipfCurves, path: Path) -> list[str]:
    """Draw `ZipfCurves`; return warnings."""
    save_zipf(curves.frequencies, path, curves.unit)
    return []


def zipf_figure(
    counts: Mapping[int, IntArray], fits: Mapping[int, ZipfFit], unit: str = "word"
) -> Figure:
    """Return the figure: a line per n-gram order, its fit dashed over the fitted ranks."""
    figure = Figure(figsize=(8, 5), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (order, frequencies), colour in zip(counts.items(), cycle_colors(len(counts)), strict=True):
        ranks = log_spaced_ranks(len(frequencies))
        label = ngram_name(order, unit)
        if order in fits:
            fit = fits[order]
            label += f": {describe_fit(fit)}, ranks {fit.first:,} to {fit.last:,}"
            ends = np.array([fit.first, fit.last], np.float64)
            heights = fit.constant * ends**-fit.exponent
            axes.plot(ends, heights, color=colour, lw=1.2, ls=(0, (4, 3)))
        axes.plot(ranks, frequencies[ranks - 1], color=colour, lw=1.6, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rank", color=MUTED_COLOR, fontsize=9)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_title(
        f"Frequency of {unit}s and {unit} n-grams by rank",
        color=TEXT_COLOR,
        fontsize=10,
        loc="left",
        fontweight="bold",
    )
    style_axes(axes, "frequency", legend=False)
    add_legend_below(figure, axes)
    return figure


def ngram_name(order: int, unit: str) -> str:
    """Return the name of n-grams of words or characters: words, word bigrams, …"""
    name = {1: f"{unit}s", 2: "bigrams", 3: "trigrams"}.get(order, f"{order}-grams")
    return name if order == 1 or unit == "word" else f"{unit} {name}"


def describe_fit(fit: ZipfFit) -> str:
    """Return the exponents of a fit, or that the frequencies follow no power law."""
    exponents = (
        f"α = {fit.exponent:.2f} (least squares), {fit.likelihood_exponent:.2f} (maximum "
        "likelihood)"
    )
    if fit.follows_line:
        return exponents
    return f"no power law (up to {fit.max_factor:.1f}× off the line), {exponents}"


def log_spaced_ranks(count: int) -> IntArray:
    """Return ranks from 1 to `count`, evenly spaced on a logarithmic axis."""
    return np.unique(np.geomspace(1, count, ZIPF_CURVE_POINTS).round().astype(np.int64))
