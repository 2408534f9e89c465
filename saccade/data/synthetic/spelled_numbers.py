"""The synthetic set `numbers`: numbers spelt out in 39 languages (num2words) → digits.

The languages are those in which num2words spells every number from 0 to 9999, and no two alike.
Left out are Amharic (num2words raises an error), Telugu (stray spaces) and the regional variants,
which hardly differ. Spellings are in Unicode's NFC.
"""

from collections.abc import Callable
from functools import cache
from unicodedata import normalize

from num2words import num2words

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

SPELLED_NUMBERS_DESCRIPTION = (
    "numbers spelt out in 39 languages → digits: 'trois cent quarante-deux' → '342'"
)

_LANGUAGES = (
    "ar az be bn ca cs cy da de en eo es fa fi fr he hu id is it ja kn ko lt lv "
    "nl no pl pt ro ru sk sl sr sv th tr uk vi"
).split()
_KNOWN = dict.fromkeys(_LANGUAGES)
_NUMBER_COUNT = 10_000


def number_languages() -> list[str]:
    """Return the languages, by num2words' codes."""
    return list(_LANGUAGES)


@cache
def spell_number(number: int, language: str) -> str:
    """Return a number in words: `spell_number(342, "fr")` is 'trois cent quarante-deux'."""
    # num2words would fall back to the first two letters of an unknown language
    lookup(_KNOWN, language, "language of numbers")
    return normalize("NFC", num2words(number, lang=language))


def generate_spelled_numbers(
    size: int = 40_000,
    seed: int = 1,
    direction: str = "to_digits",
    on_progress: ProgressCallback | None = None,
) -> SyntheticPairs:
    """Return numbers in words → digits; with `direction="to_words"`, 'fr 342' → the words.

    The languages alternate, the number is random from 0 to 9999; a held-out number is in no
    training pair, in any language.
    """
    pair = lookup(_DIRECTIONS, direction, "direction of numbers")
    draws = {split: _draw(split, seed, pair) for split in SPLIT_NAMES}
    notes = [f"{len(_LANGUAGES)} languages, 0 to {_NUMBER_COUNT - 1}."]
    return generate_pairs(
        "numbers", SPELLED_NUMBERS_DESCRIPTION, draws, size, 2_000, notes, on_progress
    )


def _to_digits(number: int, language: str) -> TextPair:
    return spell_number(number, language), str(number)


def _to_words(number: int, language: str) -> TextPair:
    return f"{language} {number}", spell_number(number, language)


_DIRECTIONS = {"to_digits": _to_digits, "to_words": _to_words}


def _draw(split: str, seed: int, pair: Callable[[int, str], TextPair]) -> PairSampler:
    numbers = [number for number in range(_NUMBER_COUNT) if hash_split(str(number)) == split]
    random = uniform_stream(seed, f"numbers/{split}")

    def draw(index: int) -> TextPair:
        language = _LANGUAGES[index % len(_LANGUAGES)]
        return pair(numbers[int(next(random) * len(numbers))], language)

    return draw
