"""Rule-based word tokenization and detokenization.

Splitting: a word keeps an apostrophe inside it (don't), a number its inner punctuation (3.14,
12:30), and every other symbol is a token of its own. Scripts written without spaces (Chinese,
Japanese, Thai, Lao, Khmer, Burmese, Tibetan) are split into characters, each with its combining
marks.

Joining: a space between tokens, except before closing punctuation (. , ; : ! ? ) ”), after opening
punctuation (“ ( ¿), around - and /, and between characters of those scripts or such a character and
a number (2024年). Splitting the joined text gives the same tokens again.
"""

import logging
import re
import warnings
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Any
from unicodedata import category

from saccade.errors import MissingPackageError

_JOINERS = "\u200c\u200d"  # occur inside Persian and Indic words, and inside emoji
_SPACELESS = (
    "\u0e00-\u0fff"  # Thai, Lao, Tibetan
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana and related symbols
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Chinese
)
_HAN_RUN = re.compile(
    "[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_BETWEEN_SPACES = re.compile(r"\S+")
_FAR_LETTERS = "\U00010000-\U0001efff"
_FAR_COMBINING = "\U0001f3fb-\U0001f3ff\U000e0100-\U000e01ef"  # skin tones, variation selectors
_FAR_CHINESE = "\U00020000-\U0003ffff"
_CLOSING = frozenset(".,;:!?)]}%…”’»›。、，；：！？）】》」』〉،؛؟।")
_OPENING = frozenset("([{“‘«‹¿¡„（【《「『〈")
_TIGHT = frozenset("-/‐·")
_WIDE = frozenset(
    "。、，；：！？（）【】《》「」『』〈〉・"
)  # full-width: they include their own space


@cache
def _classes() -> tuple[str, str, str]:
    r"""Return regex classes: combining marks, letters of spaceless scripts, all other letters.

    Python's `\w` leaves out the combining marks of Indic and Arabic words. Beyond U+FFFF whole
    blocks are taken, since a pattern with many ranges there is slow.
    """
    combining: list[int] = []
    spaceless: list[int] = []
    letters: list[int] = []
    is_spaceless = re.compile(f"[{_SPACELESS}]").match
    for code in range(0x10000):
        letter = chr(code)
        if category(letter).startswith("M"):
            combining.append(code)
        elif letter == "_" or letter.isalnum():
            (spaceless if is_spaceless(letter) and not letter.isdecimal() else letters).append(code)
    return (
        _ranges(combining) + _FAR_COMBINING,
        _ranges(spaceless) + _FAR_CHINESE,
        _ranges(letters) + _FAR_LETTERS,
    )


def _ranges(codes: list[int]) -> str:
    starts = [code for code, before in zip(codes, [-2, *codes], strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -2], strict=True) if code != after - 1]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))


@cache
def _word_pattern() -> re.Pattern[str]:
    combining, spaceless, letters = _classes()
    inside = f"[{letters}{combining}{_JOINERS}]"
    return re.compile(
        r"\d+(?:[.,:]\d+)+"
        rf"|[{spaceless}][{combining}]*"
        rf"|{inside}+(?:['’][{letters}]{inside}*)*"
        r"|[\U0001f1e6-\U0001f1ff]{2}"  # a flag emoji is two regional indicators
        rf"|\S[{combining}]*(?:\u200d\S[{combining}]*)*"  # emoji joined by U+200D
    )


@cache
def _spaceless() -> Callable[[str], Any]:
    return re.compile(f"[{_classes()[1]}]").match


@cache
def _is_combining() -> Callable[[str], Any]:
    return re.compile(f"[{_classes()[0]}{_JOINERS}]").match


def split_words(text: str) -> list[str]:
    """Return the words, numbers and symbols of a text, without the spaces between them."""
    return _word_pattern().findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each word that `split_words` returns."""
    return [match.span() for match in _word_pattern().finditer(text)]


def segmented_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of words, with Chinese segmented into words by jieba (an extra)."""
    spans, at = [], 0
    for run in _HAN_RUN.finditer(text):
        start, end = run.span()
        spans += [(at + a, at + b) for a, b in word_spans(text[at:start])]
        spans += [(start + a, start + b) for a, b in _segments(run.group())]
        at = end
    return spans + [(at + a, at + b) for a, b in word_spans(text[at:])]


def split_segmented(text: str) -> list[str]:
    """Return the words of `segmented_spans`."""
    return [text[start:end] for start, end in segmented_spans(text)]


@lru_cache(maxsize=1 << 17)  # texts are read several times while settings are chosen
def _segments(run: str) -> list[tuple[int, int]]:
    """Return the spans of the words of a run of Chinese characters."""
    return [(start, end) for _, start, end in _jieba().tokenize(run)]


@cache
def _jieba() -> Any:
    with warnings.catch_warnings():  # of its own source
        warnings.simplefilter("ignore")
        try:
            import jieba  # type: ignore[import-untyped]
        except ImportError:
            raise MissingPackageError(
                "data.split=jieba segments Chinese with jieba, which is not installed: pip install "
                "'saccade[chinese]'. Without it (data.split=words) each character is a word."
            ) from None
    jieba.setLogLevel(logging.WARNING)
    return jieba


def _spans_between_spaces(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in _BETWEEN_SPACES.finditer(text)]


# by the setting data.split
SPLITTERS: dict[str, Callable[[str], list[str]]] = {
    "jieba": split_segmented,
    "whitespace": str.split,
    "words": split_words,
}
SPAN_SPLITTERS: dict[str, Callable[[str], list[tuple[int, int]]]] = {
    "jieba": segmented_spans,
    "whitespace": _spans_between_spaces,
    "words": word_spans,
}


def is_unspaced(text: str) -> bool:
    """True if most letters are of scripts without spaces between words (Chinese, Thai, …).

    `split_words` returns characters for such a text.
    """
    letters = [letter for letter in text if letter.isalpha()]
    return 2 * sum(_spaceless()(letter) is not None for letter in letters) > len(letters)


def join_words(words: Iterable[str]) -> str:
    """Return the words as one text, with spaces where they are usual."""
    parts: list[str] = []
    for word in words:
        if parts and not _no_space_between(parts[-1], word):
            parts.append(" ")
        parts.append(word)
    return "".join(parts)


def _no_space_between(left: str, right: str) -> bool:
    # a combining mark next to another token would become part of it
    if _is_combining()(right) or left[-1] == "\u200d":
        return False
    if right in _CLOSING or left in _OPENING or left in _TIGHT or right in _TIGHT:
        return True
    spaceless = _needs_no_space(left), _needs_no_space(right)
    return all(spaceless) or (any(spaceless) and (left[-1].isdecimal() or right[0].isdecimal()))


def _needs_no_space(word: str) -> bool:
    return word in _WIDE or _spaceless()(word) is not None
