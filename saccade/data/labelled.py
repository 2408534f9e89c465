r"""Texts with labels: "label TAB text" in each line, or fastText's "__label__NAME text".

In fastText's form a line may have several labels; in the other it may too, with commas between
them, if the reader is told so. Empty lines are left out.
"""

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


class Labelled(NamedTuple):
    """A text and what it is."""

    labels: tuple[str, ...]
    text: str


def read_labelled(path: str | Path, several: bool = False) -> Iterator[Labelled]:
    """Each line of a file, or a `DataError` that says which line has no label."""
    some = False
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        some = True
        if line.startswith(MARK):
            yield _marked(line)
            continue
        label, tab, text = line.partition("\t")
        labels = [one.strip() for one in (label.split(",") if several else [label])]
        if not tab or not all(labels):
            raise DataError(
                f"{path}, line {number}: got {excerpt(line)}; a label, a tab and a text were "
                f"wanted, or {MARK}NAME and a text."
            )
        yield Labelled(tuple(dict.fromkeys(labels)), text)
    if not some:
        raise DataError(f"{path} holds nothing; a label, a tab and a text were wanted in a line.")


def _marked(line: str) -> Labelled:
    labels: dict[str, None] = {}
    while line.startswith(MARK):
        label, *rest = line.split(None, 1)  # and not all of the words: lines are long
        labels[label.removeprefix(MARK)] = None
        line = rest[0] if rest else ""
    return Labelled(tuple(labels), line.rstrip())


def days_and_languages(size: int = 20_000, seed: int = 1) -> Iterator[Labelled]:
    """Days as 46 languages write them, and the language of each: what is always there to tell."""
    random, languages = generator(seed, "days and languages"), date_languages()
    first, days = date(1900, 1, 1), 73_049  # up to 2099
    for turn in range(size):
        language = languages[turn % len(languages)]
        day = first + timedelta(days=int(random.integers(days)))
        yield Labelled((language,), as_typed(write_date(day, language, "full")))
