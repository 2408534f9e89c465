"""Choice of installed fonts that cover a text, and a warning for characters that none covers.

matplotlib tries a list of families for each character; this module makes that list for the text
at hand, so that no picture shows empty boxes.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from matplotlib.font_manager import FontEntry, findSystemFonts, fontManager, weight_dict
from matplotlib.ft2font import FT2Font, LoadFlags

from saccade.plots.terminal import visible_text

DEFAULT_FONT = "DejaVu Sans"  # ships with matplotlib
# these claim characters but draw boxes, mathematics or blanks
EXCLUDED_FONTS = ("Last Resort", ".LastResort", "Adobe Blank", "STIXSize", "STIXNonUnicode", "cm")


class FontChoice(NamedTuple):
    """Font families in order of preference, and the characters that none of them has."""

    families: list[str]
    missing: list[str]


def fonts_for(text: str, fonts: Sequence[FontEntry] | None = None) -> FontChoice:
    """Choose few fonts that cover `text`: of `fonts`, or of those installed (greedy set cover)."""
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
    """True for characters that only modify their neighbours (joiners, variation selectors)."""
    return unicodedata.category(letter) == "Cf" or "\ufe00" <= letter <= "\ufe0f"


def installed_fonts() -> tuple[FontEntry, ...]:
    """Return the fonts in matplotlib's cache."""
    return tuple(fontManager.ttflist)


@lru_cache(maxsize=1)
def new_fonts() -> tuple[FontEntry, ...]:
    """Return fonts installed since matplotlib wrote its font cache."""
    known = {entry.fname for entry in fontManager.ttflist}
    before = len(fontManager.ttflist)
    for path in sorted(set(findSystemFonts()) - known):
        try:
            fontManager.addfont(path)
        except (RuntimeError, NotImplementedError, OSError, ValueError):
            continue  # matplotlib cannot read this font
    return tuple(fontManager.ttflist[before:])


def candidate_fonts(entries: Sequence[FontEntry], text: str) -> list[FontEntry]:
    """Return upright fonts of regular weight, sans-serif first."""
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
    """Return the weight of a font, 100 to 900; 400 is regular."""
    return weight_dict[entry.weight] if isinstance(entry.weight, str) else entry.weight


def font_preference(name: str, region: str) -> tuple[bool, bool]:
    """Return the sort key among fonts with the same coverage; smaller is better."""
    odd = any(word in name for word in ("Serif", "Mono", "Display", "Condensed", "Math"))
    return odd, "CJK" in name and not name.endswith(region)


def cjk_region(text: str) -> str:
    """Return the variant of Han glyphs: JP if there is kana, KR if hangul, else SC."""
    names = [unicodedata.name(letter, "") for letter in text]
    if any(name.startswith(("HIRAGANA", "KATAKANA")) for name in names):
        return "JP"
    return "KR" if any(name.startswith("HANGUL") for name in names) else "SC"


def covered_letters(entries: Sequence[FontEntry], family: str, letters: set[str]) -> set[str]:
    """Return the characters that a family covers."""
    entry = next((entry for entry in entries if entry.name == family), None)
    if entry is None:
        return set()
    return set(letters_in_font(entry.fname, entry.index, frozenset(letters)))


@lru_cache(maxsize=4096)
def letters_in_font(path: str, index: int, letters: frozenset[str]) -> frozenset[str]:
    """Return the characters that a font file has an outline for (not a colour bitmap)."""
    try:
        font = FT2Font(path, face_index=index)
        return frozenset(letter for letter in letters if has_outline(font, ord(letter)))
    except (RuntimeError, OSError):
        return frozenset()


def has_outline(font: FT2Font, code: int) -> bool:
    """True if a font has an outline for this code point."""
    if font.get_char_index(code) == 0:
        return False
    font.load_char(code, flags=LoadFlags.NO_HINTING)
    return len(font.get_path()[0]) > 0


def replace_missing(text: str, missing: Sequence[str]) -> str:
    """Replace characters that no font has by their code point, such as U+5E74."""
    if text[:1] == "◌" and text[1:2] in missing:
        text = text[1:]  # the dotted circle only carried the combining character
    seen = "".join(f" U+{ord(letter):04X} " if letter in missing else letter for letter in text)
    return " ".join(seen.split()) if missing else text


def missing_message(missing: Sequence[str], limit: int = 12) -> str:
    """Return the warning about characters that no font has."""
    some = " ".join(visible_text(letter) for letter in missing[:limit])
    some += " …" if len(missing) > limit else ""
    packages = " and ".join(dict.fromkeys(font_package(letter) for letter in missing))
    return (
        f"No installed font has {some}; their code points are shown instead. "
        f"Install one, for example {packages}."
    )


def font_package(letter: str) -> str:
    """Return the Debian package of a free font that has a character."""
    if unicodedata.category(letter)[0] == "S":
        return "fonts-symbola"
    return "fonts-noto-cjk" if unicodedata.east_asian_width(letter) in "WF" else "fonts-noto-core"
