"""Pairs of texts as one text: both with a tab between, and spaces for tabs inside."""

PAIR_SEPARATOR = "\t"


def join_pair(first: str | None, second: str | None) -> str | None:
    """Return the two texts of a pair as one; None if the first is missing."""
    if first is None or not first or first.isspace():
        return None
    return PAIR_SEPARATOR.join(text.replace(PAIR_SEPARATOR, " ") for text in (first, second or ""))
