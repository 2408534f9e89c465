"""Attention maps in a terminal: aligned columns and limited width, for any characters."""

import re
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.inspection.attention_map import AttentionMap, scale_limit
from saccade.plots.terminal import (
    SHADE_BLOCKS,
    TERMINAL_COLORS,
    display_width,
    render_terminal,
    visible_text,
)

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def map_of(rows, columns, title="cross attention, layer 1, head 1"):
    """Return a map in which row t attends to column t (modulo the width) only."""
    weights = np.zeros((len(rows), len(columns)))
    weights[np.arange(len(rows)), np.arange(len(rows)) % len(columns)] = 1
    return AttentionMap(weights, list(rows), list(columns), title)


def lines_of(map, **settings):
    return render_terminal(map, **{"colour": False, "encoding": "utf-8", **settings}).splitlines()


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("abc", 3),
        ("年月", 4),
        ("한", 2),
        ("ｱ", 1),
        ("😀", 2),
        ("👩🏽‍🚀", 2),
        ("🇩🇪", 2),
        ("e\u0301", 1),
        ("นี้", 1),
        ("म", 1),
        ("\u200e", 0),
        ("", 0),
    ],
)
def test_display_width_counts_terminal_columns(text, columns):
    assert display_width(text) == columns


@pytest.mark.parametrize(
    ("piece", "seen"),
    [
        (" ", "␣"),
        ("\u00a0", "⍽"),
        ("\t", "⇥"),
        ("\n", "↵"),
        ("\x07", "∅"),
        ("\u200f", "∅"),
        ("\ufe0f", "∅"),
        ("", "∅"),
        ("\ud800", "∅"),
        ("\u0301", "◌\u0301"),
        ("\u0e31", "◌\u0e31"),
        ("a b", "a␣b"),
        ("ab\u202ecd", "ab∅cd"),
        ("👩🏽‍🚀", "👩🏽‍🚀"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("年", "年"),
    ],
)
def test_visible_text_replaces_invisible_characters(piece, seen):
    assert visible_text(piece) == seen


@given(st.text(max_size=6))
def test_visible_text_has_no_control_characters(piece):
    seen = visible_text(piece)
    assert display_width(seen) > 0
    kept = {"\u200c", "\u200d"}
    for letter in seen:
        if letter not in kept and not "\U000e0020" <= letter <= "\U000e007f":
            assert unicodedata.category(letter) not in {"Cc", "Cf", "Zl", "Zp", "Zs"}


@pytest.mark.parametrize(
    "source",
    [
        "mardi 5 mars 2024",
        "2024年3月5日星期二",
        "2024년 3월 5일",
        "วันอังคารที่ 5 มีนาคม 2024",
        "मंगलवार, 5 मार्च 2024",
        "الثلاثاء، ٥ مارس ٢٠٢٤",
        "יום שלישי, 5 במרץ 2024",
        "😀🚀a🎉",
        "🇩🇪🇫🇷",  # letter by letter: halves of flags, which would join
        "👩🏽‍🚀!",
        "x" * 35,
    ],
)
@pytest.mark.parametrize("colour", [False, True])
def test_render_terminal_aligns_weights_with_columns(source, colour):
    rows = [f"{n}" for n in range(len(source))]
    lines = lines_of(map_of(rows, source), colour=colour)
    header, grid = lines[1], lines[2 : 2 + len(rows)]
    at = len(rows[-1]) + 1
    full = f"\x1b[48;5;{TERMINAL_COLORS[-1]}m" if colour else SHADE_BLOCKS[-1]
    for letter, line in zip(source, grid, strict=True):
        assert display_width(ESCAPE.sub("", line)) <= 80
        assert display_width(ESCAPE.sub("", line.partition(full)[0])) == at
        seen = visible_text(letter)
        assert header[letter_at(header, at) :].lstrip("\u200e").startswith(seen)
        at += 3 if source.startswith(("🇩🇪", "👩")) else 2


def letter_at(line: str, column: int) -> int:
    """Return the index in `line` of the character at a terminal column."""
    return next(i for i in range(len(line) + 1) if display_width(line[:i]) == column)


def test_render_terminal_isolates_right_to_left_letters():
    header = lines_of(map_of("1", "אב"))[1]
    assert header == "  \u200eא\u200e \u200eב\u200e"


def test_render_terminal_sets_short_headers_horizontally():
    lines = lines_of(map_of(["Die", "Katze"], ["The", "cat", "on"]))
    assert lines[1] == "      The cat on"
    assert lines[2].startswith("  Die ████")
    assert lines[3].startswith("Katze     ████")


def test_render_terminal_sets_long_headers_vertically_and_notes_truncation():
    columns = ["cat", "internationalisation"] + ["of"] * 30
    lines = lines_of(map_of("a", columns))
    grid = next(n for n, line in enumerate(lines) if line.startswith("a "))
    assert grid == 1 + 16
    assert [line[2:3] for line in lines[grid - 3 : grid]] == ["c", "a", "t"]
    assert "".join(line[4] for line in lines[1:grid]) == "internationalis…"
    assert "column 2: internationalisation" in lines


def test_render_terminal_uses_one_column_per_letter_for_long_sources():
    lines = lines_of(map_of("ab", "x" * 60))
    assert lines[1] == "  " + "x" * 60
    assert lines[3].startswith("b  █ ")


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.text(max_size=3) | st.sampled_from("aé年한😀أ"), min_size=1, max_size=90),
    st.lists(st.text(max_size=30), min_size=1, max_size=4),
    st.integers(24, 120),
    st.booleans(),
)
def test_render_terminal_respects_the_width_and_shows_every_column(columns, rows, width, colour):
    lines = lines_of(map_of(rows, columns, "t"), width=width, colour=colour)
    notes = next(n for n, line in enumerate(lines) if line.startswith("weight 0"))
    assert all(display_width(ESCAPE.sub("", line)) <= width for line in lines[:notes])
    bands = [re.fullmatch(r"columns (\d+) to (\d+) of (\d+)", line) for line in lines]
    edges = [(int(b[1]), int(b[2]), int(b[3])) for b in bands if b]
    if edges:
        assert [start for start, _, _ in edges] == [1] + [end + 1 for _, end, _ in edges[:-1]]
        assert edges[-1][1] == edges[-1][2] == len(columns)


