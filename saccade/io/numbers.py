"""Parsing of numbers in text files."""

from math import inf, isfinite


def is_number(text: str, limit: float = inf) -> bool:
    """Return True if the text is a finite number of at most `limit` in magnitude.

    Python's digit separators (1_000) are not accepted: in a data file they are a mistake.
    """
    try:
        value = float(text)
    except ValueError:
        return False
    return isfinite(value) and abs(value) <= limit and "_" not in text
