import re
import unicodedata
from collections import defaultdict
from datetime import date, timedelta

import pytest
from babel.dates import format_date, format_skeleton

from saccade.data.splits import SPLIT_NAMES, hash_split
from saccade.data.synthetic.dates import (
    DATES_DESCRIPTION,
    date_examples,
    date_languages,
    date_styles,
    format_cldr_date,
    generate_dates,
    normalise_spaces,
)
from saccade.errors import ConfigError

STYLES = [(language, style) for language in date_languages() for style in date_styles(language)]
MADE = generate_dates(size=12_000, seed=3)


def every_day(year: int) -> list[date]:
    first = date(year, 1, 1)
    return [first + timedelta(k) for k in range((date(year + 1, 1, 1) - first).days)]


def test_dates_have_many_languages_with_several_styles():
    languages = date_languages()
    assert len(set(languages)) == len(languages) >= 44
    assert f"{len(languages)} languages" in DATES_DESCRIPTION
    assert all(len(date_styles(language)) >= 3 for language in languages)


@pytest.mark.parametrize("language", date_languages())
def test_format_cldr_date_equals_babel(language):
    # 367 is prime to the lengths of week, month and year: all names and all paddings come up
    days = [date(1950, 1, 1) + timedelta(367 * k) for k in range(99)]
    for style in date_styles(language):
        for day in days:
            if style.startswith("y"):
                expected = format_skeleton(style, day, locale=language)
            else:
                expected = format_date(day, style, locale=language)
            assert format_cldr_date(day, language, style) == expected


def doubtful(year: int) -> list[str]:
    """All strings of a year, as written and as typed, that stand for two days."""
    readings: dict[str, set[date]] = defaultdict(set)
    for day in every_day(year):
        texts = [format_cldr_date(day, language, style) for language, style in STYLES]
        for text in texts + normalise_spaces("\n".join(texts)).split("\n"):
            readings[text].add(day)
    return [text for text, days in readings.items() if len(days) > 1]


def test_dates_of_a_leap_year_are_unambiguous():
    assert doubtful(2024) == []


@pytest.mark.long
# a year starts on one of seven weekdays and is a leap year or not: fourteen calendars in all
@pytest.mark.parametrize("year", [*range(2000, 2007), 2008, 2009, 2010, 2012, 2016, 2020, 2024])
def test_dates_of_any_year_are_unambiguous(year):
    assert doubtful(year) == []


def test_dates_have_a_four_digit_year():
    day = date(1987, 3, 5)
    for language, style in STYLES:
        assert "1987" in format_cldr_date(day, language, style)


def test_dates_keep_unambiguous_numeric_patterns():
    day = date(2024, 3, 5)
    assert format_cldr_date(day, "de", "yMd") == "5.3.2024"
    assert format_cldr_date(day, "nl", "short") == "05-03-2024"
    assert format_cldr_date(day, "zh", "short") == "2024/3/5"
    assert format_cldr_date(day, "sv", "short") == "2024-03-05"
    slashes = re.compile(r"\d+/\d+/\d{4}")
    for language, style in STYLES:
        assert not slashes.search(normalise_spaces(format_cldr_date(day, language, style)))
    assert "yMd" not in date_styles("en")
    assert "yMd" not in date_styles("es")


def test_dates_held_out_days_are_in_no_training_pair():
    days = {split: {target for _, target in MADE.pairs[split]} for split in SPLIT_NAMES}
    assert not days["train"] & (days["dev"] | days["test"])
    assert not days["dev"] & days["test"]
    for split in SPLIT_NAMES:
        assert {hash_split(day) for day in days[split]} == {split}


def test_dates_pairs_are_correct_and_languages_alternate():
    languages = date_languages()
    for turn, (source, target) in enumerate(MADE.pairs["train"][:2_000]):
        language = languages[turn % len(languages)]
        day = date.fromisoformat(target)
        written = [format_cldr_date(day, language, style) for style in date_styles(language)]
        assert source in written or source in map(normalise_spaces, written)


def test_dates_sizes_match_and_sources_are_distinct():
    assert {split: len(MADE.pairs[split]) for split in SPLIT_NAMES} == {
        "train": 12_000,
        "dev": 2_000,
        "test": 2_000,
    }
    sources = [source for split in SPLIT_NAMES for source, _ in MADE.pairs[split]]
    assert len(set(sources)) == len(sources)


def test_dates_are_deterministic():
    assert generate_dates(size=300, seed=5) == generate_dates(size=300, seed=5)
    assert generate_dates(size=300, seed=5).pairs != generate_dates(size=300, seed=6).pairs


def test_dates_of_a_larger_size_start_with_the_same_pairs():
    assert generate_dates(size=500, seed=3).pairs["train"] == MADE.pairs["train"][:500]
    assert generate_dates(size=500, seed=3).pairs["test"] == MADE.pairs["test"]


def test_dates_normalise_half_of_the_special_spaces():
    endings = [source[-3:] for source, _ in MADE.pairs["train"] if source.endswith("г.")]
    special = endings.count("\u202fг.")
    assert len(endings) > 300
    assert set(endings) == {"\u202fг.", " г."}
    assert 0.4 < special / len(endings) < 0.6


def test_date_examples_are_held_out_and_in_different_scripts():
    examples = date_examples()
    letters = [next(letter for letter in source if letter.isalpha()) for source, _ in examples]
    scripts = {unicodedata.name(letter).split()[0] for letter in letters}
    assert len(examples) == len(scripts) == 8
    assert {hash_split(target) for _, target in examples} == {"test"}
    assert all(target[:4] in source for source, target in examples)


def test_format_cldr_date_rejects_unknown_languages_and_styles():
    with pytest.raises(ConfigError, match="no language of dates 'frr'. Did you mean 'fr'"):
        format_cldr_date(date(2024, 3, 5), "frr", "long")
    with pytest.raises(ConfigError, match="no style of dates in 'en' 'short'.*There are: full"):
        format_cldr_date(date(2024, 3, 5), "en", "short")


def test_dates_notes_list_what_was_left_out():
    assert any("left out: year last with / /" in note for note in MADE.notes)
    assert not any("ambiguous sources" in note for note in MADE.notes)  # there are none
