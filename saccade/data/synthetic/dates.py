"""The synthetic set `dates`: dates as 46 languages write them → ISO 8601.

Names, field orders and punctuation are those of the Unicode CLDR, which Babel includes: no network,
no corpus. Babel's own `format_date` looks everything up again for each date; here a pattern is
compiled once into a function from date to text, and the tests compare it with Babel's.

Patterns and strings that are left out, so that every string has one meaning:

1. A pattern with a two-digit year.
2. A pattern of numeric fields only, if two of the languages order day and month differently in its
   shape. The shape is the separators (without spaces and invisible characters) and the position of
   the year; a weekday next to the numbers does not count, since it names no month. So `5.3.2024`
   and `2024/3/5` are kept, and `05/03/2024` is left out in every language: in English it is the
   third of May, in Spanish the fifth of March.
3. A string that still occurs with two dates (none does; `drop_ambiguous_sources` checks it).

CLDR has narrow and no-break spaces (U+202F, U+00A0) and direction marks (U+200E, U+200F) that no
keyboard has. Half of the examples keep them, the other half have plain spaces and no direction
marks.
"""

from collections import defaultdict
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache
from typing import NamedTuple

from babel import Locale
from babel.dates import tokenize_pattern

from saccade.data.splits import SPLIT_NAMES, hash_split
from saccade.data.synthetic.base import (
    PairSampler,
    SyntheticPairs,
    TextPair,
    generate_pairs,
    uniform_stream,
)
from saccade.registry import lookup
from saccade.types.progress import ProgressCallback

DATES_DESCRIPTION = (
    "dates as written in 46 languages → ISO 8601: 'mardi 5 mars 2024' → '2024-03-05'"
)

_LANGUAGES = (
    "am ar bg bn ca cs da de el en es et fa fi fr he hi hr hu hy id it ja ka kk ko "
    "lt lv nb nl pl pt ro ru sk sl sr sv sw ta te th tr uk vi zh"
).split()
_FORMATS = ("full", "long", "medium", "short")
_SKELETONS = ("yMMMd", "yMMMEd", "yMMMMd", "yMMMMEEEEd", "yMd", "yMEd")
_FIRST, _LAST = date(1950, 1, 1), date(2049, 12, 31)

_AS_TYPED = {0x00A0: " ", 0x202F: " ", 0x200E: None, 0x200F: None}
_WIDTHS = {3: "abbreviated", 4: "wide"}
_CONTEXTS = {"E": "format", "M": "format", "c": "stand-alone", "L": "stand-alone"}

PatternToken = tuple[str, str | tuple[str, int]]  # ("chars", text) or ("field", (letter, count))
DateFormatter = Callable[[date], str]


class NumericDateShape(NamedTuple):
    """The separators of an all-numeric date, and the position of the year among its fields."""

    separators: tuple[str, ...]
    year: int


def date_languages() -> list[str]:
    """Return the codes of the languages."""
    return list(_LANGUAGES)


def date_styles(language: str) -> list[str]:
    """Return the styles of a language: CLDR's formats first, then further skeletons."""
    return list(lookup(_formatters(), language, "language of dates"))


def format_cldr_date(day: date, language: str, style: str) -> str:
    """Format a date as CLDR does: `format_cldr_date(day, "fr", "long")` is '5 mars 2024'."""
    formatters = lookup(_formatters(), language, "language of dates")
    return lookup(formatters, style, f"style of dates in {language!r}")(day)


def normalise_spaces(text: str) -> str:
    """Replace CLDR's special spaces by plain ones and drop invisible direction marks."""
    return text.translate(_AS_TYPED)


def generate_dates(
    size: int = 120_000, seed: int = 1, on_progress: ProgressCallback | None = None
) -> SyntheticPairs:
    """Return dates in many languages and styles → ISO 8601; held-out dates are in no training pair.

    There are `size` training pairs and 2,000 each for dev and test. The languages alternate, so
    each has the same number of pairs; date and style are random.
    """
    draws = {split: _draw(split, seed) for split in SPLIT_NAMES}
    return generate_pairs("dates", DATES_DESCRIPTION, draws, size, 2_000, _notes(), on_progress)


