r"""Labelled texts: two columns of any file, "label TAB text", or fastText's "__label__NAME text".

In fastText's format a line may have several labels; in the others too, with commas between them, if
`multi_label` is set. Rows without a text are skipped. With a third column of second texts, a text
is a pair: both with a tab between, and spaces for tabs inside.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from saccade.data.parallel.pairs import excerpt
from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.open import open_records
from saccade.data.records.role_names import TASK_ROLES
from saccade.data.records.roles import AskColumn, RoleChoice, resolve_roles
from saccade.data.synthetic.dates import date_languages, format_cldr_date, normalise_spaces
from saccade.data.task_records import (
    RoleOptions,
    TaskRecords,
    describe_records,
    find_roles,
    given_columns,
)
from saccade.data.text.labels import LABEL_PREFIX, match_prefixed_labels
from saccade.data.text.text_pairs import join_pair
from saccade.errors import DataError
from saccade.io.documents import parse_json
from saccade.io.text_files import read_lines
from saccade.seeding import generator
from saccade.types.arrays import IntArray

MAX_LISTED_LABELS = 8
MIN_JOINED_SHARE = 0.9  # of cells with commas whose parts occur in other cells
MIN_ALONE_SHARE = 0.5  # of cells with commas one of whose parts is the whole of another cell


class LabelledText(NamedTuple):
    """A text and its labels."""

    labels: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class LabelledTexts:
    """Labelled texts of a file or a generator; each iteration reads them from the start."""

    read: Callable[[], Iterator[LabelledText]]
    columns: dict[str, str] = field(default_factory=dict)  # by role; empty: not by columns
    choices: list[RoleChoice] = field(default_factory=list)  # that the settings left open
    notes: list[str] = field(default_factory=list)  # for the user: how the file was read
    records: Records | None = None  # None: not by columns

    def row_numbers(self) -> IntArray:
        """Return the line or row of each text in its file."""
        if self.records is None:
            return np.arange(sum(1 for _ in self)) + 1
        column = self.columns["text"]
        kept = [
            chunk.numbers[[has_text(cell) for cell in chunk.columns[column]]]
            for chunk in self.records.chunks([column])
        ]
        return np.concatenate([np.zeros(0, np.int64), *kept])

    def __iter__(self) -> Iterator[LabelledText]:
        return self.read()


def open_labelled_texts(
    data: str | Path | object,
    config: ReadOptions | None = None,
    multi_label: bool = False,
    is_other: bool = False,
    ask: AskColumn | None = None,
) -> LabelledTexts:
    """Open labelled texts in any format, and find the columns of texts and labels.

    Args:
        data: a path, or an object in memory.
        config: settings of the data; the columns `text` and `label` are inferred if None.
        multi_label: True if a cell may have several labels, with commas between them.
        is_other: True for other data than that of the settings.
        ask: function that asks the user which column has a role.
    """
    config = RoleOptions() if config is None else config
    records = open_records(data, config)
    read_lines = partial(_read_lines, records, multi_label)
    notes = describe_records(records)
    if records.text_source and _has_prefix(records):
        return LabelledTexts(read_lines, notes=notes[:1])
    if not any(given_columns(config, "classify").values()) and _is_label_tab_text(
        records, is_other
    ):
        notes.append(f"{records.name}: the label is before the first tab, the text after it.")
        return LabelledTexts(read_lines, notes=notes)
    opened = find_roles(records, config, "classify", is_other=is_other, ask=ask)
    read_records = partial(_read_records, opened, multi_label)
    return LabelledTexts(read_records, opened.columns, opened.choices, notes, records)


def read_labelled_texts(
    data: str | Path | object, multi_label: bool = False
) -> Iterator[LabelledText]:
    """Yield the labels and the text of each row; `DataError` with the line if one has no label."""
    return iter(open_labelled_texts(data, multi_label=multi_label))


# --- lines ----------------------------------------------------------------------------------------


def _lines(records: Records) -> Iterator[str]:
    assert records.text_source is not None
    return read_lines(records.text_source, records.encoding)


def _has_prefix(records: Records) -> bool:
    """Return True if the first line starts with a label in fastText's format."""
    return next(filter(str.strip, _lines(records)), "").startswith(LABEL_PREFIX)


def _is_label_tab_text(records: Records, is_other: bool) -> bool:
    """Return True for lines without a header in which the label is before the first tab.

    The text may contain tabs, so that lines have different numbers of them.
    """
    if not records.text_source or records.has_header or records.delimiter not in (None, "\t"):
        return False
    tabs = {line.count("\t") for line in islice(filter(str.strip, _lines(records)), 1000)}
    if records.format == "text" or len(records.columns) == 1 or len(tabs) > 1:
        return True
    roles = TASK_ROLES["classify"]
    choices = resolve_roles(records, roles, {}, "classify", is_other=is_other)
    return {choice.role: choice.column for choice in choices}["label"] == records.columns[0]


def _read_lines(records: Records, multi_label: bool) -> Iterator[LabelledText]:
    heads: dict[str, tuple[str, ...]] = {}  # parsed label fields, which repeat
    for number, line in enumerate(_lines(records), 1):
        if not line or line.isspace():
            continue
        if matched := match_prefixed_labels(line):
            head, text = matched[0], line[matched.end() :].rstrip()
        else:
            head, tab, text = line.partition("\t")
            if not tab:
                raise _no_label(records.where(number), line)
        labels = heads.get(head)
        if labels is None:
            labels = heads[head] = _labels(head, multi_label)
            if not all(labels):
                raise _no_label(records.where(number), line)
        yield LabelledText(labels, text)


