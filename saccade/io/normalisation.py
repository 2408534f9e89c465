"""Unicode normal forms in time linear in the text.

`unicodedata.normalize` puts the combining marks after a letter in canonical order by insertion,
which takes n² steps for n marks: minutes for a megabyte of them. Canonical order is that of a
stable sort by combining class (Unicode Standard, definition D109), and marks that are in order
already take n steps.
"""

from itertools import groupby
from typing import Literal
from unicodedata import combining, is_normalized, normalize

UnicodeForm = Literal["NFC", "NFD", "NFKC", "NFKD"]
MAX_UNORDERED = 512  # characters that are left to insertion


def normalise_unicode(text: str, form: UnicodeForm = "NFC") -> str:
    """Return the normal form of a text, the same as `unicodedata.normalize` does."""
    if text.isascii():
        return text
    if len(text) > MAX_UNORDERED:
        text = sort_combining(text)
    return text if is_normalized(form, text) else normalize(form, text)


def sort_combining(text: str) -> str:
    """Return an equivalent text with the marks of long sequences in canonical order."""
    parts = []
    for is_combining, characters in groupby(text, lambda character: combining(character) > 0):
        part = "".join(characters)
        if is_combining and len(part) > MAX_UNORDERED:
            decomposed = "".join([normalize("NFD", character) for character in part])
            part = "".join(sorted(decomposed, key=combining))
        parts.append(part)
    return "".join(parts)
