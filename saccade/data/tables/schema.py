r"""Column types of a table, and the encoding of its rows as features.

    numeric      (x - mean) / deviation; 0 if missing, with a second feature that is 1 then (only if
                 a training row lacks the value)
    date         days since 1970, year, month, day of the week (`saccade.data.tables.dates`)
    categorical  one-hot over the categories of the training rows; a feature for missing values; one
                 for categories with fewer than `data.min_count` rows, which is also that of unseen
                 ones; without it an unseen category is 0 everywhere

A column of ids (row numbers, codes that do not repeat) is left out; a column of texts is refused
unless it is named in `data.ignore` or `data.categories`. All statistics are fitted to the training
rows and stored with the run.
"""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, field_validator

from saccade.config import Config
from saccade.data.records.base import Delimiter, RecordChunk
from saccade.data.records.profile import (
    LONG_TEXT_CHARACTERS,
    LONG_TEXT_WORDS,
    ColumnProfile,
    profile_records,
)
from saccade.data.source import SourceConfig
from saccade.data.splits import SplitConfig
from saccade.data.tables.csv import (
    DELIMITERS,
    MAX_MAGNITUDE,
    MISSING_VALUES,
    Table,
    first_errors,
    parse_cell,
    pluralise,
    split_row,
)
from saccade.data.tables.dates import (
    DATE_FORMS,
    DateColumn,
    date_forms,
    days_since_1970,
    fit_date_column,
    parse_date,
)
from saccade.errors import DataError, bullet_list
from saccade.io.documents import PositiveNumber, parse_structure
from saccade.io.numbers import is_number
from saccade.registry import did_you_mean
from saccade.types.arrays import FloatArray, IntArray
from saccade.types.limits import MAX_COUNT, MAX_SEED

TargetType = Literal["class", "number"]

MAX_TEXT_SHARE = 0.1  # of a numeric column's cells that may be text, as errors
MAX_INTEGER_CLASSES = 10  # an integer target with at most so many values is a class
MIN_ROWS_PER_CLASS = 5  # … if it has so many rows per value, on average
MAX_UNSEEN = 5  # categories that a note lists
MAX_DEVIATIONS = 1e18  # standard deviations from the mean; their square fits a float32


