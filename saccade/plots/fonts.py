"""Fonts that have the letters: found among the installed ones, or a plain word that there are none.

matplotlib takes a list of families and goes down it letter by letter; here that list is made
for the letters at hand, so that no picture shows empty boxes.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from matplotlib.font_manager import FontEntry, findSystemFonts, fontManager, weight_dict
from matplotlib.ft2font import FT2Font, LoadFlags

from saccade.plots.terminal import visible_text

DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib, so it is always there
# These claim letters and draw something else: boxes, mathematics, nothing.
EXCLUDED_FONTS = ("Last Resort", ".LastResort", "Adobe Blank", "STIXSize", "STIXNonUnicode", "cm")


class FontChoice(NamedTuple):
    """The families to draw with, in order, and the letters that none of them has."""

    families: list[str]
    missing: list[str]


def fonts_for(text: str, fonts: Sequence[FontEntry] | None = None) -> FontChoice:
    """The fewest fonts that have the letters of `text`: of `fonts`, or of those installed."""
    letters = {letter for letter in text if not letter.isspace() and not needs_no_glyph(letter)}
    families = [DEFAULT_FONT]
    if not letters:
        return FontChoice(families, [])
    entries = candidate_fonts(installed_fonts() if fonts is None else fonts, text)
    missing = letters - covered_letters(entries, DEFAULT_FONT, letters)
    if missing and fonts is None:
        entries = candidate_fonts(installed_fonts() + new_fonts(), text)
    names = dict.fromkeys(entry.name for entry in entries)
    while missing:
        has = {name: covered_letters(entries, name, missing) for name in names}
        best = max(names, key=lambda name: len(has[name]), default=DEFAULT_FONT)
        if not has.get(best):
            break
        families.append(best)
        missing -= has[best]
    return FontChoice(families, sorted(missing))


def needs_no_glyph(letter: str) -> bool:
    """Whether a letter only changes its neighbours (joiners, selectors) and needs no glyph."""
    return unicodedata.category(letter) == "Cf" or "\ufe00" <= letter <= "\ufe0f"


def installed_fonts() -> tuple[FontEntry, ...]:
    """The fonts matplotlib knows."""
    return tuple(fontManager.ttflist)


@lru_cache(maxsize=1)
def new_fonts() -> tuple[FontEntry, ...]:
    """Fonts installed since matplotlib last looked: it keeps its list from run to run."""
    known = {entry.fname for entry in fontManager.ttflist}
    before = len(fontManager.ttflist)
    for path in sorted(set(findSystemFonts()) - known):
        try:
            fontManager.addfont(path)
        except (RuntimeError, NotImplementedError, OSError, ValueError):
            continue  # a font that matplotlib cannot read is as good as none
    return tuple(fontManager.ttflist[before:])


def candidate_fonts(entries: Sequence[FontEntry], text: str) -> list[FontEntry]:
    """Upright fonts of ordinary weight, the plainest first."""
    usable = [
        entry
        for entry in entries
        if entry.style == "normal"
        and 300 <= font_weight(entry) <= 500
        and not entry.name.startswith(EXCLUDED_FONTS)
    ]
    region = cjk_region(text)
    return sorted(usable, key=lambda entry: (*font_preference(entry.name, region), entry.name))


def font_weight(entry: FontEntry) -> int:
    """How bold a font is, 100 to 900; 400 is ordinary."""
    return weight_dict[entry.weight] if isinstance(entry.weight, str) else entry.weight


def font_preference(name: str, region: str) -> tuple[bool, bool]:
    """What to prefer where two fonts have the same letters; smaller is better."""
    odd = any(word in name for word in ("Serif", "Mono", "Display", "Condensed", "Math"))
    return odd, "CJK" in name and not name.endswith(region)


def cjk_region(text: str) -> str:
    """Which Han shapes suit a text: Japanese beside kana, Korean beside hangul, else Chinese."""
    names = [unicodedata.name(letter, "") for letter in text]
    if any(name.startswith(("HIRAGANA", "KATAKANA")) for name in names):
        return "JP"
    return "KR" if any(name.startswith("HANGUL") for name in names) else "SC"


def covered_letters(entries: Sequence[FontEntry], family: str, letters: set[str]) -> set[str]:
    """Which of the letters a family draws."""
    entry = next((entry for entry in entries if entry.name == family), None)
    if entry is None:
        return set()
    return set(letters_in_font(entry.fname, entry.index, frozenset(letters)))


@lru_cache(maxsize=4096)
def letters_in_font(path: str, index: int, letters: frozenset[str]) -> frozenset[str]:
    """Which of the letters a font file has with an outline (colour bitmaps have none)."""
    try:
        font = FT2Font(path, face_index=index)
        return frozenset(letter for letter in letters if has_outline(font, ord(letter)))
    except (RuntimeError, OSError):
        return frozenset()


def has_outline(font: FT2Font, code: int) -> bool:
    """Whether a font draws this letter."""
    if font.get_char_index(code) == 0:
        return False
    font.load_char(code, flags=LoadFlags.NO_HINTING)
    return len(font.get_path()[0]) > 0


def replace_missing(text: str, missing: Sequence[str]) -> str:
    """Text in which letters no font has are written as their number, U+5E74."""
    if text[:1] == "◌" and text[1:2] in missing:
        text = text[1:]  # the circle stood there to carry a mark that is not drawn
    seen = "".join(f" U+{ord(letter):04X} " if letter in missing else letter for letter in text)
    return " ".join(seen.split()) if missing else text


def missing_message(missing: Sequence[str], most: int = 12) -> str:
    """What to tell a person about letters that no font has."""
    some = " ".join(visible_text(letter) for letter in missing[:most])
    some += " …" if len(missing) > most else ""
    packages = " and ".join(dict.fromkeys(font_package(letter) for letter in missing))
    return (
        f"No installed font has {some}; their code points are shown instead. "
        f"Install one, for example {packages}."
    )


def font_package(letter: str) -> str:
    """A free font, by the name most Linux systems give its package, that has a letter."""
    if unicodedata.category(letter)[0] == "S":
        return "fonts-symbola"
    return "fonts-noto-cjk" if unicodedata.east_asian_width(letter) in "WF" else "fonts-noto-core"
