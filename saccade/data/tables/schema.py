r"""What the columns of a table mean, and rows as numbers.

    a number     (x - mean) / deviation, those of the rows to learn from; 0 where it is missing, and
                 then, if any was missing there, 1 in a place beside it
    a category   a place for each one that the rows to learn from have, 1 at its own; a missing one
                 has a place too. Those met fewer than `data.min_count` times share a place, which is
                 also that of the unseen; if there are none, an unseen one is 0 at every place

All of it is learned from the rows to learn from, and kept with the run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from saccade.config import Config
from saccade.data.tables.csv import (
    DELIMITERS,
    MISSING_VALUES,
    IntArray,
    Table,
    first_errors,
    is_numeric_cell,
    parse_cell,
    pluralise,
    split_row,
)
from saccade.errors import DataError, bullet_list
from saccade.registry import did_you_mean

FloatArray = NDArray[np.float64]
TargetType = Literal["class", "number"]

MAX_TEXT_SHARE = 0.1  # of a column's cells: so few texts among numbers are taken for slips
MAX_INTEGER_CLASSES = 10  # a target of whole numbers with no more different ones is one of classes
MIN_ROWS_PER_CLASS = 5  # … if every one is there so often, on average
MAX_DEVIATIONS = 1e18  # deviations from the mean: float32 can still square them


class ColumnsConfig(Config):
    """What cannot be seen from the cells of a column."""

    categories: tuple[str, ...] = ()  # columns of numbers that are names of something
    ignore: tuple[str, ...] = ()  # columns that are not to be looked at

    @field_validator("categories", "ignore", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """One name, or several with commas between, as they are typed."""
        return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else value


class TableConfig(ColumnsConfig):
    """Where a table comes from, what is asked of it, and what is held out."""

    synthetic: str | None = None  # the name of a table that is always there
    path: str | None = None
    target: str | None = None  # the column that is to be foretold
    target_type: TargetType | None = (
        None  # open: follows from the model and from what the target holds
    )
    weight_column: str | None = None  # a column that says how much each row counts
    min_count: int = Field(2, ge=1)  # rows; a category that is met less often is one of "other"
    dev_share: float = Field(0.1, gt=0, lt=1)
    test_share: float = Field(0.2, gt=0, lt=1)
    seed: int = 0  # of what is held out


class NumericColumn(NamedTuple):
    """A column of numbers, and what 0 and 1 are for a model."""

    name: str
    mean: float
    deviation: float
    missing: bool = False  # whether a place says so

    @property
    def feature_names(self) -> list[str]:
        """What each place of the features is about."""
        return [self.name, f"{self.name} missing"] if self.missing else [self.name]

    def features(self, cells: Sequence[str]) -> FloatArray:
        """(N, places)."""
        transform = self.transform(parse_numbers(cells))
        absent = np.isnan(transform)
        columns = [np.where(absent, 0.0, transform), absent.astype(np.float64)]
        return np.stack(columns[: len(self.feature_names)], axis=1)

    def transform(self, values: FloatArray) -> FloatArray:
        """As the model has them."""
        return (values - self.mean) / self.deviation

    def inverse_transform(self, values: FloatArray) -> FloatArray:
        """As the table has them."""
        return values * self.deviation + self.mean


class CategoricalColumn(NamedTuple):
    """A column of names."""

    name: str
    values: tuple[str, ...]
    missing: bool = False  # whether a place says so
    others: bool = False  # whether there is a place for those that are rare

    @property
    def feature_names(self) -> list[str]:
        """What each place of the features is about."""
        more = [f"{self.name} missing"] * self.missing + [f"{self.name}=other"] * self.others
        return [f"{self.name}={value}" for value in self.values] + more

    def codes(self, cells: Sequence[str]) -> IntArray:
        """The place of each among the values; −1 if it is none of them."""
        index = {value: number for number, value in enumerate(self.values)}
        return np.array([index.get(cell, -1) for cell in cells], np.int64)

    def features(self, cells: Sequence[str]) -> FloatArray:
        """(N, places)."""
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
    """N rows as numbers."""

    features: FloatArray  # (N, places)
    target: NDArray[Any]  # (N,) in deviations from the mean, or the class (−1: not known)
    weights: FloatArray | None  # (N,)
    lines: IntArray


class TableSchema(NamedTuple):
    """What is learned of a table apart from weights: enough to read a row, and to say an answer."""

    names: tuple[str, ...]  # of all columns, in the table's order
    columns: tuple[NumericColumn | CategoricalColumn, ...]  # those that are learned from
    target: NumericColumn | CategoricalColumn
    weight_column: str | None = None
    delimiter: str = ","

    @property
    def target_type(self) -> TargetType:
        """What is foretold."""
        return "class" if isinstance(self.target, CategoricalColumn) else "number"

    @property
    def feature_names(self) -> list[str]:
        """What each place of the features is about."""
        return [place for column in self.columns for place in column.feature_names]

    def features(self, columns: Mapping[str, Sequence[str]]) -> FloatArray:
        """(N, places) of cells, by column."""
        return np.concatenate([c.features(columns[c.name]) for c in self.columns], axis=1)

    def rows(self, table: Table, side: str = "") -> EncodedRows:
        """A table's rows as numbers, or one error with all that is wrong; no target, no row.

        The `side` of a split that they are is for the message.
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
            on = f" for {side}" if side else ""
            raise DataError(
                f"{table.name}: all {len(given):,} rows{on} have a weight of 0 in the column "
                f"{weight_column!r}; weigh more of them{', or take another data.seed' if side else ''}."
            )
        return EncodedRows(self.features(table.columns), target, given, table.lines)

    def complaints(self, table: Table) -> list[str]:
        """What keeps a table's cells from being numbers."""
        found = []
        for column in self.columns:
            if column.name not in table.columns:
                near = did_you_mean(column.name, table.columns)
                found.append(f"there is no column {column.name!r}.{near}")
            elif isinstance(column, NumericColumn):
                found += non_numeric_errors(table, column.name) or out_of_range_errors(
                    table, column
                )
        return found

    # --- rows as people type them ---------------------------------------------------------------

    def cells(self, row: str | Mapping[str, Any], number: int) -> dict[str, str]:
        """The cells of one row by column: of a line, or of values by name."""
        if isinstance(row, str):
            return self._of_line(row, number)
        wanted = [column.name for column in self.columns]
        strange = [
            f"there is no column {name!r}.{did_you_mean(name, self.names)}"
            for name in row
            if name not in self.names
        ]
        lacking = [
            f"{name!r} is not there; give None if it is not known"
            for name in wanted
            if name not in row
        ]
        raise_data_errors(f"input {number}", strange + lacking)
        return {name: "" if row[name] is None else str(row[name]).strip() for name in wanted}

    def is_header(self, line: str) -> bool:
        """Whether a line is the first row of a table."""
        cells = [cell.strip() for cell in split_row(line, self.delimiter) or []]
        return self._names_for(len(cells)) == cells

    def _names_for(self, count: int) -> list[str] | None:
        """The columns of a row with so many cells."""
        every = list(self.names)
        unasked = [name for name in every if name not in (self.target.name, self.weight_column)]
        used = {column.name for column in self.columns}
        forms = (every, unasked, [name for name in every if name in used])
        return next((names for names in forms if len(names) == count), None)

    def _of_line(self, line: str, number: int) -> dict[str, str]:
        for delimiter in dict.fromkeys((self.delimiter, *DELIMITERS)):
            cells = split_row(line, delimiter)
            names = None if cells is None else self._names_for(len(cells))
            if cells is not None and names is not None:
                read = (parse_cell(cell, delimiter) for cell in cells)
                return dict(zip(names, read, strict=True))
        got = split_row(line, self.delimiter)
        wanted = [name for name in self.names if name not in (self.target.name, self.weight_column)]
        said = "cannot be read as a row" if got is None else f"has {pluralise(len(got), 'cell')}"
        raise DataError(
            f"input {number} {said}; wanted {len(wanted)}, with {self.delimiter!r} between: "
            f"{self.delimiter.join(wanted)}"
        )

    # --- to be kept -----------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """For tokenizer.json; every bit of the numbers comes back."""
        return {
            "names": list(self.names),
            "columns": [_plain(column) for column in self.columns],
            "target": _plain(self.target),
            "weights": self.weight_column,
            "mark": self.delimiter,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TableSchema":
        """As it was kept."""
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
    """The numbers of a column; what is missing, or is none, is NaN."""
    return np.array(
        [float(cell) if is_numeric_cell(cell) else np.nan for cell in cells], np.float64
    )


def non_numeric_rows(cells: Sequence[str]) -> list[int]:
    """The rows that have something other than a number."""
    return [
        row for row, c in enumerate(cells) if c not in MISSING_VALUES and not is_numeric_cell(c)
    ]


def non_numeric_errors(table: Table, name: str) -> list[str]:
    """A complaint for each row of a column of numbers that holds something else."""
    cells = table.columns[name]
    found = non_numeric_rows(cells)
    known = sum(cell not in MISSING_VALUES for cell in cells)
    return first_errors(
        [
            f"{table.where(row)}: {cells[row][:40]!r} in the column {name!r}, where "
            + (f"{known - len(found):,} of {known:,} are numbers" if known > 1 else "numbers are")
            for row in found
        ]
    )


def out_of_range_errors(table: Table, column: NumericColumn) -> list[str]:
    """A complaint for each row whose number is beyond all that a model can take."""
    transform = np.abs(column.transform(parse_numbers(table.columns[column.name])))
    return first_errors(
        [
            f"{table.where(row)}: {table.columns[column.name][row]} in the column {column.name!r} "
            f"is beyond all reason; its numbers lie around {column.mean:g} ± {column.deviation:g}"
            for row in np.flatnonzero(transform > MAX_DEVIATIONS).tolist()
        ]
    )


def raise_data_errors(name: str, complaints: Sequence[str]) -> None:
    """One error of all complaints, if there are any."""
    if len(complaints) == 1:
        delimiter = "," if complaints[0].startswith("line ") else ":"
        raise DataError(
            f"{name}{delimiter} {complaints[0]}{'' if complaints[0][-1] in '.?' else '.'}"
        )
    if complaints:
        raise DataError(bullet_list(list(complaints), f"{name} cannot be used as it is:"))


def drop_missing_target(table: Table, name: str) -> Table:
    """The rows whose target is known."""
    if name not in table.columns:
        near = did_you_mean(name, table.columns)
        raise DataError(
            f"{table.name} has no column {name!r}, which is to be foretold.{near} "
            f"It has: {', '.join(table.columns)}."
        )
    known = [row for row, cell in enumerate(table.columns[name]) if cell not in MISSING_VALUES]
    return table if len(known) == len(table) else table.take(np.array(known, np.int64))


# --- learning what the columns mean ---------------------------------------------------------------


def check_table(table: Table, config: TableConfig, target: str, target_type: TargetType) -> None:
    """All that is wrong with a table at once: rows, names, cells, the target, the weights."""
    complaints = list(table.row_errors)
    named = {
        "weights": [config.weight_column] if config.weight_column else [],
        "ignore": config.ignore,
    }
    for setting, names in (*named.items(), ("categories", config.categories)):
        complaints += [
            f"there is no column {name!r} (data.{setting}).{did_you_mean(name, table.columns)}"
            for name in names
            if name not in table.columns
        ]
    for name in feature_columns(table, config, target):
        if name not in config.categories and is_mostly_numeric(table.columns[name]):
            if found := non_numeric_errors(table, name):
                complaints += [*found, f"mend that, or say data.categories={name}"]
    complaints += _target_complaints(table, target, target_type, target in config.categories)
    if config.weight_column in table.columns:
        complaints += _weights_complaints(table, str(config.weight_column))
    raise_data_errors(table.name, complaints)


def feature_columns(table: Table, config: TableConfig, target: str) -> list[str]:
    """The columns that may say something about the target."""
    apart = {target, config.weight_column, *config.ignore}
    return [name for name in table.columns if name not in apart]


def is_mostly_numeric(cells: Sequence[str]) -> bool:
    """Whether all that is there are numbers, or nearly all: the others are then slips."""
    known = sum(cell not in MISSING_VALUES for cell in cells)
    found = len(non_numeric_rows(cells))
    slips = known >= 4 and found <= max(1, MAX_TEXT_SHARE * known)
    return known > 0 and (found == 0 or slips)


def infer_target_type(cells: Sequence[str]) -> TargetType:
    """What a target asks for: text is a class, and so are a few whole numbers that come back."""
    if not is_mostly_numeric(cells):
        return "class"
    values = parse_numbers(cells)
    values = values[~np.isnan(values)]
    different = len(np.unique(values))
    few = different <= MAX_INTEGER_CLASSES and different * MIN_ROWS_PER_CLASS <= len(values)
    return "class" if few and not np.any(values % 1) else "number"


def _target_complaints(
    table: Table, name: str, target_type: TargetType, of_names: bool
) -> list[str]:
    known = [cell for cell in table.columns[name] if cell not in MISSING_VALUES]
    different = set(known)
    what = f"the target {name!r}"
    if not known:
        return [f"{what} is missing in every row"]
    if len(different) == 1:
        return [f"{what} has one value ({known[0][:40]}): there is nothing to foretell"]
    if is_mostly_numeric(known) and not of_names and non_numeric_rows(known):
        return [*non_numeric_errors(table, name), f"mend that, or say data.categories={name}"]
    if target_type == "number" and not is_mostly_numeric(known):
        return [f"{what} holds text ({known[0][:40]!r}); a number was wanted"]
    if target_type == "class" and 2 * len(different) > len(known):
        return [
            f"{what} has {len(different):,} different values in {pluralise(len(known), 'row')}: it "
            "names the rows, and is no class that comes back; take another column, or "
            "data.target_type=number if it is an amount"
        ]
    return []


def _weights_complaints(table: Table, name: str) -> list[str]:
    values = parse_numbers(table.columns[name])
    row_errors = np.flatnonzero(~(values >= 0)).tolist()
    return first_errors(
        [
            f"{table.where(row)}: {table.columns[name][row][:40]!r} in the column {name!r}; a "
            "weight of 0 or more was wanted"
            for row in row_errors
        ]
    )


class FittedSchema(NamedTuple):
    """A layout, and what a person should know of it."""

    layout: TableSchema
    notes: list[str]


def fit_schema(
    whole: Table, rows: IntArray, config: TableConfig, target: str, target_type: TargetType
) -> FittedSchema:
    """What the columns mean, by all rows; means and categories, by the `rows` to learn from."""
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
        raise DataError(f"{whole.name} has no column to learn {target!r} from. {' '.join(notes)}")
    names, cells = tuple(whole.columns), train.columns[target]
    asked = (
        fit_numeric_column(target, cells)
        if target_type == "number"
        else fit_categorical_column(target, cells, 1)
    )
    if len(set(cells)) < 2:
        raise DataError(
            f"{whole.name}: all {len(cells):,} rows to learn from have the same {target!r} "
            f"({cells[0][:40]}). Give more rows, or another data.seed."
        )
    return FittedSchema(
        TableSchema(names, tuple(columns), asked, config.weight_column, whole.delimiter), notes
    )


def fit_numeric_column(name: str, cells: Sequence[str]) -> NumericColumn:
    """Mean and deviation of what is there; where all is one number, the deviation counts as 1."""
    values = parse_numbers(cells)
    known = values[~np.isnan(values)]
    if not len(known):
        return NumericColumn(name, 0.0, 1.0)
    return NumericColumn(
        name, float(known.mean()), float(known.std()) or 1.0, len(known) < len(values)
    )


def fit_categorical_column(name: str, cells: Sequence[str], min_count: int) -> CategoricalColumn:
    """Those that are met so often or more, in their order; numbers among them by size."""
    met = Counter(cell for cell in cells if cell not in MISSING_VALUES)
    values = [value for value, count in met.items() if count >= min_count]
    order = sorted(values, key=lambda v: (0, float(v), v) if is_numeric_cell(v) else (1, 0.0, v))
    absent = any(cell in MISSING_VALUES for cell in cells)
    return CategoricalColumn(name, tuple(order), absent, len(order) < len(met))


def _dropped(name: str, cells: Sequence[str], min_count: int) -> str:
    known = [cell for cell in cells if cell not in MISSING_VALUES]
    if not known:
        why = "is empty"
    elif len(set(known)) == 1:
        why = f"has one value ({known[0][:40]})"
    else:
        why = f"has no category that is met {min_count} times or more"
    return f"The column {name!r} {why} and is left out."
