"""Zipf's law: n-gram counts, fits to known power fits, and the figure."""

import math
import xml.etree.ElementTree as xml
from collections import Counter

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from saccade.data.text.corpus import python_reference_text
from saccade.inspection.zipf import (
    fit_zipf,
    fit_zipf_by_order,
    ngram_frequencies,
    rank_frequencies,
    word_ids,
    zipf_range,
)
from saccade.plots.zipf import (
    ZIPF_CURVE_POINTS,
    describe_fit,
    log_spaced_ranks,
    save_zipf,
    zipf_figure,
)
from tests.plots.overlaps import overlapping_texts


@given(ids=st.lists(st.integers(0, 4), max_size=30), order=st.integers(1, 4))
@settings(deadline=None)
def test_ngram_frequencies_equal_a_counter(ids, order):
    runs = Counter(tuple(ids[i : i + order]) for i in range(len(ids) - order + 1))
    assert ngram_frequencies(np.array(ids, np.int64), order).tolist() == sorted(
        runs.values(), reverse=True
    )


def test_ngram_frequencies_accept_large_ids():
    ids = np.array([2**62, 5, 2**62, 5, 2**62])
    assert ngram_frequencies(ids, 2).tolist() == [2, 2] and ngram_frequencies(ids, 3).tolist() == [
        2,
        1,
    ]


def test_word_ids_number_by_first_occurrence():
    ids = word_ids(["The cat, the", "", "Cat!"])
    assert ids.tolist() == [0, 1, 2, 0, 1, 3]
    assert ngram_frequencies(ids, 2).tolist() == [2, 1, 1, 1]


@pytest.mark.parametrize("exponent", [0.6, 1.0, 1.4])
def test_fit_zipf_recovers_the_exponent(exponent):
    frequencies = (1e9 * np.arange(1.0, 2001) ** -exponent).astype(np.int64)
    fit = fit_zipf(frequencies, 1, 2000)
    assert fit.exponent == pytest.approx(exponent, abs=1e-3)
    assert fit.likelihood_exponent == pytest.approx(exponent, abs=1e-3)
    assert fit.constant == pytest.approx(1e9, rel=0.01)
    assert (fit.first, fit.last) == (1, 2000)


def test_fit_zipf_equals_a_direct_computation():
    frequencies = np.array([90, 41, 33, 20, 9, 9, 4, 1])
    fit = fit_zipf(frequencies, 2, 7)
    x = [math.log(rank) for rank in range(2, 8)]
    y = [math.log(times) for times in frequencies[1:7]]
    mean_x, mean_y = sum(x) / 6, sum(y) / 6
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    slope /= sum((a - mean_x) ** 2 for a in x)
    assert fit.exponent == pytest.approx(-slope)

    def likelihood(alpha):
        total = sum(rank**-alpha for rank in range(2, 8))
        shares = [rank**-alpha / total for rank in range(2, 8)]
        return sum(n * math.log(p) for n, p in zip(frequencies[1:7], shares, strict=True))

    best = max(np.linspace(0, 4, 4001).tolist(), key=likelihood)
    assert fit.likelihood_exponent == pytest.approx(best, abs=1e-3)


def test_zipf_range_excludes_first_ranks_and_rare_words():
    assert zipf_range(np.array([100] * 30 + [4] * 50)) == (10, 30)
    assert zipf_range(np.array([5, 4, 3])) == (1, 3)
    with pytest.raises(
        ValueError, match="ranks 1 to 1 of 1; expected at least two different ranks"
    ):
        fit_zipf(np.array([7]))
    with pytest.raises(ValueError, match="n-grams of 0 tokens"):
        ngram_frequencies(np.array([1]), 0)


@pytest.fixture(scope="module")
def counts():
    return rank_frequencies(word_ids(python_reference_text().splitlines()))


def test_fit_zipf_exponents_of_real_text(counts):
    fits = fit_zipf_by_order(counts)
    assert 0.8 < fits[1].exponent < 1.4
    assert fits[1].exponent > fits[2].exponent > fits[3].exponent > 0.3
    assert [frequencies.sum() for frequencies in counts.values()] == [
        counts[1].sum() - order for order in range(3)
    ]


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_zipf_figure_leaves_rcparams_unchanged(counts, tmp_path, ending):
    before = dict(matplotlib.rcParams)
    path = tmp_path / "new" / f"zipf.{ending}"
    fits = save_zipf(counts, path)
    assert dict(matplotlib.rcParams) == before and fits == fit_zipf_by_order(counts)
    assert 2_000 < path.stat().st_size < 300_000
    if ending == "png":
        assert imread(path).std() > 0.01
    if ending == "svg":
        xml.parse(path)


def test_zipf_figure_legend_and_lines(counts):
    fits = fit_zipf_by_order(counts)
    figure = zipf_figure(counts, fits)
    (axes,) = figure.axes
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(legend) == 3
    for order, text in zip((1, 2, 3), legend, strict=True):
        assert f"α = {fits[order].exponent:.2f}" in text and f"{fits[order].last:,}" in text
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    drawn = [line for line in axes.lines if line.get_linestyle() == "-"]
    for line, frequencies in zip(drawn, counts.values(), strict=True):
        ranks, heights = line.get_data()
        assert (ranks[0], ranks[-1]) == (1, len(frequencies))
        np.testing.assert_array_equal(heights, frequencies[np.asarray(ranks) - 1])


def test_zipf_figure_of_small_texts(tmp_path):
    save_zipf(rank_frequencies(word_ids(["one"])), tmp_path / "one.png")
    save_zipf(rank_frequencies(word_ids(["one two"])), tmp_path / "two.png")
    assert imread(tmp_path / "one.png").std() > 0.01
    with pytest.raises(ValueError, match="no counts to draw"):
        save_zipf(rank_frequencies(word_ids([""])), tmp_path / "none.png")
    with pytest.raises(ValueError, match="a picture can be .png, .svg, .pdf"):
        save_zipf({1: np.array([2, 1])}, tmp_path / "zipf.gif")


def test_log_spaced_ranks_are_limited():
    ranks = log_spaced_ranks(1_000_000)
    assert len(ranks) <= ZIPF_CURVE_POINTS and ranks[0] == 1 and ranks[-1] == 1_000_000
    assert (np.diff(ranks) > 0).all()
    assert log_spaced_ranks(3).tolist() == [1, 2, 3]


def test_zipf_figure_calls_characters_characters():
    text = ["今天天气很好我们去公园", "今天公园里人很多天气好"] * 40
    counts = rank_frequencies(word_ids(text))
    figure = zipf_figure(counts, fit_zipf_by_order(counts), "character")
    [legend] = figure.legends
    names = [text.get_text().split(":")[0] for text in legend.get_texts()]
    assert names == ["characters", "character bigrams", "character trigrams"]
    assert figure.axes[0].get_title(loc="left").startswith("Frequency of characters")
    assert overlapping_texts(figure) == []


def test_fits_that_are_far_from_the_line_are_no_power_law():
    ranks = np.arange(1.0, 1001)
    straight, bent = 1e7 / ranks, 1e7 * np.exp(-ranks / 100)
    fits = [fit_zipf(counts.astype(np.int64) + 5, 1, 1000) for counts in (straight, bent)]
    assert [fit.follows_line for fit in fits] == [True, False]
    assert fits[0].max_factor < 1.1 and fits[1].max_factor > 4
    assert describe_fit(fits[0]).startswith("α = 1.00 (least squares), 1.00 (maximum likelihood)")
    assert describe_fit(fits[1]).startswith("no power law (up to ")
