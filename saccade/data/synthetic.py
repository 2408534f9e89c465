"""Data that is always there: made on the spot, with no network and no files.

`SYNTHETIC` names every kind, `ABOUT` has a line about each. How they are drawn is in
`saccade.data.made`; `reverse` and `copy`, the smallest tasks on which attention can be seen to
work, are here.
"""

from collections.abc import Callable
from string import ascii_lowercase

from saccade.data.dates import ABOUT as ABOUT_DATES
from saccade.data.dates import dates
from saccade.data.made import SPLITS, Draw, Made, Pair, Progress, fractions, make, side_of
from saccade.data.numerals import ABOUT as ABOUT_NUMBERS
from saccade.data.numerals import numbers
from saccade.errors import ConfigError

ABOUT = {
    "dates": ABOUT_DATES,
    "numbers": ABOUT_NUMBERS,
    "reverse": "short words of made-up letters, backwards: 'acb' → 'bca'",
    "copy": "short words of made-up letters, as they are: 'acb' → 'acb'",
}

_TRIES = 20  # words in one draw: one in twenty falls on a held-out side


def reverse(
    symbols: int = 8,
    longest: int = 6,
    size: int = 20_000,
    seed: int = 1,
    progress: Progress | None = None,
) -> Made:
    """Letters → the same letters backwards. A model without attention finds the far end hard."""
    return _letters("reverse", lambda word: word[::-1], symbols, longest, size, seed, progress)


def copy(
    symbols: int = 8,
    longest: int = 6,
    size: int = 20_000,
    seed: int = 1,
    progress: Progress | None = None,
) -> Made:
    """Letters → the same letters: the attention map of a good model is the diagonal."""
    return _letters("copy", lambda word: word, symbols, longest, size, seed, progress)


def _letters(
    name: str,
    answer: Callable[[str], str],
    symbols: int,
    longest: int,
    size: int,
    seed: int,
    progress: Progress | None,
) -> Made:
    if not 1 <= symbols <= len(ascii_lowercase):
        raise ConfigError(f"{name}: symbols is {symbols}; choose from 1 to {len(ascii_lowercase)}.")
    if longest < 1:
        raise ConfigError(f"{name}: longest is {longest}; the longest word has at least 1 letter.")
    draws = {split: _draw(name, answer, symbols, longest, split, seed) for split in SPLITS}
    possible = sum(symbols**length for length in range(1, longest + 1))
    notes = [f"{possible} words of 1 to {longest} letters out of {symbols} are possible."]
    return make(name, ABOUT[name], draws, size, 500, notes, progress)


def _draw(
    name: str, answer: Callable[[str], str], symbols: int, longest: int, split: str, seed: int
) -> Draw:
    random = fractions(seed, f"{name}/{split}")
    seen: set[str] = set()

    def draw(turn: int) -> Pair | None:
        for _ in range(_TRIES):
            # all lengths alike: drawn from all words alike, seven in eight would have the greatest
            length = 1 + int(next(random) * longest)
            word = "".join([ascii_lowercase[int(next(random) * symbols)] for _ in range(length)])
            if word in seen:
                continue
            seen.add(word)
            if side_of(word) == split:
                return word, answer(word)
        return None

    return draw


SYNTHETIC: dict[str, Callable[..., Made]] = {
    "dates": dates,
    "numbers": numbers,
    "reverse": reverse,
    "copy": copy,
}
