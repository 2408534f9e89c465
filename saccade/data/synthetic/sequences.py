"""Data that is always there: made on the spot, with no network and no files.

`SYNTHETIC` names every kind, `ABOUT` has a line about each. How they are drawn is in
`saccade.data.synthetic.base`; `reverse` and `copy`, the smallest tasks on which attention can be seen to
work, are here.
"""

from collections.abc import Callable
from string import ascii_lowercase

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
from saccade.data.synthetic.dates import DATES_DESCRIPTION as ABOUT_DATES
from saccade.data.synthetic.dates import generate_dates
from saccade.data.synthetic.spelled_numbers import SPELLED_NUMBERS_DESCRIPTION as ABOUT_NUMBERS
from saccade.data.synthetic.spelled_numbers import generate_spelled_numbers
from saccade.errors import ConfigError

SYNTHETIC_DESCRIPTIONS = {
    "dates": ABOUT_DATES,
    "numbers": ABOUT_NUMBERS,
    "reverse": "short words of made-up letters, backwards: 'acb' → 'bca'",
    "copy": "short words of made-up letters, as they are: 'acb' → 'acb'",
}

_TRIES = 20  # words in one draw: one in twenty falls on a held-out side


def generate_reverse(
    symbols: int = 8,
    max_length: int = 6,
    size: int = 20_000,
    seed: int = 1,
    on_progress: ProgressCallback | None = None,
) -> SyntheticPairs:
    """Letters → the same letters backwards. A model without attention finds the far end hard."""
    return _letters(
        "reverse", lambda word: word[::-1], symbols, max_length, size, seed, on_progress
    )


def generate_copy(
    symbols: int = 8,
    max_length: int = 6,
    size: int = 20_000,
    seed: int = 1,
    on_progress: ProgressCallback | None = None,
) -> SyntheticPairs:
    """Letters → the same letters: the attention map of a good model is the diagonal."""
    return _letters("copy", lambda word: word, symbols, max_length, size, seed, on_progress)


def _letters(
    name: str,
    answer: Callable[[str], str],
    symbols: int,
    max_length: int,
    size: int,
    seed: int,
    on_progress: ProgressCallback | None,
) -> SyntheticPairs:
    if not 1 <= symbols <= len(ascii_lowercase):
        raise ConfigError(f"{name}: symbols is {symbols}; choose from 1 to {len(ascii_lowercase)}.")
    if max_length < 1:
        raise ConfigError(
            f"{name}: longest is {max_length}; the longest word has at least 1 letter."
        )
    draws = {split: _draw(name, answer, symbols, max_length, split, seed) for split in SPLIT_NAMES}
    possible = sum(symbols**length for length in range(1, max_length + 1))
    notes = [f"{possible} words of 1 to {max_length} letters out of {symbols} are possible."]
    return generate_pairs(name, SYNTHETIC_DESCRIPTIONS[name], draws, size, 500, notes, on_progress)


def _draw(
    name: str, answer: Callable[[str], str], symbols: int, max_length: int, split: str, seed: int
) -> PairSampler:
    random = uniform_stream(seed, f"{name}/{split}")
    seen: set[str] = set()

    def draw(turn: int) -> TextPair | None:
        for _ in range(_TRIES):
            # all lengths alike: drawn from all words alike, seven in eight would have the greatest
            length = 1 + int(next(random) * max_length)
            word = "".join([ascii_lowercase[int(next(random) * symbols)] for _ in range(length)])
            if word in seen:
                continue
            seen.add(word)
            if hash_split(word) == split:
                return word, answer(word)
        return None

    return draw


SYNTHETIC_PAIRS: dict[str, Callable[..., SyntheticPairs]] = {
    "dates": generate_dates,
    "numbers": generate_spelled_numbers,
    "reverse": generate_reverse,
    "copy": generate_copy,
}
