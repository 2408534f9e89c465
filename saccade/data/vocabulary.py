"""Tokens and their numbers.

The first four numbers are marks that no text can contain: whatever a user writes, "</s>" and
"<pad>" included, is an ordinary token or an unknown one, never a mark.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

PAD, BOS, EOS, UNK = range(4)
SPECIAL_TOKENS = (
    "<pad>",
    "<s>",
    "</s>",
    "<unk>",
)  # how the marks are shown; never looked for in text


def unknown_token_note(name: str, *ids: NDArray[Any]) -> list[str]:
    """What a reader should know of a text that meets a vocabulary learned from another."""
    share = sum(int((some == UNK).sum()) for some in ids) / max(1, sum(map(len, ids)))
    if not share:
        return []
    return [f"{share:.1%} of the tokens of {name} are not in the vocabulary: they are all one."]


class Vocabulary:
    """A list of distinct tokens; the first has the number 4, after the four marks."""

    def __init__(self, tokens: Sequence[str]):
        self.tokens = tuple(tokens)
        self._ids = {token: id for id, token in enumerate(self.tokens, start=len(SPECIAL_TOKENS))}
        if len(self._ids) != len(self.tokens):
            twice = [token for token, times in Counter(self.tokens).items() if times > 1]
            raise ValueError(f"The token {twice[0]!r} is listed twice; each must be there once.")

    @classmethod
    def from_counts(
        cls, tokens: Iterable[str], min_count: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """The tokens that occur `at_least` times, the most frequent first, `at_most` of them.

        A `Counter` is taken as the counts it holds. Equal counts are ordered by code point, so
        that the same text gives the same numbers.
        """
        counts = Counter(tokens)
        kept = [token for token, times in counts.items() if times >= min_count]
        kept.sort(key=lambda token: (-counts[token], token))
        return cls(kept[:max_size])

    def __len__(self) -> int:
        """How many numbers there are, the marks included."""
        return len(SPECIAL_TOKENS) + len(self.tokens)

    def id_of(self, token: str) -> int:
        """The token's number, or UNKNOWN."""
        return self._ids.get(token, UNK)

    def ids_of(self, tokens: Iterable[str]) -> list[int]:
        """`id_of` for each of them, as fast as it goes."""
        get = self._ids.get
        return [get(token, UNK) for token in tokens]

    def token_of(self, id: int) -> str:
        """The token with that number; for a mark, the name it is shown by."""
        if not 0 <= id < len(self):
            raise ValueError(f"There is no token {id}; there are 0 to {len(self) - 1}.")
        return (
            SPECIAL_TOKENS[id]
            if id < len(SPECIAL_TOKENS)
            else self.tokens[id - len(SPECIAL_TOKENS)]
        )
