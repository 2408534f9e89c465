"""Registry of the synthetic sets of pairs, and the sets `reverse` and `copy`.

These two are the smallest tasks on which the effect of attention is visible. The sampling is in
`saccade.data.synthetic.base`.
"""

from collections.abc import Callable
from string import ascii_lowercase

from saccade.data.splits import SPLIT_NAMES, hash_split
from saccade.data.synthetic.base import (
    PairSampler,
    SyntheticPairs,
    TextPair,
    generate_pairs,
    uniform_stream,
)
from saccade.data.synthetic.dates import DATES_DESCRIPTION
from saccade.data.synthetic.spelled_numbers import (
    SPELLED_NUMBERS_DESCRIPTION,
)
from saccade.errors import ConfigError
from saccade.types.progress import ProgressCallback

SYNTHETIC_DESCRIPTIONS = {
    "dates": DATES_DESCRIPTION,
    "numbers": SPELLED_NUMBERS_DESCRIPTION,
    "reverse": "random short sequences of letters, reversed: 'acb' → 'bca'",
    "copy": "random short sequences of letters, copied: 'acb' → 'acb'",
}

_TRIES = 20  # words in one draw: one in twenty belongs to each held-out split


def generate_reverse(
    symbols: int = 8,
    max_length: int = 6,
    size: int = 20_000,
    seed: int = 1,
    on_progress: ProgressCallback | None = None,
) -> SyntheticPairs:
    """Return random words → the same letters reversed: hard for a model without attention."""
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
    """Return random words → the same words: the attention map of a good model is the diagonal."""
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
        raise ConfigError(f"{name}: got symbols={symbols}; expected 1 to {len(ascii_lowercase)}.")
    if max_length < 1:
        raise ConfigError(f"{name}: got max_length={max_length}; expected at least 1 letter.")
    draws = {split: _draw(name, answer, symbols, max_length, split, seed) for split in SPLIT_NAMES}
    possible = sum(symbols**length for length in range(1, max_length + 1))
    notes = [f"{possible} words of 1 to {max_length} letters out of {symbols} are possible."]
    return generate_pairs(name, SYNTHETIC_DESCRIPTIONS[name], draws, size, 500, notes, on_progress)


def _draw(
    name: str, answer: Callable[[str], str], symbols: int, max_length: int, split: str, seed: int
) -> PairSampler:
    random = uniform_stream(seed, f"{name}/{split}")
    seen: set[str] = set()

    def draw(index: int) -> TextPair | None:
        for _ in range(_TRIES):
            # uniform over lengths: uniform over words, seven in eight would have the greatest one
            length = 1 + int(next(random) * max_length)
            word = "".join([ascii_lowercase[int(next(random) * symbols)] for _ in range(length)])
            if word in seen:
                continue
            seen.add(word)
            if hash_split(word) == split:
                return word, answer(word)
        return None

    return draw
