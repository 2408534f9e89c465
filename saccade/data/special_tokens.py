"""Special tokens: the first four ids of every vocabulary.

No text can contain them: "</s>" or "<pad>" in a user's text is an ordinary token or an unknown one,
never a special token.
"""

from typing import Any

from numpy.typing import NDArray

PAD, BOS, EOS, UNK = range(4)
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")  # names; never searched for in text
UNK_SYMBOL = "�"  # display of an unknown token


def unknown_token_note(name: str, *ids: NDArray[Any]) -> list[str]:
    """Return a note on the share of unknown tokens of a text; empty if there are none."""
    share = sum(int((row == UNK).sum()) for row in ids) / max(1, sum(map(len, ids)))
    if not share:
        return []
    return [f"{share:.1%} of the tokens of {name} are not in the vocabulary and become <unk>."]
