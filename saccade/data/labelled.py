r"""Texts with labels: "label TAB text" in each line, or fastText's "__label__NAME text".

In fastText's form a line may have several labels; in the other it may too, with commas between
them, if the reader is told so. Empty lines are left out.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

from saccade.data.dates import as_typed, date_languages, write_date
from saccade.data.files import read_lines
from saccade.data.pairs import excerpt
from saccade.errors import DataError
from saccade.seeding import generator

MARK = "__label__"
_MARKS = re.compile(rf"(?:{MARK}\S*\s*)+").match


class Labelled(NamedTuple):
    """A text and what it is."""

    labels: tuple[str, ...]
    text: str


def read_labelled(path: str | Path, several: bool = False) -> Iterator[Labelled]:
    """Each line of a file, or a `DataError` that says which line has no label."""
    heads: dict[str, tuple[str, ...]] = {}  # what stands before a text is met again and again
    for number, line in enumerate(read_lines(path), 1):
        if not line or line.isspace():
            continue
        if marks := _MARKS(line):
            head, text = marks[0], line[marks.end() :].rstrip()
        else:
            head, tab, text = line.partition("\t")
            if not tab:
                raise _no_label(path, number, line)
        labels = heads.get(head)
        if labels is None:
            labels = heads[head] = _labels(head, several)
            if not all(labels):
                raise _no_label(path, number, line)
        yield Labelled(labels, text)
    if not heads:
        raise DataError(f"{path} holds nothing; a label, a tab and a text were wanted in a line.")


def _labels(head: str, several: bool) -> tuple[str, ...]:
    if head.startswith(MARK):
        names = [mark.removeprefix(MARK) for mark in head.split()]
    else:
        names = [name.strip() for name in (head.split(",") if several else [head])]
    return tuple(dict.fromkeys(names))


def _no_label(path: str | Path, number: int, line: str) -> DataError:
    return DataError(
        f"{path}, line {number}: got {excerpt(line)}; a label, a tab and a text were wanted, or "
        f"{MARK}NAME and a text."
    )


def days_and_languages(size: int = 20_000, seed: int = 1) -> Iterator[Labelled]:
    """Days as 46 languages write them, and the language of each: what is always there to tell."""
    random, languages = generator(seed, "days and languages"), date_languages()
    first, days = date(1900, 1, 1), 73_049  # up to 2099
    for turn in range(size):
        language = languages[turn % len(languages)]
        day = first + timedelta(days=int(random.integers(days)))
        yield Labelled((language,), as_typed(write_date(day, language, "full")))
