"""Detection of a header: whether the first row of a delimited file has the names of its columns.

The first row is compared with the rows below it: a name above numbers, a name that is usual for a
column, or short names above long texts are a header; a number above numbers or a cell that occurs
again below it are not. `HeaderChoice.reason` has the evidence.
"""

import re
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from saccade.io.numbers import is_number

MISSING_WORDS = frozenset({"", "?", "-", "na", "n/a", "nan", "null", "none", "nil", "missing"})
MAX_NAME_CHARACTERS = 40
MAX_NAME_WORDS = 4
NUMBER_SHARE = 0.9  # of the cells below a name that are numbers
LONG_TEXT_WORDS, LONG_TEXT_CHARACTERS = 5, 20  # median of the cells below a name, at least

COLUMN_NAMES = frozenset(  # usual names of columns
    """
    abstract address age amount answer author body brand caption categories category city class
    class_index class_name code color colour comment comments content context count country
    created_at currency data date datetime day description dialogue doc document email emotion
    entities feature features feedback file filename first_name gender gold group headline height
    hour hypothesis id idx image income index input instruction intent item item_id key keyword
    label label_text labels lang language last_name lat latitude length level link lon longitude
    lyrics message model month name no number output pair_id paragraph passage path polarity
    prediction premise price product prompt quantity query question quote rank rating reference
    region response result review reviewtext score sentence sentence1 sentence2 sentences sentiment
    sex similarity size source speaker split src stars state status subject summary tag tags target
    text
    text1 text2 texts tgt time timestamp title token tokens topic translation trg tweet type unit
    url user user_id username utterance uuid value weight word words year zip
    arabic chinese czech dutch english finnish french german greek hebrew hindi hungarian italian
    japanese korean polish portuguese romanian russian spanish swedish turkish ukrainian vietnamese
    标签 文本 评论 内容 类别 标题 句子 分类 问题 答案 日期 名称 原文 译文
    """.split()
)

# the last group of digits is matched separately from the others, which keeps the time linear
_NUMBER = re.compile(r"[+-]?[$€£¥]?\s?(?:[\d.,\s]*\s)?[.,]*\d[\d.,]*\s?[%€$£¥]?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
_NAME = re.compile(r"[^\W\d][\w .\-/()%#&:\[\]]*(?<![.:])")
_LANGUAGE_CODE = re.compile(r"[a-z]{2,3}([-_][A-Za-z]{2,4})?")


class HeaderChoice(NamedTuple):
    """Answer whether the first row is a header, and the reason."""

    is_header: bool
    reason: str
    is_evident: bool = True  # False: assumed


def choose_header(rows: Sequence[Sequence[str]], given: bool | None, assume: bool) -> HeaderChoice:
    """Return the choice of the user, or else the one that is detected."""
    return detect_header(rows, assume) if given is None else HeaderChoice(given, "given")


def header_note(choice: HeaderChoice, given: bool | None) -> tuple[str, ...]:
    """Return a note about a header that was detected, with the setting that changes it."""
    if given is not None:
        return ()
    if choice.is_header:
        return (
            f"the first row has the names of the columns ({choice.reason}); if it is data, try "
            "--set data.header=false",
        )
    return (
        f"no header ({choice.reason}); if the first row has the names of the columns, try --set "
        "data.header=true",
    )


def detect_header(rows: Sequence[Sequence[str]], assume: bool) -> HeaderChoice:
    """Decide whether the first row has the names of the columns.

    Args:
        rows: the first rows of a file, all of the same length.
        assume: the answer where there is no evidence, and the first row could be names.
    """
    first = [cell.strip() for cell in rows[0]]
    columns = [[cell.strip() for cell in cells] for cells in zip(*rows[1:], strict=True)]
    known = [cell for cell in first if cell.lower() in COLUMN_NAMES]
    if not columns:
        if 2 * len(known) > len(first):
            return HeaderChoice(True, _usual(known))
        if assume and all(map(_is_name, first)):
            return HeaderChoice(True, "there is only one row, of names", is_evident=False)
        return HeaderChoice(False, "there is only one row", is_evident=False)
    named = [i for i, cell in enumerate(first) if _is_name(cell) and _are_values(columns[i])]
    values = [i for i, cell in enumerate(first) if is_value(cell) and _are_values(columns[i], 0.5)]
    if len(named) > len(values):
        cell = first[named[0]]
        return HeaderChoice(True, f"numbers or dates are below {cell!r}")
    if values:
        cell = first[values[0]]
        return HeaderChoice(False, f"{cell!r} in the first row is a value like those below it")
    return _compare_texts(first, columns, known, assume)


def _compare_texts(
    first: list[str], columns: list[list[str]], known: list[str], assume: bool
) -> HeaderChoice:
    repeated = [cell for cell, below in zip(first, columns, strict=True) if cell and cell in below]
    if repeated and len(repeated) < len(first):
        return HeaderChoice(False, f"{repeated[0]!r} in the first row occurs again below it")
    if 2 * len(known) >= len(first):
        return HeaderChoice(True, _usual(known))
    candidates = first[1:] if not first[0] else first  # an index column has no name
    if not all(map(_is_name, candidates)) or len({*candidates}) < len(candidates):
        return HeaderChoice(False, "the first row has texts that are not names")
    lengths = [median(map(len, below)) for below in columns]
    if all(map(_LANGUAGE_CODE.fullmatch, first)) and min(lengths) > LONG_TEXT_WORDS:
        return HeaderChoice(True, f"{', '.join(map(repr, first))} are language codes")
    for cell, below, length in zip(first, columns, lengths, strict=True):
        words = median(len(text.split()) for text in below)
        is_long = words >= LONG_TEXT_WORDS or length >= LONG_TEXT_CHARACTERS
        if cell and is_long and length >= 3 * len(cell):
            return HeaderChoice(True, f"long texts are below {cell!r}")
    answer = "assumed for a .csv file" if assume else "nothing in it differs from the rows below"
    return HeaderChoice(assume, answer, is_evident=False)


def _usual(names: list[str]) -> str:
    verb = "is a usual name of a column" if len(names) == 1 else "are usual names of columns"
    return f"{', '.join(map(repr, names[:3]))} {verb}"


def is_value(cell: str) -> bool:
    """Return True for a number, an amount or a date."""
    return is_number(cell) or bool(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell))


def _are_values(cells: list[str], share: float = NUMBER_SHARE) -> bool:
    present = [cell for cell in cells if cell.lower() not in MISSING_WORDS]
    return bool(present) and sum(map(is_value, present)) >= share * len(present)


def _is_name(cell: str) -> bool:
    return (
        cell.lower() not in MISSING_WORDS
        and len(cell) <= MAX_NAME_CHARACTERS
        and len(cell.split()) <= MAX_NAME_WORDS
        and bool(_NAME.fullmatch(cell))
    )
