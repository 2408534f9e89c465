"""Vocabularies: tokens and their ids.

The first four ids are special tokens that no text can contain: "</s>" or "<pad>" in a user's text
is an ordinary token or an unknown one, never a special token.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

PAD, BOS, EOS, UNK = range(4)
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")  # for display; never searched for in text


def unknown_token_note(name: str, *ids: NDArray[Any]) -> list[str]:
    """Return a note on the share of unknown tokens of a text; empty if there are none."""
    share = sum(int((row == UNK).sum()) for row in ids) / max(1, sum(map(len, ids)))
    if not share:
        return []
    return [f"{share:.1%} of the tokens of {name} are not in the vocabulary and become <unk>."]


class Vocabulary:
    """A list of distinct tokens; the first has the id 4, after the four special tokens."""

    def __init__(self, tokens: Sequence[str]):
        self.tokens = tuple(tokens)
        self._ids = {token: id for id, token in enumerate(self.tokens, start=len(SPECIAL_TOKENS))}
        if len(self._ids) != len(self.tokens):
            repeated = [token for token, times in Counter(self.tokens).items() if times > 1]
            raise ValueError(f"got the token {repeated[0]!r} twice; expected distinct tokens.")

    @classmethod
    def from_counts(
        cls, tokens: Iterable[str], min_count: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """Return the vocabulary of the `max_size` most frequent tokens, sorted by frequency.

        Tokens with fewer than `min_count` occurrences are left out. A `Counter` is taken as counts.
        Equal counts are ordered by code point, so that the same text gives the same ids.
        """
        counts = Counter(tokens)
        kept = [token for token, times in counts.items() if times >= min_count]
        kept.sort(key=lambda token: (-counts[token], token))
        return cls(kept[:max_size])

    def __len__(self) -> int:
        """Return the number of ids, including the special tokens."""
        return len(SPECIAL_TOKENS) + len(self.tokens)

    def id_of(self, token: str) -> int:
        """Return the id of a token, or UNK."""
        return self._ids.get(token, UNK)

    def ids_of(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of tokens; unknown ones are UNK."""
        get = self._ids.get
        return [get(token, UNK) for token in tokens]

    def token_of(self, id: int) -> str:
        """Return the token of an id; for a special token, its display name."""
        if not 0 <= id < len(self):
            raise ValueError(f"got token id {id}; expected 0 to {len(self) - 1}.")
        return (
            SPECIAL_TOKENS[id]
            if id < len(SPECIAL_TOKENS)
            else self.tokens[id - len(SPECIAL_TOKENS)]
        )
