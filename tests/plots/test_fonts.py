"""Fonts that have the letters, and plain words where none has."""

from pathlib import Path

import matplotlib
import pytest
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

from saccade.plots import fonts
from saccade.plots.fonts import cjk_region, fonts_for, missing_message, replace_missing

DEJAVU = [entry for entry in font_manager.fontManager.ttflist if entry.name == "DejaVu Sans"]


def test_fonts_for_latin_is_the_default_font():
    assert fonts_for("mardi ␣ ⍽ ∅ ◌ ⇥ ↵ …", DEJAVU) == (["DejaVu Sans"], [])
    assert fonts_for("", DEJAVU) == (["DejaVu Sans"], [])


def test_fonts_for_reports_missing_characters():
    assert fonts_for("a年月a年", DEJAVU) == (["DejaVu Sans"], ["年", "月"])


def test_fonts_for_adds_a_font_that_has_the_character():
    # DejaVu Sans Mono is always there too; the point is that the choice follows the letters.
    path = matplotlib.get_data_path() + "/fonts/ttf/DejaVuSansMono.ttf"
    mono = [entry for entry in font_manager.fontManager.ttflist if entry.fname == path]
    assert fonts_for("a", mono) == (["DejaVu Sans", "DejaVu Sans Mono"], [])


def test_fonts_for_excludes_placeholder_fonts():
    last = [e for e in font_manager.fontManager.ttflist if e.name.startswith("Last Resort")]
    assert last
    assert FT2Font(last[0].fname).get_char_index(ord("年")) > 0  # it claims to have it
    assert fonts_for("年", [*DEJAVU, *last]).missing == ["年"]


def test_fonts_for_ignores_joiners():
    assert fonts_for("a\u200d\ufe0f\u200c", DEJAVU).missing == []


def test_fonts_for_finds_newly_installed_fonts(monkeypatch, tmp_path):
    path = tmp_path / "late.ttf"
    path.write_bytes(Path(DEJAVU[0].fname).read_bytes())
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    known = list(font_manager.fontManager.ttflist)
    monkeypatch.setattr(fonts, "findSystemFonts", lambda: [str(path), str(broken)])
    monkeypatch.setattr(font_manager.fontManager, "ttflist", known)
    fonts.new_fonts.cache_clear()
    assert {entry.fname for entry in fonts.new_fonts()} == {str(path)}
    fonts.new_fonts.cache_clear()


def test_replace_missing_writes_code_points():
    assert replace_missing("a", ["年"]) == "a"
    assert replace_missing("年", ["年"]) == "U+5E74"
    assert replace_missing("年x年😀", ["年", "😀"]) == "U+5E74 x U+5E74 U+1F600"
    assert replace_missing("◌\u0e31", ["\u0e31"]) == "U+0E31"


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (
            ["年", "月"],
            "No installed font has 年 月; their code points are shown instead. "
            "Install one, for example fonts-noto-cjk.",
        ),
        (["\u0e31"], "No installed font has ◌\u0e31; .* example fonts-noto-core."),
        (["😀"], "example fonts-symbola."),
        (["年", "ก"], "example fonts-noto-cjk and fonts-noto-core."),
        ([chr(0x4E00 + n) for n in range(13)], "一 .* … ?; "),
    ],
)
def test_missing_message_names_a_package(missing, message):
    with pytest.raises(ValueError, match=message):
        raise ValueError(missing_message(missing))


def test_cjk_region_follows_kana_and_hangul():
    assert cjk_region("5月の") == "JP"
    assert cjk_region("3월 月") == "KR"
    assert cjk_region("5月") == "SC"
