"""Days written as people write them in many languages, and in ISO 8601: `dates`.

The names, orders and marks are those of the Unicode CLDR, as Babel carries it: no network, no
corpus. Babel's own `format_date` looks everything up again for each day; here a pattern is
compiled once into a function from day to text, and the tests hold it equal to Babel's.

Which strings are left out, so that every string has one reading:

1. A pattern with a two-digit year.
2. A pattern all of whose fields are numbers, if two of the languages read its shape
   differently. The shape is the separators (without spaces and invisible marks) and the place
   of the year; a weekday beside the numbers does not count, since it names no month. So
   `5.3.2024` and `2024/3/5` stay, and `05/03/2024` goes in every language: English reads it as
   the third of May, Spanish as the fifth of March.
3. A string that still turns up with two days (none does; `without_two_readings` sees to it).

CLDR writes narrow and no-break spaces (U+202F, U+00A0) and direction marks (U+200E, U+200F)
that no keyboard has. Half of the examples keep them, the other half have plain spaces and no
marks.
"""

from collections import defaultdict
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache
from typing import NamedTuple

from babel import Locale
from babel.dates import tokenize_pattern

from saccade.data.synthetic.base import (
    SPLIT_NAMES,
    PairSampler,
    ProgressCallback,
    SyntheticPairs,
    TextPair,
    generate_pairs,
    hash_split,
    uniform_stream,
)
from saccade.registry import lookup

DATES_DESCRIPTION = "days as written in 46 languages → ISO 8601: 'mardi 5 mars 2024' → '2024-03-05'"

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
    """What a reader sees of an all-numeric date: the separators, and where the year stands."""

    separators: tuple[str, ...]
    year: int


def date_languages() -> list[str]:
    """The languages that days are written in, by their codes."""
    return list(_LANGUAGES)


def date_styles(language: str) -> list[str]:
    """The styles a language has: CLDR's own formats first, then skeletons that add to them."""
    return list(lookup(_writers(), language, "language of dates"))


def format_cldr_date(day: date, language: str, style: str) -> str:
    """The day as CLDR writes it: `write_date(date(2024, 3, 5), "fr", "long")`, '5 mars 2024'."""
    writers = lookup(_writers(), language, "language of dates")
    return lookup(writers, style, f"style of dates in {language!r}")(day)


def normalise_spaces(text: str) -> str:
    """Plain spaces for CLDR's special ones, and no invisible direction marks."""
    return text.translate(_AS_TYPED)


def generate_dates(
    size: int = 120_000, seed: int = 1, on_progress: ProgressCallback | None = None
) -> SyntheticPairs:
    """Days in many languages and styles → ISO 8601; the held-out days are in no training pair.

    `size` pairs to train on, 2,000 each for dev and test. The languages take turns,
    so each has the same number of pairs; day and style are drawn.
    """
    draws = {split: _draw(split, seed) for split in SPLIT_NAMES}
    return generate_pairs("dates", DATES_DESCRIPTION, draws, size, 2_000, _notes(), on_progress)


def date_examples() -> list[TextPair]:
    """Eight held-out days, each in another script, to show what a model has learned."""
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
    writers = [list(styles.values()) for styles in _writers().values()]
    random = uniform_stream(seed, f"dates/{split}")

    def draw(turn: int) -> TextPair:
        styles = writers[turn % len(writers)]
        where = int(next(random) * len(days))
        source = styles[int(next(random) * len(styles))](days[where])
        return (source if next(random) < 0.5 else normalise_spaces(source)), written[where]

    return draw


@cache
def _days(split: str) -> list[date]:
    """All days of the range that fall on this side."""
    every = (_FIRST + timedelta(days) for days in range((_LAST - _FIRST).days + 1))
    return [day for day in every if hash_split(day.isoformat()) == split]


def _notes() -> list[str]:
    kept = sum(len(styles) for styles in _writers().values())
    doubtful = ", ".join(
        f"{'year first' if shape.year == 0 else 'year last'} with {' '.join(shape.separators)}"
        for shape in sorted(_read_two_ways(_patterns()))
    )
    return [
        f"{len(_LANGUAGES)} languages, {kept} styles, {_FIRST.year} to {_LAST.year}.",
        f"All-numeric shapes that languages read differently are left out: {doubtful or 'none'}.",
        "Half of the examples have plain spaces where CLDR has narrow or no-break ones.",
    ]


@cache
def _writers() -> dict[str, dict[str, DateFormatter]]:
    """Language → style → the function that writes a day; without the shapes read two ways."""
    patterns = _patterns()
    doubtful = _read_two_ways(patterns)
    return {
        language: {
            style: _compile(tokens, Locale.parse(language))
            for style, tokens in styles.items()
            if _shape(tokens) not in doubtful
        }
        for language, styles in patterns.items()
    }


@cache
def _patterns() -> dict[str, dict[str, list[PatternToken]]]:
    """Language → style → pattern, each pattern once, none with a two-digit year."""
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


def _read_two_ways(patterns: dict[str, dict[str, list[PatternToken]]]) -> set[NumericDateShape]:
    """The all-numeric shapes in which one language has the day first and another the month."""
    orders: dict[NumericDateShape, set[str]] = defaultdict(set)
    for styles in patterns.values():
        for tokens in styles.values():
            shape = _shape(tokens)
            if shape is not None:
                orders[shape].add(_order(tokens))
    return {shape for shape, found in orders.items() if len(found) > 1}


def _shape(tokens: list[PatternToken]) -> NumericDateShape | None:
    """The shape of an all-numeric pattern; None where the month has a name."""
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
    """The order of day, month and year: 'dMy', 'Mdy' or 'yMd'."""
    letters = [str(value[0]) for kind, value in tokens if kind == "field" and value[0] in "dMLy"]
    return "".join(letters).replace("L", "M")


def _compile(tokens: list[PatternToken], locale: Locale) -> DateFormatter:
    """The function that writes a day after this pattern."""
    parts = [_part(kind, value, locale) for kind, value in tokens]
    return lambda day: "".join([part(day) for part in parts])


def _part(kind: str, value: str | tuple[str, int], locale: Locale) -> DateFormatter:
    """The function that writes one field, or the text between two."""
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
    raise ValueError(f"The date pattern of {locale} has a field {letter!r} that is not known here.")


def _months(letter: str, count: int, locale: Locale) -> list[str]:
    """How each month is written, at its number; nothing at 0."""
    if count < 3:
        return [f"{number:0{count}d}" for number in range(13)]
    names = locale.months[_CONTEXTS[letter]][_WIDTHS[count]]
    return ["", *(names[number] for number in range(1, 13))]
