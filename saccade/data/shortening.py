"""Texts that are too long for a model, cut where it can still read them."""

from saccade.data.tokenizers import Tokenizer, normalise

WIDE = 32  # letters of a token, so many at most that a text of millions need not be cut up


def shortened(text: str, tokenizer: Tokenizer, longest: int) -> str:
    """The text, or the longest beginning of it that has no more than `longest` tokens.

    Of a text that is much too long only `WIDE` letters for each token are looked at, whatever the
    length of the rest.
    """
    beginning = text[: longest * WIDE]
    # no token is less than a byte, so that most texts need not be counted
    if len(beginning) == len(text) and len(normalise(text).encode()) <= longest:
        return text
    if len(tokenizer.encode(beginning)) <= longest:
        return beginning
    fits, over = 0, len(beginning)
    while over - fits > 1:
        middle = (fits + over) // 2
        if len(tokenizer.encode(beginning[:middle])) <= longest:
            fits = middle
        else:
            over = middle
    return beginning[:fits]
