r"""Alignment of two tables: their common columns as arrays, and a class for each row.

A missing number is NaN, a missing category a category of its own. Columns that cannot be compared
are left out with a note: columns of one file only, empty ones, row numbers, and texts that hardly
repeat (names, sentences). A numeric target becomes four classes, cut at the quartiles of the first
table.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.tables.csv import MISSING_VALUES, Table, pluralise
from saccade.data.tables.schema import (
    ColumnsConfig,
    drop_missing_target,
    fit_numeric_column,
    infer_target_type,
    is_mostly_numeric,
    non_numeric_errors,
    out_of_range_errors,
    parse_numbers,
    raise_data_errors,
)
from saccade.errors import DataError
from saccade.registry import did_you_mean
from saccade.types.arrays import FloatArray

MISSING_CATEGORY = "missing"  # the category of a missing value
NOT_A_TABLE = (
    "Expected two tables: a header row, then a row for each example. A text or sentence pairs "
    "cannot be compared."
)


class AlignedTable(NamedTuple):
    """One of two aligned tables."""

    table: Table  # the compared rows
    columns: dict[str, NDArray[Any]]  # float64, or text
    labels: NDArray[np.str_] | None  # None: not in both tables


class TablePair(NamedTuple):
    """Two tables with the same columns, and notes for the user."""

    source: AlignedTable
    target: AlignedTable
    notes: list[str]


def align_tables(
    source: Table, target: Table, config: ColumnsConfig, target_column: str | None = None
) -> TablePair:
    """Return the comparable part of two tables; `target_column` gives the classes."""
    tables = (source, target)
    _check_names(
        tables, [*config.categories, *config.ignore, *([target_column] if target_column else [])]
    )
    notes, labels = [], None
    if (
        target_column is not None
        and (unlabelled := _table_without(tables, target_column)) is not None
    ):
        notes = [
            f"{unlabelled.name} has no {target_column!r} in any row, "
            "so only the inputs are compared."
        ]
    elif target_column is not None:
        notes = [note for table in tables for note in _dropped_rows_note(table, target_column)]
        tables = (
            drop_missing_target(source, target_column),
            drop_missing_target(target, target_column),
        )
        labels, more = _class_labels(*tables, target_column, target_column in config.categories)
        notes += more
    columns, more = _columns(*tables, config, target_column)
    sides = [
        AlignedTable(table, own, None if labels is None else labels[side])
        for side, (table, own) in enumerate(zip(tables, columns, strict=True))
    ]
    return TablePair(sides[0], sides[1], [*notes, *more])


def _check_names(tables: Sequence[Table], names: Sequence[str]) -> None:
    known = list(dict.fromkeys(name for table in tables for name in table.columns))
    unknown = [f"no column {n!r}.{did_you_mean(n, known)}" for n in names if n not in known]
    if unknown:
        both = " and ".join(table.name for table in tables)
        raise DataError(f"{both}: got {' Got '.join(unknown)} Columns: {', '.join(known)}.")


# --- classes --------------------------------------------------------------------------------------


def _table_without(tables: Sequence[Table], target_column: str) -> Table | None:
    """Return the table that has no class in any row, if there is one."""
    unlabelled = (
        t
        for t in tables
        if all(cell in MISSING_VALUES for cell in t.columns.get(target_column, []))
    )
    return next(unlabelled, None)


def _dropped_rows_note(table: Table, target_column: str) -> list[str]:
    """Return a note about the rows without a class."""
    count = len(table) - len(drop_missing_target(table, target_column))
    are = "is" if count == 1 else "are"
    note = f"{pluralise(count, 'row')} of {table.name} without a {target_column!r} {are} left out."
    return [note] if count else []


def _class_labels(
    source: Table, target: Table, target_column: str, is_categorical: bool
) -> tuple[list[NDArray[np.str_]], list[str]]:
    """Return the class of each row of both tables, and notes about the classes."""
    cells = [table.columns[target_column] for table in (source, target)]
    is_numeric = not is_categorical and is_mostly_numeric(cells[0])
    if is_numeric:
        for table in (source, target):
            raise_data_errors(table.name, non_numeric_errors(table, target_column))
    if not is_numeric or infer_target_type(cells[0]) == "class":
        # 1 and 1.0 are one class of a numeric target
        names = [[f"{float(c):.12g}" for c in part] if is_numeric else part for part in cells]
        labels = [np.array(part, np.str_) for part in names]
        _check_classes(source, target_column, labels[0])
        return labels, []
    values = [parse_numbers(part) for part in cells]
    cuts = np.unique(np.quantile(values[0], [0.25, 0.5, 0.75]))
    intervals = _interval_names(cuts)
    labels = [intervals[np.searchsorted(cuts, part, side="left")] for part in values]
    _check_classes(source, target_column, labels[0])
    edges = ", ".join(f"{cut:.4g}" for cut in cuts)
    return labels, [
        f"{target_column!r} is numeric: its classes are the quartiles of {source.name} ({edges})."
    ]


def _interval_names(cuts: FloatArray) -> NDArray[np.str_]:
    edges = [f"{cut:.4g}" for cut in cuts]
    inner = [f"{low} to {high}" for low, high in zip(edges, edges[1:], strict=False)]
    return np.array([f"up to {edges[0]}", *inner, f"above {edges[-1]}"])


def _check_classes(source: Table, target_column: str, labels: NDArray[np.str_]) -> None:
    different = len(set(labels.tolist()))
    if different == 1:
        raise DataError(
            f"{source.name}: the target {target_column!r} has only one value ({labels[0][:40]}); "
            "expected two or more; try another column, or leave --target out."
        )
    if 2 * different > len(labels):
        raise DataError(
            f"{source.name}: the target {target_column!r} has {different:,} different values in "
            f"{pluralise(len(labels), 'row')}; expected classes that repeat; try another column, "
            "or leave --target out."
        )


# --- columns --------------------------------------------------------------------------------------


def _columns(
    source: Table, target: Table, config: ColumnsConfig, target_column: str | None
) -> tuple[list[dict[str, NDArray[Any]]], list[str]]:
    """Return the columns of both tables by name, and notes about those left out."""
    excluded = {target_column, *config.ignore}
    notes = [
        f"{', '.join(map(repr, only))} of {here.name}, not in {there.name}: left out."
        for here, there in ((source, target), (target, source))
        if (only := [n for n in here.columns if n not in there.columns and n not in excluded])
    ]
    found: list[dict[str, NDArray[Any]]] = [{}, {}]
    complaints: list[str] = []
    for name in source.columns:
        if name in excluded or name not in target.columns:
            continue
        cells = source.columns[name], target.columns[name]
        is_categorical = name in config.categories or not _are_numbers(*cells)
        if (why := _not_comparable(cells, is_categorical)) is not None:
            notes.append(f"{name!r} {why}: left out.")
        elif is_categorical:
            complaints += _type_errors(source, target, name, config)
            for side, part in zip(found, cells, strict=True):
                side[name] = np.array(
                    [MISSING_CATEGORY if c in MISSING_VALUES else c for c in part], np.str_
                )
        else:
            column = fit_numeric_column(name, cells[0])
            for side, table in zip(found, (source, target), strict=True):
                row_errors = non_numeric_errors(table, name) or out_of_range_errors(table, column)
                complaints += [f"{table.name}, {each}" for each in row_errors]
                side[name] = parse_numbers(table.columns[name])
    raise_data_errors(f"{source.name} and {target.name}", complaints)
    if not found[0]:
        raise DataError(
            f"{source.name} and {target.name}: got no column that can be compared. "
            f"{' '.join(notes)} {NOT_A_TABLE}"
        )
    return found, notes


def _are_numbers(*parts: Sequence[str]) -> bool:
    """Return True if both are numeric; an empty column fits any type."""
    filled = [part for part in parts if any(cell not in MISSING_VALUES for cell in part)]
    return bool(filled) and all(map(is_mostly_numeric, filled))


def _not_comparable(parts: tuple[Sequence[str], Sequence[str]], is_categorical: bool) -> str | None:
    """Return why a column cannot be compared with that of another file; None if it can."""
    known = [[cell for cell in part if cell not in MISSING_VALUES] for part in parts]
    if not any(known):
        return "is empty"
    if is_categorical:
        repeats = all(2 * len(set(part)) <= len(part) for part in known)
        return None if repeats else "has texts that hardly repeat"
    values = [parse_numbers(part) for part in parts]
    rises = all(len(v) > 1 and bool((np.diff(v) > 0).all()) and not (v % 1).any() for v in values)
    return "is a row number" if rises else None


def _type_errors(source: Table, target: Table, name: str, config: ColumnsConfig) -> list[str]:
    """Return an error if a column is numeric in one table and text in the other."""
    tables = {is_mostly_numeric(table.columns[name]): table for table in (source, target)}
    filled = all(any(c not in MISSING_VALUES for c in t.columns[name]) for t in (source, target))
    if name in config.categories or len(tables) == 1 or not filled:
        return []
    text = next(
        c
        for c in tables[False].columns[name]
        if c not in MISSING_VALUES and not is_mostly_numeric([c])
    )
    return [
        f"got numbers in the column {name!r} of {tables[True].name} and text in "
        f"{tables[False].name} ({text[:40]!r}); expected one type; try "
        f"--set data.categories={name} or data.ignore={name}"
    ]
