from collections import defaultdict

import pytest
from num2words import num2words

from saccade.data.splits import SPLIT_NAMES, hash_split
from saccade.data.synthetic.spelled_numbers import (
    SPELLED_NUMBERS_DESCRIPTION,
    generate_spelled_numbers,
    number_languages,
    spell_number,
)
from saccade.errors import ConfigError

MADE = generate_spelled_numbers(size=2_000, seed=2)


def doubtful(several) -> list[str]:
    readings: dict[str, set[int]] = defaultdict(set)
    for language in number_languages():
        for number in several:
            readings[spell_number(number, language)].add(number)
    return [text for text, found in readings.items() if len(found) > 1]


def test_spelled_numbers_have_many_languages():
    languages = number_languages()
    assert len(set(languages)) == len(languages) >= 20
    assert f"{len(languages)} languages" in SPELLED_NUMBERS_DESCRIPTION


def test_spell_number_known_spellings():
    assert spell_number(342, "fr") == "trois cent quarante-deux"
    assert spell_number(21, "de") == "einundzwanzig"
    assert spell_number(9999, "ja") == "九千九百九十九"
    assert spell_number(0, "en") == "zero"


def test_spelled_numbers_are_unambiguous():
    assert doubtful([*range(120), *range(120, 10_000, 61)]) == []


@pytest.mark.long
def test_spelled_numbers_are_unambiguous_for_all_numbers():
    assert doubtful(range(10_000)) == []


def test_spelled_numbers_are_correct_and_languages_alternate():
    languages = number_languages()
    for turn, (source, target) in enumerate(MADE.pairs["train"]):
        language = languages[turn % len(languages)]
        if language != "kn":  # num2words' Kannada is not in NFC
            assert source == num2words(int(target), lang=language)


def test_spelled_numbers_to_words_reverses_the_pairs():
    made = generate_spelled_numbers(size=500, seed=2, direction="to_words")
    for source, target in made.pairs["train"]:
        language, number = source.split()
        assert target == spell_number(int(number), language)
    assert generate_spelled_numbers(size=500, seed=2, direction="to_words") == made


def test_spelled_numbers_held_out_are_in_no_training_pair():
    found = {split: {target for _, target in MADE.pairs[split]} for split in SPLIT_NAMES}
    assert all(found.values())
    for split in SPLIT_NAMES:
        assert {hash_split(number) for number in found[split]} == {split}
    assert not found["train"] & (found["dev"] | found["test"])


def test_spelled_numbers_sources_are_distinct():
    sources = [source for split in SPLIT_NAMES for source, _ in MADE.pairs[split]]
    assert len(set(sources)) == len(sources) == 6_000


def test_spelled_numbers_are_deterministic():
    assert generate_spelled_numbers(size=2_000, seed=2) == MADE
    assert generate_spelled_numbers(size=2_000, seed=4).pairs != MADE.pairs


def test_spelled_numbers_reject_unknown_languages_and_directions():
    with pytest.raises(ConfigError, match="no language of numbers 'frr'. Did you mean 'fr'"):
        spell_number(3, "frr")
    with pytest.raises(ConfigError, match="'to_word'. Did you mean 'to_words'"):
        generate_spelled_numbers(direction="to_word")
