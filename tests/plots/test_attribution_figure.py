"""Attributions as pictures and in a terminal."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import wcwidth

from saccade.inspection.attribution import Attribution
from saccade.plots.attribution import (
    LOWERS_COLOR,
    MAX_PLOTTED_PARTS,
    RAISES_COLOR,
    TEXT_LINE_POINTS,
    bar_figure,
    layout_words,
    save_attribution,
)
from saccade.plots.attribution_text import render_attribution
from saccade.plots.fonts import fonts_for
from saccade.plots.style import LabelFont


def explain(text: str, scores: list[float]) -> Attribution:
    """Attribution of the words of a text."""
    words = text.split()
    spans, at = [], 0
    for word in words:
        at = text.index(word, at)
        spans.append((at, at + len(word)))
        at += len(word)
    return Attribution(
        words,
        np.array(scores),
        "good",
        "contributions",
        float(np.sum(scores)),
        against="bad",
        probability=0.9,
        text=text,
        spans=spans,
    )


ROW = Attribution(
    ["age", "job", "city"],
    np.array([0.2, -3.0, 1.0]),
    "yes",
    "occlusion",
    1.0,
    cells=["31", "", "Rome"],
)


@pytest.mark.parametrize(
    "text", ["not bad , really", "这 家 店 好", "شكرا جزيلا لك جدا", "$a$ _b \t😀 x"]
)
def test_words_of_any_script_are_drawn(text: str, tmp_path: Path) -> None:
    found = explain(text, [1.0, -2.0, 0.0, 0.5])
    for message in save_attribution(found, tmp_path / "words.svg"):
        assert "No installed font" in message
    assert (tmp_path / "words.svg").stat().st_size > 1000


def test_words_are_wrapped_and_do_not_overlap() -> None:
    found = explain("word " * 80, [0.1] * 80)
    font = LabelFont(*fonts_for(found.text))
    words = layout_words(found, font)
    assert words[-1].line > 0
    for before, after in zip(words, words[1:], strict=False):
        assert after.line > before.line or after.left >= before.left + before.width
        assert after.left + after.width <= TEXT_LINE_POINTS
    arabic = layout_words(explain("شكرا جزيلا", [1.0, 0.0]), font)
    assert arabic[0].left > arabic[1].left  # right to left


def test_long_texts_are_cut_with_a_warning(tmp_path: Path) -> None:
    count = MAX_PLOTTED_PARTS + 5
    found = explain("a " * count, [0.1] * count)
    [warning] = save_attribution(found, tmp_path / "long.png")
    assert warning == f"The picture shows the first {MAX_PLOTTED_PARTS} of {count} parts."


def test_bars_are_sorted_and_coloured_by_sign() -> None:
    figure = bar_figure(ROW, LabelFont(*fonts_for("age")))
    [axes] = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["job =", "city = Rome", "age = 31"]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == [-3.0, 1.0, 0.2]
    colours = {bar.get_facecolor() for bar in axes.patches}
    assert len(colours) == 2 and RAISES_COLOR != LOWERS_COLOR


def test_terminal_shows_coloured_words_and_strongest_parts() -> None:
    found = explain("not bad at all", [0.1, -2.0, 0.0, 1.0])
    lines = render_attribution(found, 40, colour=True, encoding="utf-8").splitlines()
    assert wcwidth.strip_sequences(lines[0]) == "not bad at all"
    assert lines[0].count("\x1b[48;5;") == 2  # weak words have no colour
    assert [line.split()[0] for line in lines[2:5]] == ["bad", "all", "not"]
    assert "sum -0.900" in lines[-1]


def test_terminal_without_colour_has_no_escapes() -> None:
    plain = render_attribution(ROW, 60, colour=False, encoding="ascii")
    assert "\x1b" not in plain and plain.isascii()
    assert plain.splitlines()[0].startswith("job = ")


def test_terminal_lines_fit_the_width() -> None:
    found = explain("好 " * 60 + "wordwordword " * 5, [0.5] * 65)
    for line in render_attribution(found, 30, colour=True, encoding="utf-8").splitlines()[:-1]:
        assert wcwidth.width(wcwidth.strip_sequences(line)) <= 30
    silent = replace(found, scores=np.zeros(65))
    assert "No part changes the value." in render_attribution(silent, 30, colour=False)
