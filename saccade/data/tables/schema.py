r"""Column types of a table, and the encoding of its rows as features.

    numeric      (x - mean) / deviation; 0 if missing, with a second feature that is 1 then (only if
                 a training row lacks the value)
    categorical  one-hot over the categories of the training rows; a feature for missing values; one
                 for categories with fewer than `data.min_count` rows, which is also that of unseen
                 ones; without it an unseen category is 0 everywhere

All statistics are fitted to the training rows and stored with the run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from saccade.config import Config
from saccade.data.source import SourceConfig
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
from saccade.errors import DataError, bullet_list
from saccade.io.numbers import is_number
from saccade.registry import did_you_mean
from saccade.types.arrays import FloatArray, IntArray

TargetType = Literal["class", "number"]

MAX_TEXT_SHARE = 0.1  # of a numeric column's cells that may be text, as errors
MAX_INTEGER_CLASSES = 10  # an integer target with at most so many values is a class
MIN_ROWS_PER_CLASS = 5  # … if it has so many rows per value, on average
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


class TableConfig(ColumnsConfig, SourceConfig):
    """Source, target, column types and splits of a table."""

    target: str | None = None
    """Column to predict."""
    target_type: TargetType | None = None
    """Type of the target; inferred from the model and the cells if not set."""
    weight_column: str | None = None
    """Column with the weight of each row."""
    min_count: int = Field(2, ge=1)
    """Number of rows below which a category is encoded as "other"."""
    dev_share: float = Field(0.1, gt=0, lt=1)
    """Share of the rows held out for dev."""
    test_share: float = Field(0.2, gt=0, lt=1)
    """Share of the rows held out for test."""
    seed: int = 0
    """Random seed of the splits."""


class NumericColumn(NamedTuple):
    """A numeric column, and the mean and deviation that standardise it."""

    name: str
    mean: float
    deviation: float
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


class EncodedRows(NamedTuple):
    """N rows as features, targets and weights."""

    features: FloatArray  # (N, features)
    target: NDArray[Any]  # (N,) standardised, or the class (−1: unknown)
    weights: FloatArray | None  # (N,)
    lines: IntArray


class TableSchema(NamedTuple):
    """The fitted preprocessing of a table: encodes rows and decodes predictions."""

    names: tuple[str, ...]  # of all columns, in the table's order
    columns: tuple[NumericColumn | CategoricalColumn, ...]  # the model's inputs
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

    def features(self, columns: Mapping[str, Sequence[str]]) -> FloatArray:
        """Return the features of cells by column, (N, features)."""
        return np.concatenate([c.features(columns[c.name]) for c in self.columns], axis=1)

    def rows(self, table: Table, side: str = "") -> EncodedRows:
        """Encode the rows that have a target, or raise one error with all that is wrong.

        `side` is the name of the split, for the message.
        """
        table = drop_missing_target(table, self.target.name)
        complaints = [*table.row_errors, *self.complaints(table)]
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
        return found

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
        return cls(
            tuple(values["names"]),
            tuple(map(_column, values["columns"])),
            _column(values["target"]),
            values["weights"],
            values["mark"],
        )


def _plain(column: NumericColumn | CategoricalColumn) -> dict[str, Any]:
    kind = "number" if isinstance(column, NumericColumn) else "category"
    return {"kind": kind, **column._asdict()}


def _column(values: dict[str, Any]) -> NumericColumn | CategoricalColumn:
    values = dict(values)
    if values.pop("kind") == "number":
        return NumericColumn(**values)
    return CategoricalColumn(**{**values, "values": tuple(values["values"])})


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


# --- fitting --------------------------------------------------------------------------------------


def check_table(table: Table, config: TableConfig, target: str, target_type: TargetType) -> None:
    """Raise one error with all that is wrong: rows, names, cells, the target, the weights."""
    complaints = list(table.row_errors)
    named = {
        "weight_column": [config.weight_column] if config.weight_column else [],
        "ignore": config.ignore,
    }
    for setting, names in (*named.items(), ("categories", config.categories)):
        complaints += [
            f"no column {name!r} (data.{setting}).{did_you_mean(name, table.columns)}"
            for name in names
            if name not in table.columns
        ]
    for name in feature_columns(table, config, target):
        if name not in config.categories and is_mostly_numeric(table.columns[name]):
            if found := non_numeric_errors(table, name):
                complaints += [*found, _as_category(name)]
    complaints += _target_complaints(table, target, target_type, target in config.categories)
    if config.weight_column in table.columns:
        complaints += _weights_complaints(table, str(config.weight_column))
    raise_data_errors(table.name, complaints)


def _as_category(name: str) -> str:
    return f"correct these cells, or try --set data.categories={name}"


def feature_columns(table: Table, config: TableConfig, target: str) -> list[str]:
    """Return the columns that may be inputs."""
    excluded = {target, config.weight_column, *config.ignore}
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
    columns: list[NumericColumn | CategoricalColumn] = []
    notes = []
    for name in feature_columns(whole, config, target):
        cells = train.columns[name]
        of_numbers = name not in config.categories and is_mostly_numeric(whole.columns[name])
        column = (
            fit_numeric_column(name, cells)
            if of_numbers
            else fit_categorical_column(name, cells, config.min_count)
        )
        if np.ptp(column.features(cells), axis=0).any():
            columns.append(column)
        else:
            notes.append(_dropped(name, cells, config.min_count))
    if not columns:
        raise DataError(
            f"{whole.name}: got no usable input column for the target {target!r}. {' '.join(notes)}"
        )
    names, cells = tuple(whole.columns), train.columns[target]
    target_column = (
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
        TableSchema(names, tuple(columns), target_column, config.weight_column, whole.delimiter),
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


def _dropped(name: str, cells: Sequence[str], min_count: int) -> str:
    known = [cell for cell in cells if cell not in MISSING_VALUES]
    if not known:
        why = "is empty"
    elif len(set(known)) == 1:
        why = f"has one value ({known[0][:40]})"
    else:
        why = f"has no category with {min_count} rows or more"
    return f"The column {name!r} {why} and is left out."
