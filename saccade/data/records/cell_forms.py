"""Forms of single cells: integer, number, date, code, reference or words; and scripts of texts."""

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from typing import Literal

from saccade.data.tables.csv import MAX_MAGNITUDE
from saccade.io.numbers import is_number

CellForm = Literal["integer", "number", "date", "code", "reference", "words"]

MAX_FORMATTED_LENGTH = 48  # characters of a number, date or code
BOOLEAN_PAIRS = (
    {"0", "1"},
    {"true", "false"},
    {"yes", "no"},
    {"y", "n"},
    {"t", "f"},
    {"on", "off"},
    {"ja", "nein"},
    {"oui", "non"},
    {"sí", "no"},
    {"si", "no"},
    {"да", "нет"},
    {"是", "否"},
)

_YEAR, _MONTH, _DAY = r"(?:1[5-9]|20|21)\d\d", r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
_CLOCK = r"(?:[01]?\d|2[0-4]):[0-5]\d(?::[0-6]\d(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?"
_ZONE = r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
_MONTH_NAME = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    rf"(?:{_YEAR}([-/.]){_MONTH}(?:\1{_DAY})?"  # 2024-03-05, 2024/3/5, 2024-03
    rf"|(?:{_DAY}([-/.]){_MONTH}|{_MONTH}([-/.]){_DAY})[-/.](?:{_YEAR}|\d\d)"  # 5.3.2024, 3/5/24
    rf"|{_DAY}[ -]{_MONTH_NAME}[ -],? ?(?:{_YEAR}|\d\d)"  # 5 March 2024, 05-Mar-24
    rf"|{_MONTH_NAME} {_DAY}(?:st|nd|rd|th)?,? {_YEAR}"  # March 5, 2024
    rf"|{_YEAR}年{_MONTH}月(?:{_DAY}日)?)"
    rf"(?:[T ]+{_CLOCK}{_ZONE})?"
    rf"|{_CLOCK}",
    re.IGNORECASE,
).fullmatch
_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,18})").fullmatch  # 007 is a code
_CODE = re.compile(
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"  # UUID
    r"|(?=[^\s]*\d)[A-Za-z]{0,6}[-_#./:]?[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*"
    r"|[0-9A-Fa-f]{16,}"
).fullmatch
_REFERENCE = re.compile(
    r"(?:https?|ftp|s3|file)://\S+|[\w.+-]+@[\w-]+\.[\w.]+|.*\battribution\b.*", re.IGNORECASE
).fullmatch
_DIGIT = re.compile(r"\d").search


def cell_form(cell: str) -> CellForm:
    """Return the form of a cell that has a value, by its characters alone."""
    if _REFERENCE(cell[:400]):
        return "reference"
    if len(cell) > MAX_FORMATTED_LENGTH or not _DIGIT(cell):
        return "words"
    if _INTEGER(cell):
        return "integer"
    if is_number(cell, MAX_MAGNITUDE) and not (cell[0] == "0" and cell.isdigit()):
        return "number"
    if _DATE(cell):
        return "date"
    return "code" if _CODE(cell) else "words"


def code_shape(cell: str) -> str:
    """Return a code with its letters and digits replaced: "TX-1024" has the shape "a-0"."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", cell))


# --- scripts --------------------------------------------------------------------------------------

SPACELESS_SCRIPTS = frozenset({"Han", "Japanese", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"})
MAIN_SCRIPT_SHARE = 0.9  # of the letters; below, a text is of mixed scripts
_SCRIPT_NAMES = {"CJK": "Han", "HIRAGANA": "Japanese", "KATAKANA": "Japanese"}
_WIDTHS = {"FULLWIDTH", "HALFWIDTH", "MODIFIER", "MATHEMATICAL", "OLD", "NEW"}


@lru_cache(maxsize=1 << 14)
def character_script(character: str) -> str | None:
    """Return the script of a letter by its Unicode name; None if it is no letter.

    Python has no table of the property Script; the first word of a letter's name ("CYRILLIC SMALL
    LETTER A") is its script, except for Chinese (CJK) and the two kana of Japanese.
    """
    if not character.isalpha():
        return None
    words = unicodedata.name(character, "UNKNOWN").split()
    word = words[1] if words[0] in _WIDTHS and len(words) > 1 else words[0]
    return _SCRIPT_NAMES.get(word, word.capitalize())


def count_scripts(text: str) -> Counter[str]:
    """Return the number of letters of each script."""
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if (script := character_script(character)) is not None:
            counts[script] += count
    return counts


def main_script(counts: Counter[str]) -> str:
    """Return the script of most letters, or "mixed (…)"; "" without letters.

    Japanese is written in kana and Chinese characters: with a tenth of kana, both are Japanese.
    """
    counts = Counter(counts)
    total = sum(counts.values())
    if not total:
        return ""
    if counts["Japanese"] >= 0.1 * (counts["Japanese"] + counts["Han"]) > 0:
        counts["Japanese"] += counts.pop("Han", 0)
    [(name, count), *others] = counts.most_common(3)
    if count >= MAIN_SCRIPT_SHARE * total:
        return name
    return f"mixed ({', '.join([name, *(other for other, _ in others)])})"


def needs_no_spaces(counts: Counter[str]) -> bool:
    """Return True if most letters are of scripts that are written without spaces."""
    spaceless = sum(counts[script] for script in SPACELESS_SCRIPTS)
    return 2 * spaceless > sum(counts.values())