def _no_label(where: str, line: str) -> DataError:
    return DataError(
        f"{where}: got {excerpt(line)}; expected a label, a tab and a text, "
        f"{LABEL_PREFIX}NAME and a text, or a table with named columns; try --text COLUMN --label "
        "COLUMN."
    )


def _labels(head: str, multi_label: bool) -> tuple[str, ...]:
    if head.startswith(LABEL_PREFIX):
        names = [name.removeprefix(LABEL_PREFIX) for name in head.split()]
    else:
        names = [name.strip() for name in (head.split(",") if multi_label else [head])]
    return tuple(dict.fromkeys(names))


# --- columns --------------------------------------------------------------------------------------


def _read_records(opened: TaskRecords, multi_label: bool) -> Iterator[LabelledText]:
    """Yield the rows that have a text; `DataError` with the row if one has no label."""
    records, text_column, label_column = opened.records, *map(opened.columns.get, ("text", "label"))
    assert text_column is not None and label_column is not None
    heads: dict[str, tuple[str, ...]] = {}
    pair_column = opened.columns.get("pair")
    names = [name for name in (text_column, label_column, pair_column) if name is not None]
    for chunk in records.chunks(names):
        texts = chunk.columns[text_column]
        if pair_column is not None:
            texts = [
                join_pair(*both) for both in zip(texts, chunk.columns[pair_column], strict=True)
            ]
        cells = (texts, chunk.columns[label_column], chunk.numbers.tolist())
        for text, head, number in zip(*cells, strict=True):
            if text is None or not has_text(text):
                continue
            labels = heads.get(head or "")
            if labels is None:
                labels = heads[head or ""] = _parse_labels(head or "", multi_label)
            if not all(labels) or not labels:
                raise DataError(
                    f"{records.where(number)}: got no label in the column {label_column!r} for the "
                    f"text {excerpt(text)}; expected one; fill it in, or remove the row."
                )
            yield LabelledText(labels, text)


def has_text(cell: str | None) -> bool:
    """Return True unless a cell is missing or blank."""
    return bool(cell) and not str(cell).isspace()


def _parse_labels(cell: str, multi_label: bool) -> tuple[str, ...]:
    """Return the labels of a cell: one, several with commas between, or a JSON list."""
    if multi_label and cell.startswith("["):
        with suppress(ValueError):
            return tuple(dict.fromkeys(map(str, parse_json(cell))))
    return _labels(cell, multi_label)


def describe_several_labels(texts: Sequence[LabelledText]) -> str:
    """Return why texts have several labels each; empty if they have one.

    A cell with commas is a list of labels if its parts occur in other cells: "grain,wheat" and
    "wheat", but not "Lyon, France" and "Nice, France".
    """
    counts = Counter(text.labels for text in texts)
    if several := next((labels for labels in counts if len(labels) > 1), None):
        return f"texts have several labels, such as {' and '.join(map(repr, several[:2]))}"
    parts = {cell: _parse_labels(cell, multi_label=True) for [cell] in filter(None, counts)}
    joined = {cell: labels for cell, labels in parts.items() if labels != (cell,)}
    cells_with = Counter(label for labels in parts.values() for label in labels)
    alone = {labels[0] for labels in parts.values() if len(labels) == 1}
    total = repeated = with_alone = 0
    for cell, labels in joined.items():
        size = counts[(cell,)]
        total += size
        repeated += size * all(label and cells_with[label] > 1 for label in labels)
        with_alone += size * any(label in alone for label in labels)
    if (
        len(joined) < 2
        or repeated < MIN_JOINED_SHARE * total
        or with_alone < MIN_ALONE_SHARE * total
    ):
        return ""
    example = max(joined, key=lambda cell: counts[(cell,)])
    return f"{example!r} joins labels that occur in other rows as well"


def check_known_labels(
    texts: Sequence[LabelledText], known: Sequence[str], name: str
) -> dict[str, int]:
    """Return the number of texts of each label that is not among those known.

    Raises:
        DataError: if no text has a known label: such a file has other labels, or other columns.
    """
    labels = frozenset(known)
    counts = Counter(label for text in texts for label in text.labels)
    unknown = {label: count for label, count in counts.most_common() if label not in labels}
    if counts and len(unknown) == len(counts):
        raise DataError(
            f"{name}: got the labels {_list_labels(unknown)}; expected those of the classifier: "
            f"{_list_labels(dict.fromkeys(known, 0))}; try --label COLUMN, or another file."
        )
    return unknown


def _list_labels(labels: Mapping[str, int]) -> str:
    listed = [f"{label[:40]!r}" for label in islice(labels, MAX_LISTED_LABELS)]
    more = len(labels) - len(listed)
    return ", ".join(listed) + (f" and {more:,} more" if more else "")


def generate_dates_by_language(size: int = 20_000, seed: int = 1) -> Iterator[LabelledText]:
    """Yield dates as 46 languages write them, labelled with the language."""
    random, languages = generator(seed, "days and languages"), date_languages()
    first, days = date(1900, 1, 1), 73_049  # up to 2099
    for turn in range(size):
        language = languages[turn % len(languages)]
        day = first + timedelta(days=int(random.integers(days)))
        yield LabelledText((language,), normalise_spaces(format_cldr_date(day, language, "full")))