class ColumnsConfig(Config):
    """Column types that cannot be inferred from the cells."""

    categories: tuple[str, ...] = ()
    """Columns of numbers that are categories, with commas between."""
    ignore: tuple[str, ...] = ()
    """Columns that are not used, with commas between."""

    @field_validator("categories", "ignore", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """Accept one name, or several with commas between, as they are typed."""
        return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else value


class TableConfig(ColumnsConfig, SplitConfig, SourceConfig):
    """Source, target, column types and splits of a table."""

    RENAMED: ClassVar[Mapping[str, str]] = {"weight_column": "weight"}

    target: str | None = None
    """Column to predict; inferred if not set."""
    target_type: TargetType | None = None
    """Type of the target; inferred from the model and the cells if not set."""
    weight: str | None = None
    """Column with the weight of each row."""
    min_count: int = Field(2, ge=1, le=MAX_COUNT)
    """Number of rows below which a category is encoded as "other"."""
    dev_share: float = Field(0.1, gt=0, lt=1)
    """Share of the rows held out for dev."""
    test_share: float = Field(0.2, gt=0, lt=1)
    """Share of the rows held out for test."""
    seed: int = Field(0, ge=0, le=MAX_SEED)
    """Random seed of the splits."""


class NumericColumn(NamedTuple):
    """A numeric column, and the mean and deviation that standardise it."""

    name: str
    mean: FiniteFloat
    deviation: PositiveNumber
    missing: bool = False  # a feature marks missing values

    @property
    def feature_names(self) -> list[str]:
        """The names of the features."""
        return [self.name, f"{self.name} missing"] if self.missing else [self.name]

    def features(self, cells: Sequence[str]) -> FloatArray:
        """Return the features of cells, (N, features)."""
        transform = self.transform(parse_numbers(cells))
        absent = np.isnan(transform)
        columns = [np.where(absent, 0.0, transform), absent.astype(np.float64)]
        return np.stack(columns[: len(self.feature_names)], axis=1)

    def transform(self, values: FloatArray) -> FloatArray:
        """Standardise values."""
        return (values - self.mean) / self.deviation

    def inverse_transform(self, values: FloatArray) -> FloatArray:
        """Return standardised values in the units of the table."""
        return values * self.deviation + self.mean


class CategoricalColumn(NamedTuple):
    """A categorical column and its categories."""

    name: str
    values: tuple[str, ...]
    missing: bool = False  # a feature marks missing values
    others: bool = False  # a feature marks rare and unseen categories
    mode: int = -1  # index of the most frequent category; −1: unknown, of an earlier version

    @property
    def feature_names(self) -> list[str]:
        """The names of the features."""
        more = [f"{self.name} missing"] * self.missing + [f"{self.name}=other"] * self.others
        return [f"{self.name}={value}" for value in self.values] + more

    def codes(self, cells: Sequence[str]) -> IntArray:
        """Return the index of each cell's category; −1 if it is unknown."""
        index = {value: number for number, value in enumerate(self.values)}
        return np.array([index.get(cell, -1) for cell in cells], np.int64)

    def features(self, cells: Sequence[str]) -> FloatArray:
        """Return the features of cells, (N, features)."""
        found = self.codes(cells)
        count = len(self.feature_names)
        if self.others:
            found[found < 0] = count - 1
        if self.missing:
            found[np.array([cell in MISSING_VALUES for cell in cells], bool)] = len(self.values)
        known = np.flatnonzero(found >= 0)
        table = np.zeros((len(cells), count))
        table[known, found[known]] = 1.0
        return table


InputColumn = NumericColumn | DateColumn | CategoricalColumn


class EncodedRows(NamedTuple):
    """N rows as features, targets and weights."""

    features: FloatArray  # (N, features)
    target: NDArray[Any]  # (N,) standardised, or the class (−1: unknown)
    weights: FloatArray | None  # (N,)
    lines: IntArray


class TableSchema(NamedTuple):
    """The fitted preprocessing of a table: encodes rows and decodes predictions."""

    names: tuple[str, ...]  # of all columns, in the table's order
    columns: tuple[InputColumn, ...]  # the model's inputs
    target: NumericColumn | CategoricalColumn
    weight_column: str | None = None
    delimiter: str = ","

    @property
    def target_type(self) -> TargetType:
        """The type of the target: a class or a number."""
        return "class" if isinstance(self.target, CategoricalColumn) else "number"

    @property
    def feature_names(self) -> list[str]:
        """The names of the features."""
        return [name for column in self.columns for name in column.feature_names]

    def model_sizes(self) -> dict[str, int]:
        """Return the settings of a network that follow from the columns."""
        classes = len(self.target.values) if isinstance(self.target, CategoricalColumn) else 0
        return {"inputs": len(self.feature_names), "outputs": classes or 1}

    def features(self, columns: Mapping[str, Sequence[str]]) -> FloatArray:
        """Return the features of cells by column, (N, features)."""
        return np.concatenate([c.features(columns[c.name]) for c in self.columns], axis=1)

    def rows(self, table: Table, side: str = "") -> EncodedRows:
        """Encode the rows that have a target, or raise one error with all that is wrong.

        `side` is the name of the split, for the message.
        """
        table = drop_missing_target(table, self.target.name)
        complaints = self.complaints(table)
        if isinstance(self.target, NumericColumn):
            complaints += non_numeric_errors(table, self.target.name)
        weight_column = self.weight_column if self.weight_column in table.columns else None
        if weight_column is not None:
            complaints += _weights_complaints(table, weight_column)
        raise_data_errors(table.name, complaints)
        cells = table.columns[self.target.name]
        if isinstance(self.target, CategoricalColumn):
            target: NDArray[Any] = self.target.codes(cells)
        else:
            target = self.target.transform(parse_numbers(cells))
        given = None if weight_column is None else parse_numbers(table.columns[weight_column])
        if given is not None and len(given) and not given.any():
            split = f" of {side}" if side else ""
            raise DataError(
                f"{table.name}: got weight 0 in the column {weight_column!r} for all "
                f"{len(given):,} rows{split}; expected a positive weight; try weights for more rows"
                f"{', or another data.seed' if side else ''}."
            )
        return EncodedRows(self.features(table.columns), target, given, table.lines)

    def complaints(self, table: Table) -> list[str]:
        """Return the errors that keep a table's cells from being encoded."""
        found = []
        for column in self.columns:
            if column.name not in table.columns:
                near = did_you_mean(column.name, table.columns)
                found.append(f"no column {column.name!r}.{near}")
            elif isinstance(column, NumericColumn):
                found += non_numeric_errors(table, column.name) or out_of_range_errors(
                    table, column
                )
            elif isinstance(column, DateColumn):
                found += non_date_errors(table, column.name, column.form)
        return found

    def unseen_categories(self, columns: Mapping[str, Sequence[str]]) -> dict[int, list[str]]:
        """Return a note for each category that the schema does not have, by row."""
        notes: dict[int, list[str]] = {}
        for column in self.columns:
            if not isinstance(column, CategoricalColumn):
                continue
            cells = columns[column.name]
            what = "a rare or unseen category" if column.others else "an unseen category"
            for row in np.flatnonzero(column.codes(cells) < 0).tolist():
                if cells[row] not in MISSING_VALUES:
                    note = f"{cells[row][:40]!r} is {what} of the column {column.name!r}"
                    notes.setdefault(row, []).append(note)
        return notes

    def unseen_counts(self, columns: Mapping[str, Sequence[str]]) -> list[str]:
        """Return a note for each column with categories, or classes, that training had not."""
        notes = []
        for column in (*self.columns, self.target):
            if not isinstance(column, CategoricalColumn):
                continue
            cells = columns[column.name]
            unknown = np.flatnonzero(column.codes(cells) < 0).tolist()
            counts = Counter(cells[row] for row in unknown if cells[row] not in MISSING_VALUES)
            if not counts:
                continue
            listed = [f"{name[:40]!r} {count:,}" for name, count in counts.most_common(MAX_UNSEEN)]
            more = ", …" if len(counts) > MAX_UNSEEN else ""
            kind = "a rare or unseen category" if column.others else "an unseen category"
            what = "an unseen class, which counts as wrong," if column is self.target else kind
            rows = pluralise(counts.total(), "row")
            have = "has" if counts.total() == 1 else "have"
            notes.append(f"{rows} {have} {what} in {column.name!r} ({', '.join(listed)}{more}).")
        return notes

    # --- rows as text -------------------------------------------------------------------------

    def cells(self, row: str | Mapping[str, Any], number: int) -> dict[str, str]:
        """Return the cells of one row by column, from a line or from values by name."""
        if isinstance(row, str):
            return self._parse_line(row, number)
        expected = [column.name for column in self.columns]
        unknown = [
            f"no column {name!r}.{did_you_mean(name, self.names)}"
            for name in row
            if name not in self.names
        ]
        missing = [
            f"no value for {name!r}; pass None if it is unknown"
            for name in expected
            if name not in row
        ]
        raise_data_errors(f"input {number}", unknown + missing)
        return {name: "" if row[name] is None else str(row[name]).strip() for name in expected}

    def is_header(self, line: str) -> bool:
        """Return True if a line is the header row of a table."""
        cells = [cell.strip() for cell in split_row(line, self.delimiter) or []]
        return self._names_for(len(cells)) == cells

    def _names_for(self, count: int) -> list[str] | None:
        """Return the columns of a row with `count` cells: all, the inputs, or the used inputs."""
        used = {column.name for column in self.columns}
        forms = (
            list(self.names),
            self._input_names(),
            [name for name in self.names if name in used],
        )
        return next((names for names in forms if len(names) == count), None)

    def _input_names(self) -> list[str]:
        return [name for name in self.names if name not in (self.target.name, self.weight_column)]

    def _parse_line(self, line: str, number: int) -> dict[str, str]:
        for delimiter in dict.fromkeys((self.delimiter, *DELIMITERS)):
            cells = split_row(line, delimiter)
            names = None if cells is None else self._names_for(len(cells))
            if cells is not None and names is not None:
                read = (parse_cell(cell, delimiter) for cell in cells)
                return dict(zip(names, read, strict=True))
        got = split_row(line, self.delimiter)
        expected = self._input_names()
        found = "a row that cannot be parsed" if got is None else pluralise(len(got), "cell")
        raise DataError(
            f"input {number}: got {found}; expected {len(expected)}, with {self.delimiter!r} "
            f"between: {self.delimiter.join(expected)}"
        )

    # --- files ------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return plain values for tokenizer.json, without loss of a bit."""
        return {
            "names": list(self.names),
            "columns": [_plain(column) for column in self.columns],
            "target": _plain(self.target),
            "weights": self.weight_column,
            "mark": self.delimiter,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TableSchema":
        """Return the schema that `to_json` described."""
        schema = cls(
            parse_structure(tuple[str, ...], values["names"]),
            tuple(map(_column, values["columns"])),
            _column(values["target"]),
            parse_structure(str | None, values["weights"]),
            parse_structure(Delimiter, values["mark"]),
        )
        used = [schema.target.name, *(column.name for column in schema.columns)]
        if unknown := [name for name in used if name not in schema.names]:
            raise ValueError(f"got the column {unknown[0]!r:.100}, which is not in the table")
        if not schema.columns or isinstance(schema.target, DateColumn):
            raise ValueError("got no input columns, or a date as the target")
        return schema


COLUMN_KINDS: dict[str, type[Any]] = {  # names in tokenizer.json
    "number": NumericColumn,
    "date": DateColumn,
    "category": CategoricalColumn,
}


def _plain(column: InputColumn) -> dict[str, Any]:
    kind = next(kind for kind, column_class in COLUMN_KINDS.items() if type(column) is column_class)
    return {"kind": kind, **column._asdict()}


def _column(values: dict[str, Any]) -> Any:
    values = dict(values)
    column_class = COLUMN_KINDS[values.pop("kind")]
    column = parse_structure(column_class, values)
    if isinstance(column, DateColumn) and column.form not in DATE_FORMS:
        raise ValueError(f"got the form of dates {column.form!r:.100}")
    if isinstance(column, CategoricalColumn) and not -1 <= column.mode < len(column.values):
        raise ValueError(f"got {column.mode} as the most frequent of {len(column.values)} values")
    return column


# --- cells ----------------------------------------------------------------------------------------


def parse_numbers(cells: Sequence[str]) -> FloatArray:
    """Return the numbers of a column; NaN for a missing value or text."""
    return np.array(
        [float(cell) if is_number(cell, MAX_MAGNITUDE) else np.nan for cell in cells], np.float64
    )


def non_numeric_rows(cells: Sequence[str]) -> list[int]:
    """Return the rows that have text where there should be a number."""
    return [
        row
        for row, cell in enumerate(cells)
        if cell not in MISSING_VALUES and not is_number(cell, MAX_MAGNITUDE)
    ]


def non_numeric_errors(table: Table, name: str) -> list[str]:
    """Return an error for each row of a numeric column that has text."""
    cells = table.columns[name]
    found = non_numeric_rows(cells)
    known = sum(cell not in MISSING_VALUES for cell in cells)
    return first_errors(
        [
            f"{table.where(row)}: got {cells[row][:40]!r} in the column {name!r}; expected a number"
            + (f", as in {known - len(found):,} of {known:,} rows" if known > 1 else "")
            for row in found
        ]
    )


def non_date_errors(table: Table, name: str, form: str) -> list[str]:
    """Return an error for each row of a date column that has something else."""
    cells = table.columns[name]
    return first_errors(
        [
            f"{table.where(row)}: got {cell[:40]!r} in the column {name!r}; expected a date "
            f"({form})"
            for row, cell in enumerate(cells)
            if cell not in MISSING_VALUES and parse_date(cell, form) is None
        ]
    )


def out_of_range_errors(table: Table, column: NumericColumn) -> list[str]:
    """Return an error for each row whose number is too large for a model."""
    deviations = np.abs(column.transform(parse_numbers(table.columns[column.name])))
    return first_errors(
        [
            f"{table.where(row)}: got {table.columns[column.name][row]} in the column "
            f"{column.name!r}; expected a number near {column.mean:g} ± {column.deviation:g}"
            for row in np.flatnonzero(deviations > MAX_DEVIATIONS).tolist()
        ]
    )


def raise_data_errors(name: str, complaints: Sequence[str]) -> None:
    """Raise one `DataError` with all errors, if there are any."""
    if len(complaints) == 1:
        delimiter = "," if complaints[0].startswith("line ") else ":"
        raise DataError(
            f"{name}{delimiter} {complaints[0]}{'' if complaints[0][-1] in '.?' else '.'}"
        )
    if complaints:
        raise DataError(bullet_list(list(complaints), f"{name} cannot be used as it is:"))


def drop_missing_target(table: Table, name: str) -> Table:
    """Return the rows that have a target."""
    if name not in table.columns:
        near = did_you_mean(name, table.columns)
        raise DataError(
            f"{table.name}: got no column {name!r}, the target.{near} "
            f"Columns: {', '.join(table.columns)}."
        )
    known = [row for row, cell in enumerate(table.columns[name]) if cell not in MISSING_VALUES]
    return table if len(known) == len(table) else table.take(np.array(known, np.int64))


# --- times ----------------------------------------------------------------------------------------


def parse_times(table: Table, name: str) -> FloatArray:
    """Return the time of each row: a number, or a date in days since 1970."""
    cells = table.columns[name]
    if is_mostly_numeric(cells):
        times, expected = parse_numbers(cells), "a number"
    else:
        forms = date_forms(cells)
        if len(forms) != 1:
            raise DataError(
                f"{table.name}: got {cells[0][:40]!r} in the column {name!r}, the time; expected "
                "numbers or dates of one form; try dates such as 2024-03-05."
            )
        expected = f"a date ({forms[0]})"
        times = np.array([_days(cell, forms[0]) for cell in cells])
    raise_data_errors(
        table.name,
        first_errors(
            [
                f"{table.where(row)}: got {cells[row][:40]!r} in the column {name!r}; expected "
                f"{expected}"
                for row in np.flatnonzero(np.isnan(times)).tolist()
            ]
        ),
    )
    return times


def _days(cell: str, form: str) -> float:
    date = parse_date(cell, form)
    return np.nan if date is None else days_since_1970(date)


# --- fitting --------------------------------------------------------------------------------------


def check_table(table: Table, config: TableConfig, target: str, target_type: TargetType) -> None:
    """Raise one error with all that is wrong: rows, names, cells, the target, the weights."""
    complaints: list[str] = []
    named: dict[str, Sequence[str]] = {
        "weight": [config.weight] if config.weight else [],
        "time": [config.time] if config.time else [],
        "ignore": config.ignore,
        "categories": config.categories,
    }
    for setting, names in named.items():
        complaints += [
            f"no column {name!r} (data.{setting}).{did_you_mean(name, table.columns)}"
            for name in names
            if name not in table.columns
        ]
    for name, use in infer_column_uses(table, config, target).items():
        complaints += _input_complaints(table, name, use, target, target_type)
    complaints += _target_complaints(table, target, target_type, target in config.categories)
    if config.weight in table.columns:
        complaints += _weights_complaints(table, str(config.weight))
    raise_data_errors(table.name, complaints)


class ColumnUse(NamedTuple):
    """Use of a column as an input: number, date or category; an id or a text is no input."""

    kind: Literal["number", "date", "category", "id", "text"]
    forms: tuple[str, ...] = ()  # of dates; two if it is open which number is the month
    profile: ColumnProfile | None = None


def infer_column_uses(table: Table, config: TableConfig, target: str) -> dict[str, ColumnUse]:
    """Return the use of each column that may be an input, from its cells and its name."""
    names = feature_columns(table, config, target)
    cells = {name: [cell or None for cell in table.columns[name]] for name in names}
    profiles = profile_records(RecordChunk(cells, table.lines))
    return {
        name: _infer_use(table.columns[name], profiles[name])
        if name not in config.categories
        else ColumnUse("category")
        for name in names
    }


def _infer_use(cells: Sequence[str], profile: ColumnProfile) -> ColumnUse:
    if profile.kind == "id":
        return ColumnUse("id", profile=profile)
    if is_mostly_numeric(cells):
        return ColumnUse("number")
    if forms := date_forms(cells):
        return ColumnUse("date", tuple(forms))
    if profile.kind == "text" and is_long_text(profile):
        return ColumnUse("text", profile=profile)
    return ColumnUse("category")


def is_long_text(profile: ColumnProfile) -> bool:
    """Return True if the values of a column are sentences or longer."""
    characters = profile.characters.median
    if not profile.has_spaces:
        return characters >= 2 * LONG_TEXT_WORDS
    return profile.words.median >= LONG_TEXT_WORDS or characters >= LONG_TEXT_CHARACTERS


def _input_complaints(
    table: Table, name: str, use: ColumnUse, target: str, target_type: TargetType
) -> list[str]:
    """Return what keeps a column from being an input."""
    if use.kind == "number" and (found := non_numeric_errors(table, name)):
        return [*found, _as_category(name)]
    if use.kind == "date" and len(use.forms) > 1:
        return [
            f"the dates of the column {name!r} ({table.columns[name][0]}) may be "
            f"{' or '.join(use.forms)}; expected one form; try 2024-03-05, or --set "
            f"data.ignore={name}"
        ]
    if use.kind == "date" and (found := non_date_errors(table, name, use.forms[0])):
        return [*found, _as_category(name)]
    if use.kind == "text" and use.profile is not None:
        words = f"{use.profile.words.median:.0f} words"
        length = words if use.profile.has_spaces else f"{use.profile.characters.median:.0f} letters"
        classify = (
            f"try saccade train classify --data {shlex.quote(table.name)} "
            f"--text {shlex.quote(name)} --label {shlex.quote(target)}, or "
            if target_type == "class"
            else "try "
        )
        ignore = shlex.quote(f"data.ignore={name}")
        return [
            f"the column {name!r} looks like text (median {length}), which a table cannot use; "
            f"{classify}--set {ignore} to leave it out"
        ]
    return []


def _as_category(name: str) -> str:
    return f"correct these cells, or try --set data.categories={name}"


def feature_columns(table: Table, config: TableConfig, target: str) -> list[str]:
    """Return the columns that may be inputs."""
    excluded = {target, config.weight, config.split_column, *config.group_by, *config.ignore}
    return [name for name in table.columns if name not in excluded]


def is_mostly_numeric(cells: Sequence[str]) -> bool:
    """Return True if all cells with a value are numbers, or nearly all: the others are errors."""
    known = sum(cell not in MISSING_VALUES for cell in cells)
    found = len(non_numeric_rows(cells))
    nearly_all = known >= 4 and found <= max(1, MAX_TEXT_SHARE * known)
    return known > 0 and (found == 0 or nearly_all)


def infer_target_type(cells: Sequence[str]) -> TargetType:
    """Return the type of a target: text is a class, and so are a few repeated integers."""
    if not is_mostly_numeric(cells):
        return "class"
    values = parse_numbers(cells)
    values = values[~np.isnan(values)]
    different = len(np.unique(values))
    repeated = different <= MAX_INTEGER_CLASSES and different * MIN_ROWS_PER_CLASS <= len(values)
    return "class" if repeated and not np.any(values % 1) else "number"


def _target_complaints(
    table: Table, name: str, target_type: TargetType, of_names: bool
) -> list[str]:
    known = [cell for cell in table.columns[name] if cell not in MISSING_VALUES]
    different = set(known)
    what = f"the target {name!r}"
    if not known:
        return [f"{what} is missing in every row"]
    if len(different) == 1:
        return [f"{what} has only one value ({known[0][:40]}); expected two or more"]
    if is_mostly_numeric(known) and not of_names and non_numeric_rows(known):
        return [*non_numeric_errors(table, name), _as_category(name)]
    if target_type == "number" and not is_mostly_numeric(known):
        return [f"got text in {what} ({known[0][:40]!r}); expected a number"]
    if target_type == "class" and 2 * len(different) > len(known):
        return [
            f"{what} has {len(different):,} different values in {pluralise(len(known), 'row')}; "
            "expected classes that repeat; try another column, or --set data.target_type=number if "
            "it is a quantity"
        ]
    return []


def _weights_complaints(table: Table, name: str) -> list[str]:
    values = parse_numbers(table.columns[name])
    row_errors = np.flatnonzero(~(values >= 0)).tolist()
    return first_errors(
        [
            f"{table.where(row)}: got {table.columns[name][row][:40]!r} in the column {name!r}; "
            "expected a weight of 0 or more"
            for row in row_errors
        ]
    )


class FittedSchema(NamedTuple):
    """A schema, and notes for the user."""

    layout: TableSchema
    notes: list[str]


def fit_schema(
    whole: Table, rows: IntArray, config: TableConfig, target: str, target_type: TargetType
) -> FittedSchema:
    """Infer column types from all rows; fit means and categories to the training `rows`."""
    train = whole.take(rows)
    columns: list[InputColumn] = []
    notes = []
    for name, use in infer_column_uses(whole, config, target).items():
        cells = train.columns[name]
        if use.kind == "id":
            notes.append(_left_out_id(name, use))
            continue
        column: InputColumn
        if use.kind == "number":
            column = fit_numeric_column(name, cells)
        elif use.kind == "date":
            column = fit_date_column(name, cells, use.forms[0])
        else:
            column = fit_categorical_column(name, cells, config.min_count)
        if np.ptp(column.features(cells), axis=0).any():
            columns.append(column)
        else:
            notes.append(_dropped(name, cells, config.min_count))
    if not columns:
        raise DataError(
            f"{whole.name}: got no usable input column for the target {target!r}. {' '.join(notes)}"
        )
    names, cells = tuple(whole.columns), train.columns[target]
    target_column: NumericColumn | CategoricalColumn = (
        fit_numeric_column(target, cells)
        if target_type == "number"
        else fit_categorical_column(target, cells, 1)
    )
    if len(set(cells)) < 2:
        raise DataError(
            f"{whole.name}: got the same {target!r} ({cells[0][:40]}) in all {len(cells):,} "
            "training rows; expected two values or more; try more rows, or another data.seed."
        )
    return FittedSchema(
        TableSchema(names, tuple(columns), target_column, config.weight, whole.delimiter),
        notes,
    )


def fit_numeric_column(name: str, cells: Sequence[str]) -> NumericColumn:
    """Return the column with the mean and deviation of its values; a deviation of 0 becomes 1."""
    values = parse_numbers(cells)
    known = values[~np.isnan(values)]
    if not len(known):
        return NumericColumn(name, 0.0, 1.0)
    return NumericColumn(
        name, float(known.mean()), float(known.std()) or 1.0, len(known) < len(values)
    )


def fit_categorical_column(name: str, cells: Sequence[str], min_count: int) -> CategoricalColumn:
    """Return the column with its sorted categories of `min_count` rows or more."""
    counts = Counter(cell for cell in cells if cell not in MISSING_VALUES)
    values = [value for value, count in counts.items() if count >= min_count]
    order = sorted(
        values, key=lambda v: (0, float(v), v) if is_number(v, MAX_MAGNITUDE) else (1, 0.0, v)
    )
    absent = any(cell in MISSING_VALUES for cell in cells)
    mode = max(range(len(order)), key=lambda n: counts[order[n]], default=-1)
    return CategoricalColumn(name, tuple(order), absent, len(order) < len(counts), mode)


def _left_out_id(name: str, use: ColumnUse) -> str:
    count = 0 if use.profile is None else use.profile.distinct
    return f"The column {name!r} names the rows ({count:,} different values) and is left out."


def _dropped(name: str, cells: Sequence[str], min_count: int) -> str:
    known = [cell for cell in cells if cell not in MISSING_VALUES]
    if not known:
        why = "is empty"
    elif len(set(known)) == 1:
        why = f"has one value ({known[0][:40]})"
    else:
        why = f"has no category with {min_count} rows or more"
    return f"The column {name!r} {why} and is left out."
