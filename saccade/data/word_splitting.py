"""Text to words and back.

Splitting: a word keeps an apostrophe inside it (don't), a number its inner points (3.14, 12:30),
and every other sign is a token of its own. Scripts written without spaces (Chinese, Japanese,
Thai, Lao, Khmer, Burmese, Tibetan) go letter by letter, each with its marks.

Joining: a space between tokens, except before a sign that closes (. , ; : ! ? ) ”), after one
that opens (“ ( ¿), around - and /, and between letters of those scripts or such a letter and a
number (2024年). Splitting what was joined gives the same tokens again.
"""

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any
from unicodedata import category

_JOINERS = "\u200c\u200d"  # they sit inside Persian and Indic words, and inside emoji
_SPACELESS = (
    "\u0e00-\u0fff"  # Thai, Lao, Tibetan
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana and their company
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese
)
_FAR_LETTERS = "\U00010000-\U0001efff"
_FAR_MARKS = "\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef"  # skin colours, variants
_FAR_CHINESE = "\U00020000-\U0003ffff"
_CLOSING = frozenset(".,;:!?)]}%…”’»›。、，；：！？）】》」』〉،؛؟।")
_OPENING = frozenset("([{“‘«‹¿¡„（【《「『〈")
_TIGHT = frozenset("-/‐·")
_WIDE = frozenset("。、，；：！？（）【】《》「」『』〈〉・")  # these bring their own room along


@cache
def _classes() -> tuple[str, str, str]:
    r"""Three classes for a pattern: marks, letters of spaceless scripts, letters of the others.

    Python's `\w` leaves out the marks that Indic and Arabic words cannot do without. Beyond
    U+FFFF whole blocks are taken, since a pattern is slow when it has many far ranges.
    """
    marks: list[int] = []
    spaceless: list[int] = []
    letters: list[int] = []
    alone = re.compile(f"[{_SPACELESS}]").match
    for code in range(0x10000):
        letter = chr(code)
        if category(letter).startswith("M"):
            marks.append(code)
        elif letter == "_" or letter.isalnum():
            (spaceless if alone(letter) and not letter.isdecimal() else letters).append(code)
    return (
        _ranges(marks) + _FAR_MARKS,
        _ranges(spaceless) + _FAR_CHINESE,
        _ranges(letters) + _FAR_LETTERS,
    )


def _ranges(codes: list[int]) -> str:
    starts = [code for code, before in zip(codes, [-2, *codes], strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -2], strict=True) if code != after - 1]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))


@cache
def _splitter() -> Callable[[str], list[str]]:
    marks, spaceless, letters = _classes()
    inside = f"[{letters}{marks}{_JOINERS}]"
    return re.compile(
        r"\d+(?:[.,:]\d+)+"
        rf"|[{spaceless}][{marks}]*"
        rf"|{inside}+(?:['’][{letters}]{inside}*)*"
        r"|[\U0001f1e6-\U0001f1ff]{2}"  # a flag is two letters
        rf"|\S[{marks}]*(?:\u200d\S[{marks}]*)*"  # a family is several people
    ).findall


@cache
def _spaceless() -> Callable[[str], Any]:
    return re.compile(f"[{_classes()[1]}]").match


@cache
def _hanging() -> Callable[[str], Any]:
    return re.compile(f"[{_classes()[0]}{_JOINERS}]").match


def split_words(text: str) -> list[str]:
    """Words, numbers and signs, without the spaces between them."""
    return _splitter()(text)


def join_words(words: Iterable[str]) -> str:
    """The words as one text, with spaces where they usually stand."""
    parts: list[str] = []
    for word in words:
        if parts and not _touch(parts[-1], word):
            parts.append(" ")
        parts.append(word)
    return "".join(parts)


def _touch(left: str, right: str) -> bool:
    # a mark put next to another token would become part of it
    if _hanging()(right) or left[-1] == "\u200d":
        return False
    if right in _CLOSING or left in _OPENING or left in _TIGHT or right in _TIGHT:
        return True
    runs_on = _runs_on(left), _runs_on(right)
    return all(runs_on) or (any(runs_on) and (left[-1].isdecimal() or right[0].isdecimal()))


def _runs_on(word: str) -> bool:
    return word in _WIDE or _spaceless()(word) is not None
