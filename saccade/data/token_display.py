"""Readable strings for tokens, for plots."""

from collections.abc import Iterable

from saccade.data.special_tokens import UNK_SYMBOL

SPECIAL_SYMBOLS = ("∅", "▷", "⏎", UNK_SYMBOL)  # display of the four special tokens


def decode_characters(content: bytes) -> Iterable[tuple[str, int]]:
    """Yield each character and its number of bytes; an invalid byte in hexadecimal."""
    for letter in content.decode("utf-8", "surrogateescape"):
        if "\udc80" <= letter <= "\udcff":
            yield f"⟨{ord(letter) - 0xDC00:02x}⟩", 1
        else:
            yield letter, len(letter.encode())


def make_visible(piece: str) -> str:
    """Replace spaces and control characters by visible ones (␣ ␉), for plots."""
    visible = "".join(map(_visible_character, piece))
    if any(map(str.isprintable, visible)):
        return visible
    return "".join(f"⟨{ord(letter):04x}⟩" for letter in visible)


def _visible_character(letter: str) -> str:
    if letter < " ":
        return chr(0x2400 + ord(letter))
    if letter == "\x7f":
        return "␡"
    return "␣" if letter.isspace() else letter
