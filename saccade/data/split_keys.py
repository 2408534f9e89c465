"""Division of the examples of a file by the settings: its cells, its held-out files, notes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from saccade.data.hashing import HashArray, hash_bytes
from saccade.data.records.base import Cells, Records
from saccade.data.records.roles import find_column
from saccade.data.splits import (
    LEFT_OUT,
    SPLIT_NAMES,
    SplitArray,
    SplitConfig,
    SplitKeys,
    divide_examples,
    hash_cells,
    leave_out_inputs,
)
from saccade.data.tables.csv import Table, pluralise
from saccade.data.tables.schema import parse_times
from saccade.errors import ConfigError, DataError
from saccade.types.arrays import IntArray


def split_columns(config: SplitConfig) -> tuple[str, ...]:
    """Return the columns by whose cells examples are divided."""
    named = (config.split_column, *config.group_by, config.time)
    return tuple(name for name in named if name is not None)


def read_split_cells(records: Records | None, config: SplitConfig, numbers: IntArray) -> Table:
    """Return the cells by which examples are divided, of the rows of these numbers.

    Args:
        records: the file; None if the data has no columns.
        config: settings of the division, whose columns are names or positions.
        numbers: lines or rows, as in `RecordChunk.numbers`, in ascending order.
    """
    names = split_columns(config)
    if records is None:
        if names:
            raise ConfigError(
                f"got {', '.join(map(repr, names))} to divide the examples by, but the data has no "
                "columns; expected a file with columns; try without data.split_column, "
                "data.group_by and data.time."
            )
        return Table("", {}, numbers)
    columns = {name: find_column(records, name) for name in names}
    cells: dict[str, list[str]] = {name: [] for name in names}
    for chunk in records.chunks(list(dict.fromkeys(columns.values()))) if names else ():
        positions = np.searchsorted(numbers, chunk.numbers)
        ends = np.searchsorted(numbers, chunk.numbers, side="right")
        rows = np.flatnonzero(ends > positions).tolist()
        for name, column in columns.items():
            whole: Cells = chunk.columns[column]
            cells[name] += [whole[row] or "" for row in rows]
    return Table(records.name, cells, numbers, unit=records.unit)


def refuse_division(config: SplitConfig, name: str) -> None:
    """Raise a ConfigError if the settings divide data whose splits are fixed."""
    if describe_division(config):
        raise ConfigError(
            f"got settings that divide the examples {describe_division(config)} for {name}, which "
            "has its own splits; try without them."
        )


class Division(NamedTuple):
    """The split of each example, and notes for the user."""

    splits: SplitArray
    notes: list[str]

    def rows(self) -> dict[str, IntArray]:
        """Return the rows of each split, in the order of the file."""
        return {
            name: np.flatnonzero(self.splits == number) for number, name in enumerate(SPLIT_NAMES)
        }


def divide_rows(
    config: SplitConfig,
    inputs: HashArray,
    cells: Table,
    classes: Sequence[str] | None = None,
    given: Mapping[str, HashArray] | None = None,
    max_held_out: float = 1.0,
    is_exact: bool = False,
) -> Division:
    """Divide the examples of a file by the settings.

    Args:
        config: settings of the division.
        inputs: hash of the input of each example.
        cells: the columns that the settings name, a row for each example.
        classes: class of each example; None: there are no classes.
        given: hashes of the inputs of the held-out files, by split; no example is held out for
            such a split, and examples with these inputs are left out.
        max_held_out: largest share of a held-out split.
        is_exact: divide by order of the hash and not by its value.
    """
    given = given or {}
    if config.stratify and classes is None:
        raise ConfigError("got data.stratify for data without classes; try without it.")
    keys = SplitKeys(
        inputs,
        splits=cells.columns[config.split_column] if config.split_column else None,
        groups=hash_cells([cells.columns[n] for n in config.group_by]) if config.group_by else None,
        times=parse_times(cells, config.time) if config.time else None,
        classes=classes if config.stratify else None,
    )
    dev, test = (
        0.0 if name in given else min(getattr(config, f"{name}_share"), max_held_out)
        for name in SPLIT_NAMES[1:]
    )
    splits = divide_examples(keys, dev, test, is_exact)
    notes = [f"The examples are divided {way}."] if (way := describe_division(config)) else []
    return without_given(Division(splits, notes), inputs, given)


def without_given(
    division: Division, inputs: HashArray, given: Mapping[str, HashArray]
) -> Division:
    """Leave out the examples with the inputs of held-out files; add a note of all left out."""
    splits = division.splits
    for held_out in given.values():
        splits = leave_out_inputs(splits, inputs, held_out, range(len(SPLIT_NAMES)))
    left_out = int((splits == LEFT_OUT).sum())
    if not left_out:
        return Division(splits, division.notes)
    note = (
        f"{pluralise(left_out, 'example')} with an input that is held out in another split "
        f"{'is' if left_out == 1 else 'are'} left out."
    )
    return Division(splits, [*division.notes, note])


class KeptRows(NamedTuple):
    """The rows of a held-out file that are kept; None: all. And notes for the user."""

    rows: IntArray | None
    notes: list[str]


def dev_without_test(given: Mapping[str, HashArray]) -> KeptRows:
    """Return the rows of the file of dev whose inputs the file of test does not have."""
    if not {"dev", "test"} <= given.keys():
        return KeptRows(None, [])
    kept = np.flatnonzero(~np.isin(given["dev"], given["test"]))
    left_out = len(given["dev"]) - len(kept)
    if not left_out:
        return KeptRows(None, [])
    if not len(kept):
        raise DataError(
            "got no input in data.dev that is not in data.test as well; expected other ones, by "
            "which settings are chosen; try without data.dev, which holds out training examples."
        )
    return KeptRows(
        kept, [f"{pluralise(left_out, 'example')} of data.dev that data.test has left out."]
    )


def describe_division(config: SplitConfig) -> str:
    """Return how the settings divide examples; "" for a hash of the input."""
    if config.split_column:
        return f"by the column {config.split_column!r}"
    if config.group_by:
        return f"by {' and '.join(map(repr, config.group_by))}, none of whose values is in two"
    if config.time:
        return f"by the time {config.time!r}: the last are held out"
    return "so that each class has the same share in each" if config.stratify else ""


# --- tables ---------------------------------------------------------------------------------------


def hash_rows(table: Table, seed: int, names: Sequence[str] | None = None) -> HashArray:
    """Return the hash of each row of a table: the seed and the cells of all columns or of some."""
    columns = [table.columns[name] for name in (names or table.columns)]
    rows = zip(*columns, strict=True)
    return hash_bytes("\x1f".join((str(seed), *row)).encode() for row in rows)


def divide_table(
    table: Table,
    config: SplitConfig,
    seed: int = 0,
    classes: Sequence[str] | None = None,
    given: Mapping[str, Table] | None = None,
) -> Division:
    """Divide the rows of a table, with exact shares; equal rows are in one split.

    Rows are sorted by a hash of the seed and their cells; the first are test, the next dev.

    Raises:
        DataError: if a split would be empty.
    """
    if config.dev_share + config.test_share >= 1:
        raise ConfigError(
            f"got data.dev_share={config.dev_share} and data.test_share={config.test_share}; "
            "expected a sum under 1, so that rows are left for training."
        )
    for name in split_columns(config):
        if name not in table.columns:
            raise DataError(
                f"{table.name}: got no column {name!r} to divide the rows by; it has: "
                f"{', '.join(table.columns)}."
            )
    given = given or {}
    names = list(table.columns)
    hashes = {split: hash_rows(other, seed, names) for split, other in given.items()}
    inputs = hash_rows(table, seed)
    division = divide_rows(config, inputs, table, classes, hashes, is_exact=True)
    sizes = {name: len(given.get(name, rows)) for name, rows in division.rows().items()}
    if sizes["train"] < 2 or not (sizes["dev"] and sizes["test"]):
        counts = ", ".join(f"{size} for {name}" for name, size in sizes.items())
        raise DataError(
            f"{table.name}: got {pluralise(len(table), 'row')} ({counts}); expected at least two "
            "for train and one each for dev and test. Equal rows (with data.time, rows of the same "
            "time) are kept together; try more rows."
        )
    return division
