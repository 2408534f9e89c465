"""Profiles of columns: kind, missing and distinct values, lengths, script, class balance.

A profile is computed chunk by chunk in constant memory, from a sample or from a whole file. The
number of distinct values is exact up to 65,536, then estimated (`saccade.data.records.sketches`).

    kind      cells
    empty     no value
    constant  one value in two rows or more
    boolean   two values such as 0 and 1, true and false, yes and no
    date      ISO 8601 and the usual forms (5.3.2024, 3/5/24, March 5, 2024, 12:30)
    id        nearly unique: UUIDs, codes of one shape, addresses, integers in a column named so
    integer   integers; a few of them may be codes of classes
    number    numbers
    category  words that repeat
    text      words that hardly repeat, or long ones
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from saccade.data.hashing import HashArray
from saccade.data.records.base import Cells, RecordChunk
from saccade.data.records.cell_forms import (
    BOOLEAN_PAIRS,
    cell_form,
    code_shape,
    count_scripts,
    main_script,
    needs_no_spaces,
)
from saccade.data.records.names import normalise_name
from saccade.data.records.sketches import (
    MAX_COUNTED_LENGTH,
    DistinctCounter,
    LengthCounter,
    Quantiles,
    ValueCounter,
    hash_values,
)
from saccade.data.tables.csv import MISSING_VALUES

ColumnKind = Literal[
    "text", "category", "integer", "number", "date", "boolean", "id", "constant", "empty"
]

EXAMPLES = 3  # values of a column
SCRIPT_SAMPLE = 1 << 15  # characters of a column by which its script is found
NUMERIC_SHARE = 0.9  # of the values of a numeric or date column; the others are errors
UNIQUE_SHARE = 0.98  # distinct values of an id column, of its values
NAMED_UNIQUE_SHARE = 0.9  # the same, if its name is that of an id
MIN_ID_VALUES = 5  # fewer values do not show that a column is an id
MIN_LABELS = 20  # fewer values do not show that a column cannot be a label
MAX_CODE_SHAPES = 3  # of an id column of codes
MAX_NUMERIC_CLASSES = {"integer": 100, "number": 20}  # distinct numbers that may be classes
NUMERIC_CLASS_SHARE = 0.2  # the same, of the values
CATEGORY_SHARE = 0.5  # distinct values of a category, of its values
LONG_TEXT_WORDS = 6  # median; values that long are texts even if they repeat
LONG_TEXT_CHARACTERS = 40
LONG_TEXT_SHARE = 0.05  # distinct long texts, of the values; fewer are categories

ID_NAMES = frozenset(
    "id ids uid uuid guid index idx key pk nr no row rowid row_id rownum row_number"
    " serial sku isbn 编号 序号 номер identifier".split()
)


class ColumnProfile(NamedTuple):
    """Statistics of one column."""

    name: str
    kind: ColumnKind
    rows: int
    missing: int  # blank cells and, except in a text, cells such as NA and ?
    distinct: int  # values
    is_exact: bool  # False: `distinct` is an estimate
    examples: tuple[str, ...]
    counts: dict[str, int] | None  # of each value, the most frequent first; None: too many
    characters: Quantiles
    words: Quantiles  # separated by white space
    length_counts: dict[int, int]  # values by number of characters
    script: str  # "Latin", "Han", "mixed (Latin, Han)", … or "" without letters
    has_spaces: bool  # False: words are not separated, as in Chinese or Thai
    minimum: float | None = None  # of numbers
    maximum: float | None = None

    @property
    def known(self) -> int:
        """Number of cells with a value."""
        return self.rows - self.missing

    @property
    def is_class(self) -> bool:
        """True if the values repeat as those of classes do, and there are two or more."""
        if self.kind in ("boolean", "category"):
            return True
        if self.kind not in MAX_NUMERIC_CLASSES:
            return False
        limit = min(MAX_NUMERIC_CLASSES[self.kind], NUMERIC_CLASS_SHARE * self.known)
        return self.distinct <= max(2, limit)

    @property
    def is_long(self) -> bool:
        """True if the values are sentences or longer."""
        if not self.has_spaces:
            return self.characters.median >= 2 * LONG_TEXT_WORDS
        return (
            self.words.median >= LONG_TEXT_WORDS or self.characters.median >= LONG_TEXT_CHARACTERS
        )

    @property
    def is_unique(self) -> bool:
        """True if hardly any value repeats, so that they are no classes."""
        return self.known >= MIN_LABELS and self.distinct > CATEGORY_SHARE * self.known


class RecordsProfile(NamedTuple):
    """Statistics of all columns, and of whole rows."""

    rows: int
    duplicates: int  # rows that equal an earlier one and have a value
    is_exact: bool  # False: `duplicates` is an estimate
    columns: dict[str, ColumnProfile]


def profile_records(chunk: RecordChunk) -> dict[str, ColumnProfile]:
    """Return the profile of each column of a sample."""
    return profile_chunks([chunk]).columns


def profile_chunks(
    chunks: Iterable[RecordChunk], on_rows: Callable[[int], None] = lambda count: None
) -> RecordsProfile:
    """Return the profile of all rows; `on_rows` receives the number of rows of each chunk."""
    counters: dict[str, _ColumnCounter] = {}
    whole_rows, rows = DistinctCounter(), 0
    for chunk in chunks:
        for name, cells in chunk.columns.items():
            counters.setdefault(name, _ColumnCounter(name)).add(cells)
        whole_rows.add(_hash_rows(chunk))
        rows += len(chunk)
        on_rows(len(chunk))
    columns = {name: counter.profile() for name, counter in counters.items()}
    duplicates = whole_rows.total - whole_rows.estimate()
    return RecordsProfile(rows, duplicates, whole_rows.is_exact, columns)


def _hash_rows(chunk: RecordChunk) -> HashArray:
    """Return the hashes of the rows that have a value."""
    columns = [[cell or "" for cell in cells] for cells in chunk.columns.values()]
    return hash_values("\x1f".join(row) for row in zip(*columns, strict=True) if any(row))


class _ColumnCounter:
    """Statistics of one column so far."""

    def __init__(self, name: str):
        self.name = name
        self.rows, self.blank = 0, 0
        self.absent: Counter[str] = Counter()  # values such as NA, which in a text are words
        self.distinct, self.values = DistinctCounter(), ValueCounter()
        self.characters, self.words = LengthCounter(), LengthCounter()
        self.forms: Counter[str] = Counter()
        self.shapes: Counter[str] = Counter()  # of codes
        self.scripts: Counter[str] = Counter()
        self.sampled = 0  # characters
        self.examples: list[str] = []
        self.minimum, self.maximum = np.inf, -np.inf

    def add(self, cells: Cells) -> None:
        """Count some cells."""
        self.rows += len(cells)
        counts = Counter(["" if cell is None else cell.strip() for cell in cells])
        self.blank += counts.pop("", 0)
        for value in MISSING_VALUES & counts.keys():
            self.absent[value] += counts.pop(value)
        if not counts:
            return
        self.distinct.add(hash_values(counts), np.array(list(counts.values()), np.int64))
        self.values.add(counts)
        for value, count in counts.items():
            self._add_value(value, count)

    def _add_value(self, value: str, count: int) -> None:
        self.characters.add(len(value), count)
        self.words.add(len(value.split()), count)
        if len(self.examples) < EXAMPLES and value[:MAX_COUNTED_LENGTH] not in self.examples:
            self.examples.append(value[:MAX_COUNTED_LENGTH])
        form = cell_form(value)
        self.forms[form] += count
        if form in ("integer", "number"):
            self.minimum = min(self.minimum, float(value))
            self.maximum = max(self.maximum, float(value))
        elif form == "code" and len(self.shapes) < 100:
            self.shapes[code_shape(value)] += 1
        elif form == "words" and self.sampled < SCRIPT_SAMPLE:
            for script, letters in count_scripts(value[:SCRIPT_SAMPLE]).items():
                self.scripts[script] += letters * count
            self.sampled += len(value) * count

    def profile(self) -> ColumnProfile:
        """Return the statistics."""
        distinct = self.distinct.estimate()
        kind = _infer_kind(self, distinct)
        is_text = kind in ("text", "empty")
        is_numeric = kind in ("integer", "number", "boolean", "id") and self.maximum >= self.minimum
        counts = None if self.values.counts is None else dict(self.values.counts.most_common())
        words = self.words.quantiles()
        characters = self.characters.quantiles()
        return ColumnProfile(
            self.name,
            kind,
            self.rows,
            self.blank if kind == "text" else self.blank + self.absent.total(),
            distinct + (len(self.absent) if is_text else 0),
            self.distinct.is_exact,
            tuple(self.examples),
            counts,
            characters,
            words,
            dict(sorted(self.characters.counts.items())),
            main_script(self.scripts),
            # words of such a script that are separated have few characters
            not needs_no_spaces(self.scripts)
            or (words.mean > 1.5 and characters.mean <= 6 * words.mean),
            float(self.minimum) if is_numeric else None,
            float(self.maximum) if is_numeric else None,
        )


def _infer_kind(column: _ColumnCounter, distinct: int) -> ColumnKind:
    """Return the kind of a column; the table in the docstring of the module has the kinds."""
    known = column.distinct.total
    if not known:
        return "empty"
    if distinct == 1 and known > 1:
        return "constant"
    values = column.values.counts
    if values is not None and {value.casefold() for value in values} in BOOLEAN_PAIRS:
        return "boolean"
    forms = column.forms
    if forms["date"] >= NUMERIC_SHARE * known:
        return "date"
    share = NAMED_UNIQUE_SHARE if is_id_name(column.name) else UNIQUE_SHARE
    is_unique = known >= MIN_ID_VALUES and distinct >= share * known
    numbers = forms["integer"] + forms["number"]
    if numbers >= NUMERIC_SHARE * known:
        if forms["number"] == 0 and is_unique and _numbers_rows(column, known):
            return "id"
        return "number" if forms["number"] else "integer"
    if is_unique and _is_id(column, known):
        return "id"
    if forms["code"] + numbers >= NUMERIC_SHARE * known:
        return "category"
    return _infer_text_kind(column, distinct, known)


def _is_id(column: _ColumnCounter, known: int) -> bool:
    """Return True if unique values that are no numbers are codes or addresses."""
    forms = column.forms
    if forms["reference"] >= NUMERIC_SHARE * known:
        return True
    codes = forms["code"] + forms["integer"]
    if codes < NUMERIC_SHARE * known:
        return False
    return len(column.shapes) <= MAX_CODE_SHAPES or is_id_name(column.name)


def _numbers_rows(column: _ColumnCounter, known: int) -> bool:
    """Return True if unique integers are ids: by the name, or consecutive and without a name."""
    if is_id_name(column.name):
        return True
    return is_unnamed(column.name) and column.maximum - column.minimum + 1 == known


def _infer_text_kind(column: _ColumnCounter, distinct: int, known: int) -> ColumnKind:
    words, characters = column.words.quantiles(), column.characters.quantiles()
    is_long = words.median >= LONG_TEXT_WORDS or characters.median >= LONG_TEXT_CHARACTERS
    if needs_no_spaces(column.scripts):
        is_long = characters.median >= 2 * LONG_TEXT_WORDS
    if is_long and (distinct > LONG_TEXT_SHARE * known or column.values.counts is None):
        return "text"
    return "category" if distinct <= CATEGORY_SHARE * known else "text"


# --- names ----------------------------------------------------------------------------------------


def is_id_name(name: str) -> bool:
    """Return True if a column's name is one of those that number or name the rows."""
    normalised = normalise_name(name)
    return normalised in ID_NAMES or normalised.endswith(("_id", "_uuid", "_idx", "_index"))


def is_unnamed(name: str) -> bool:
    """Return True for a column without a name in its file: "column 1", "Unnamed: 0"."""
    return re.fullmatch(r"|column_\d+|unnamed_\d+", normalise_name(name)) is not None


def class_shares(profile: ColumnProfile) -> Sequence[tuple[str, int, float]]:
    """Return the values of a column with their counts and shares, the most frequent first."""
    counts = profile.counts or {}
    return [(value, count, count / max(1, profile.known)) for value, count in counts.items()]