def date_examples() -> list[TextPair]:
    """Return eight held-out dates in different scripts, to show what a model has learned."""
    days = _days("test")
    languages = ("fr", "ru", "el", "ar", "hi", "zh", "ko", "th")
    chosen = [days[len(days) * (2 * k + 1) // (2 * len(languages))] for k in range(len(languages))]
    return [
        (normalise_spaces(format_cldr_date(day, language, "full")), day.isoformat())
        for day, language in zip(chosen, languages, strict=True)
    ]


def _draw(split: str, seed: int) -> PairSampler:
    days = _days(split)
    written = [day.isoformat() for day in days]
    formatters = [list(styles.values()) for styles in _formatters().values()]
    random = uniform_stream(seed, f"dates/{split}")

    def draw(index: int) -> TextPair:
        styles = formatters[index % len(formatters)]
        where = int(next(random) * len(days))
        source = styles[int(next(random) * len(styles))](days[where])
        return (source if next(random) < 0.5 else normalise_spaces(source)), written[where]

    return draw


@cache
def _days(split: str) -> list[date]:
    """Return all days of the range that belong to a split."""
    days = (_FIRST + timedelta(offset) for offset in range((_LAST - _FIRST).days + 1))
    return [day for day in days if hash_split(day.isoformat()) == split]


def _notes() -> list[str]:
    kept = sum(len(styles) for styles in _formatters().values())
    ambiguous = ", ".join(
        f"{'year first' if shape.year == 0 else 'year last'} with {' '.join(shape.separators)}"
        for shape in sorted(_ambiguous_shapes(_patterns()))
    )
    return [
        f"{len(_LANGUAGES)} languages, {kept} styles, {_FIRST.year} to {_LAST.year}.",
        f"All-numeric shapes that are ambiguous are left out: {ambiguous or 'none'}.",
        "Half of the examples have plain spaces where CLDR has narrow or no-break ones.",
    ]


@cache
def _formatters() -> dict[str, dict[str, DateFormatter]]:
    """Return language → style → function that formats a date; without the ambiguous shapes."""
    patterns = _patterns()
    ambiguous = _ambiguous_shapes(patterns)
    return {
        language: {
            style: _compile(tokens, Locale.parse(language))
            for style, tokens in styles.items()
            if _shape(tokens) not in ambiguous
        }
        for language, styles in patterns.items()
    }


@cache
def _patterns() -> dict[str, dict[str, list[PatternToken]]]:
    """Return language → style → pattern, each pattern once, none with a two-digit year."""
    patterns: dict[str, dict[str, list[PatternToken]]] = {}
    for language in _LANGUAGES:
        locale = Locale.parse(language)
        written = {style: locale.date_formats[style].pattern for style in _FORMATS}
        skeletons = locale.datetime_skeletons
        written |= {style: skeletons[style].pattern for style in _SKELETONS if style in skeletons}
        first_style: dict[str, str] = {}
        for style, pattern in written.items():
            first_style.setdefault(pattern, style)
        tokens = {style: tokenize_pattern(pattern) for pattern, style in first_style.items()}
        patterns[language] = {
            style: parts for style, parts in tokens.items() if ("field", ("y", 2)) not in parts
        }
    return patterns


def _ambiguous_shapes(patterns: dict[str, dict[str, list[PatternToken]]]) -> set[NumericDateShape]:
    """Return the all-numeric shapes with the day first in one language and the month in another."""
    orders: dict[NumericDateShape, set[str]] = defaultdict(set)
    for styles in patterns.values():
        for tokens in styles.values():
            shape = _shape(tokens)
            if shape is not None:
                orders[shape].add(_order(tokens))
    return {shape for shape, found in orders.items() if len(found) > 1}


def _shape(tokens: list[PatternToken]) -> NumericDateShape | None:
    """Return the shape of an all-numeric pattern; None if the month is a name."""
    if any(kind == "field" and value[0] in "ML" and int(value[1]) > 2 for kind, value in tokens):
        return None
    gaps = [""]
    for kind, value in tokens:
        if kind == "chars":
            gaps[-1] += "".join(normalise_spaces(str(value)).split())
        elif value[0] in "dMLy":
            gaps.append("")
    return NumericDateShape(tuple(gaps[1:-1]), _order(tokens).index("y"))


def _order(tokens: list[PatternToken]) -> str:
    """Return the order of day, month and year: 'dMy', 'Mdy' or 'yMd'."""
    letters = [str(value[0]) for kind, value in tokens if kind == "field" and value[0] in "dMLy"]
    return "".join(letters).replace("L", "M")


def _compile(tokens: list[PatternToken], locale: Locale) -> DateFormatter:
    """Return the function that formats a date by a pattern."""
    parts = [_part(kind, value, locale) for kind, value in tokens]
    return lambda day: "".join([part(day) for part in parts])


def _part(kind: str, value: str | tuple[str, int], locale: Locale) -> DateFormatter:
    """Return the function that formats one field, or the text between two."""
    if isinstance(value, str):
        text = value
        return lambda day: text
    letter, count = value
    if letter == "y":
        return lambda day: str(day.year)
    if letter == "d":
        numbers = [f"{number:0{count}d}" for number in range(32)]
        return lambda day: numbers[day.day]
    if letter in "ML":
        months = _months(letter, count, locale)
        return lambda day: months[day.month]
    if letter in "Ec":
        names = locale.days[_CONTEXTS[letter]][_WIDTHS[max(count, 3)]]
        weekdays = [names[number] for number in range(7)]
        return lambda day: weekdays[day.weekday()]
    if letter == "G":
        era = locale.eras[_WIDTHS[max(count, 3)]][1]
        return lambda day: era
    raise ValueError(
        f"got a field {letter!r} in a date pattern of {locale}; expected y, d, M, L, E, c or G."
    )


def _months(letter: str, count: int, locale: Locale) -> list[str]:
    """Return the name or number of each month at its index; index 0 is empty."""
    if count < 3:
        return [f"{number:0{count}d}" for number in range(13)]
    names = locale.months[_CONTEXTS[letter]][_WIDTHS[count]]
    return ["", *(names[number] for number in range(1, 13))]
