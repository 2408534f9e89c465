r"""Labelled texts: "label TAB text" in each line, or fastText's "__label__NAME text".

In fastText's format a line may have several labels; in the other too, with commas between them, if
`multi_label` is set. Empty lines are skipped.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

from saccade.data.parallel.pairs import excerpt
from saccade.data.synthetic.dates import date_languages, format_cldr_date, normalise_spaces
from saccade.errors import DataError
from saccade.io.text_files import read_lines
from saccade.seeding import generator

LABEL_PREFIX = "__label__"
_LABELS = re.compile(rf"(?:{LABEL_PREFIX}\S*\s*)+").match


class LabelledText(NamedTuple):
    """A text and its labels."""

    labels: tuple[str, ...]
    text: str


def read_labelled_texts(path: str | Path, multi_label: bool = False) -> Iterator[LabelledText]:
    """Yield the labels and text of each line; `DataError` with the line if one has no label."""
    heads: dict[str, tuple[str, ...]] = {}  # parsed label fields, which repeat
    for number, line in enumerate(read_lines(path), 1):
        if not line or line.isspace():
            continue
        if matched := _LABELS(line):
            head, text = matched[0], line[matched.end() :].rstrip()
        else:
            head, tab, text = line.partition("\t")
            if not tab:
                raise _no_label(path, number, line)
        labels = heads.get(head)
        if labels is None:
            labels = heads[head] = _labels(head, multi_label)
            if not all(labels):
                raise _no_label(path, number, line)
        yield LabelledText(labels, text)
    if not heads:
        raise DataError(
            f"{path}: got an empty file; expected a label, a tab and a text in each line."
        )


def _labels(head: str, multi_label: bool) -> tuple[str, ...]:
    if head.startswith(LABEL_PREFIX):
        names = [name.removeprefix(LABEL_PREFIX) for name in head.split()]
    else:
        names = [name.strip() for name in (head.split(",") if multi_label else [head])]
    return tuple(dict.fromkeys(names))


def _no_label(path: str | Path, number: int, line: str) -> DataError:
    return DataError(
        f"{path}, line {number}: got {excerpt(line)}; expected a label, a tab and a text, or "
        f"{LABEL_PREFIX}NAME and a text."
    )


def generate_dates_by_language(size: int = 20_000, seed: int = 1) -> Iterator[LabelledText]:
    """Yield dates as 46 languages write them, labelled with the language."""
    random, languages = generator(seed, "days and languages"), date_languages()
    first, days = date(1900, 1, 1), 73_049  # up to 2099
    for turn in range(size):
        language = languages[turn % len(languages)]
        day = first + timedelta(days=int(random.integers(days)))
        yield LabelledText((language,), normalise_spaces(format_cldr_date(day, language, "full")))