def test_render_terminal_bands_contain_all_columns():
    source = "二〇二四年三月五日星期二" * 5
    lines = lines_of(map_of("a" * 60, source))
    headers = [lines[n + 1].strip() for n, line in enumerate(lines) if line.startswith("columns")]
    assert len(headers) == 2
    assert "".join(headers) == source


def test_render_terminal_names_the_strongest_key_of_a_row():
    weights = np.array([[0.25, 0.75], [0.0, 0.0]])
    lines = lines_of(AttentionMap(weights, ["x", "y"], ["月", "日"], "t"))
    assert lines[2].endswith("   75% 日")
    assert "%" not in lines[3]  # all keys are masked


def test_render_terminal_falls_back_to_ascii():
    weights = np.array([[0.0, 1.0], [0.5, 0.5]])
    text = render_terminal(
        AttentionMap(weights, ["é", "…"], ["年", " "], "t"), colour=False, encoding="ascii"
    )
    assert text.isascii()
    assert "@" in text and "\\u5e74" in text and "\\xe9" in text


def test_render_terminal_shows_the_end_of_the_scale():
    weights = np.full((1, 30), 1 / 30)
    assert scale_limit(weights) == 0.05
    assert "weight 0" in lines_of(AttentionMap(weights, ["a"], ["b"] * 30, "t"))[-1]
    assert lines_of(AttentionMap(weights, ["a"], ["b"] * 30, "t"))[-1].endswith(" 0.05")
    assert lines_of(map_of("a", "b"))[-1].endswith(" 1")


def test_render_terminal_explains_invisible_tokens():
    lines = lines_of(map_of("a", ["x", "\u200f", "y", "\u200f"]))
    assert lines[-1] == "∅ column 2, 4: U+200F right-to-left mark"


def test_scale_limit_is_close_to_the_largest_weight():
    weights = [0.04, 0.21, 0.31, 0.45, 0.6]
    limits = [scale_limit(np.array([[weight]])) for weight in weights]
    assert limits == [0.05, 0.3, 0.4, 0.5, 1.0]


def test_terminal_colors_grow_lighter():
    lightness = []
    for colour in TERMINAL_COLORS:
        if colour >= 232:
            red = green = blue = 8 + 10 * (colour - 232)
        else:
            levels = [0, 95, 135, 175, 215, 255]
            red, green, blue = (levels[(colour - 16) // n % 6] for n in (36, 6, 1))
        lightness.append(
            sum(w * c**2.2 for w, c in zip((0.21, 0.72, 0.07), (red, green, blue), strict=True))
        )
    assert lightness == sorted(lightness)


def test_render_terminal_refuses_invalid_maps():
    with pytest.raises(ValueError, match=r"shape \(2, 2\) for 1 rows and 2 columns; give .*\(1, 2"):
        render_terminal(AttentionMap(np.zeros((2, 2)), ["a"], ["b", "c"], "t"))
    with pytest.raises(ValueError, match="got an empty map"):
        render_terminal(AttentionMap(np.zeros((0, 2)), [], ["b", "c"], "t"))
    with pytest.raises(ValueError, match="Look for a NaN"):
        render_terminal(AttentionMap(np.array([[np.nan]]), ["a"], ["b"], "t"))


def test_terminal_imports_neither_torch_nor_matplotlib():
    code = (
        "import sys, saccade.plots.terminal; "
        "print([m for m in ('torch', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
