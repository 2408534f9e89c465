"""Numbers spelt out in many languages, and in digits: `numbers`, with num2words.

The languages are those in which num2words spells every number from 0 to 9999, each number
differently. Left out are Amharic (it raises an error), Telugu (stray spaces) and the regional
variants, which hardly differ. Spellings are in Unicode's NFC.
"""

from collections.abc import Callable
from functools import cache
from unicodedata import normalize

from num2words import num2words

from saccade.data.made import SPLITS, Draw, Made, Pair, Progress, fractions, make, side_of
from saccade.lookup import pick

ABOUT = "numbers spelt out in 39 languages → digits: 'trois cent quarante-deux' → '342'"

_LANGUAGES = (
    "ar az be bn ca cs cy da de en eo es fa fi fr he hu id is it ja kn ko lt lv "
    "nl no pl pt ro ru sk sl sr sv th tr uk vi"
).split()
_KNOWN = dict.fromkeys(_LANGUAGES)
_NUMBERS = 10_000


def number_languages() -> list[str]:
    """The languages that numbers are spelt in, by num2words' codes."""
    return list(_LANGUAGES)


@cache
def spell(number: int, language: str) -> str:
    """The number in words: `spell(342, "fr")` is 'trois cent quarante-deux'."""
    # num2words would fall back on the first two letters of a language it does not know
    pick(_KNOWN, language, "language of numbers")
    return normalize("NFC", num2words(number, lang=language))


def numbers(
    size: int = 40_000,
    seed: int = 1,
    direction: str = "to_digits",
    progress: Progress | None = None,
) -> Made:
    """Numbers in words → digits; with `direction="to_words"`, 'fr 342' → the words.

    The languages take turns, the number is drawn from 0 to 9999; a held-out number is in no
    training pair, in any language.
    """
    pair = pick(_DIRECTIONS, direction, "direction of numbers")
    draws = {split: _draw(split, seed, pair) for split in SPLITS}
    notes = [f"{len(_LANGUAGES)} languages, 0 to {_NUMBERS - 1}."]
    return make("numbers", ABOUT, draws, size, 2_000, notes, progress)


def _to_digits(number: int, language: str) -> Pair:
    return spell(number, language), str(number)


def _to_words(number: int, language: str) -> Pair:
    return f"{language} {number}", spell(number, language)


_DIRECTIONS = {"to_digits": _to_digits, "to_words": _to_words}


def _draw(split: str, seed: int, pair: Callable[[int, str], Pair]) -> Draw:
    numbers = [number for number in range(_NUMBERS) if side_of(str(number)) == split]
    random = fractions(seed, f"numbers/{split}")

    def draw(turn: int) -> Pair:
        language = _LANGUAGES[turn % len(_LANGUAGES)]
        return pair(numbers[int(next(random) * len(numbers))], language)

    return draw
