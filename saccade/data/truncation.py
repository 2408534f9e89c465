"""Texts that are too long for a model, cut where it can still read them."""

from saccade.data.tokenizers import Tokenizer, normalise

MAX_CHARS_PER_TOKEN = (
    32  # letters of a token, so many at most that a text of millions need not be cut up
)


def truncate_text(text: str, tokenizer: Tokenizer, max_length: int) -> str:
    """The text, or the longest beginning of it that has no more than `longest` tokens.

    Of a text that is much too long only `WIDE` letters for each token are looked at, whatever the
    length of the rest.
    """
    beginning = text[: max_length * MAX_CHARS_PER_TOKEN]
    # no token is less than a byte, so that most texts need not be counted
    if len(beginning) == len(text) and len(normalise(text).encode()) <= max_length:
        return text
    if len(tokenizer.encode(beginning)) <= max_length:
        return beginning
    fits, over = 0, len(beginning)
    while over - fits > 1:
        middle = (fits + over) // 2
        if len(tokenizer.encode(beginning[:middle])) <= max_length:
            fits = middle
        else:
            over = middle
    return beginning[:fits]
