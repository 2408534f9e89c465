r"""Two tables side by side: the columns that both have, as arrays, and a class for each row.

A number that is missing is NaN, a missing category a value of its own. What says nothing about
rows of another file is left out, and said: columns of one file only, empty ones, those that count
the rows, and texts that hardly come back (names, sentences). A target of numbers becomes four
classes, cut at the quartiles of the first table.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.tables.csv import MISSING_VALUES, Table, pluralise
from saccade.data.tables.schema import (
    ColumnsConfig,
    FloatArray,
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

MISSING_CATEGORY = "missing"  # what a category is called that is not there
NOT_A_TABLE = (
    "Two tables were wanted: a row of names, then a row of cells for each example. A text, or "
    "pairs of sentences, is none."
)


class AlignedTable(NamedTuple):
    """One of the two."""

    table: Table  # the rows that are compared
    columns: dict[str, NDArray[Any]]  # float64, or text
    labels: NDArray[np.str_] | None  # None: not known in both


class TablePair(NamedTuple):
    """Both, with the same columns, and what a person should know of it."""

    source: AlignedTable
    target: AlignedTable
    notes: list[str]


def align_tables(
    source: Table, target: Table, config: ColumnsConfig, target_column: str | None = None
) -> TablePair:
    """What can be compared; `asked` is the column that is foretold, and says what classes are."""
    for table in (source, target):
        raise_data_errors(
            table.name, [*table.row_errors, *([NOT_A_TABLE] if _is_ragged(table) else [])]
        )
    tables = (source, target)
    _check_names(
        tables, [*config.categories, *config.ignore, *([target_column] if target_column else [])]
    )
    notes, labels = [], None
    if target_column is not None and (bare := _without(tables, target_column)) is not None:
        notes = [
            f"{bare.name} has no {target_column!r} in any row, so only the inputs are compared."
        ]
    elif target_column is not None:
        notes = [note for table in tables for note in _left_out(table, target_column)]
        tables = (
            drop_missing_target(source, target_column),
            drop_missing_target(target, target_column),
        )
        labels, more = _classes(*tables, target_column, target_column in config.categories)
        notes += more
    columns, more = _columns(*tables, config, target_column)
    sides = [
        AlignedTable(table, own, None if labels is None else labels[place])
        for place, (table, own) in enumerate(zip(tables, columns, strict=True))
    ]
    return TablePair(sides[0], sides[1], [*notes, *more])


def _is_ragged(table: Table) -> bool:
    return len(table.row_errors) > len(table)


def _check_names(tables: Sequence[Table], names: Sequence[str]) -> None:
    known = list(dict.fromkeys(name for table in tables for name in table.columns))
    strange = [f"no column {n!r}.{did_you_mean(n, known)}" for n in names if n not in known]
    if strange:
        both = " and ".join(table.name for table in tables)
        raise DataError(f"{both} have {' They have '.join(strange)} There are: {', '.join(known)}.")


# --- classes --------------------------------------------------------------------------------------


def _without(tables: Sequence[Table], target_column: str) -> Table | None:
    """The table that has no class for any row."""
    bare = (
        t
        for t in tables
        if all(cell in MISSING_VALUES for cell in t.columns.get(target_column, []))
    )
    return next(bare, None)


def _left_out(table: Table, target_column: str) -> list[str]:
    """What is said of rows whose class is not known."""
    count = len(table) - len(drop_missing_target(table, target_column))
    are = "is" if count == 1 else "are"
    without = (
        f"{pluralise(count, 'row')} of {table.name} without a {target_column!r} {are} left out."
    )
    return [without] if count else []


def _classes(
    source: Table, target: Table, target_column: str, of_names: bool
) -> tuple[list[NDArray[np.str_]], list[str]]:
    """The class of each row of both, and how they came about."""
    cells = [table.columns[target_column] for table in (source, target)]
    of_numbers = not of_names and is_mostly_numeric(cells[0])
    if of_numbers:
        for table in (source, target):
            raise_data_errors(table.name, non_numeric_errors(table, target_column))
    if not of_numbers or infer_target_type(cells[0]) == "class":
        # 1 and 1.0 are one class, where they are numbers
        said = [[f"{float(c):.12g}" for c in part] if of_numbers else part for part in cells]
        labels = [np.array(part, np.str_) for part in said]
        _check_classes(source, target_column, labels[0])
        return labels, []
    values = [parse_numbers(part) for part in cells]
    cuts = np.unique(np.quantile(values[0], [0.25, 0.5, 0.75]))
    names = _between(cuts)
    labels = [names[np.searchsorted(cuts, part, side="left")] for part in values]
    _check_classes(source, target_column, labels[0])
    at = ", ".join(f"{cut:.4g}" for cut in cuts)
    return labels, [
        f"{target_column!r} is a number: it is cut at the quartiles of {source.name} ({at})."
    ]


def _between(cuts: FloatArray) -> NDArray[np.str_]:
    edges = [f"{cut:.4g}" for cut in cuts]
    inner = [f"{low} to {high}" for low, high in zip(edges, edges[1:], strict=False)]
    return np.array([f"up to {edges[0]}", *inner, f"above {edges[-1]}"])


def _check_classes(source: Table, target_column: str, labels: NDArray[np.str_]) -> None:
    different = len(set(labels.tolist()))
    if different == 1:
        raise DataError(
            f"{source.name}: the target {target_column!r} has one value ({labels[0][:40]}), so nothing can "
            "be learned of what the inputs mean. Take another column, or leave --target out."
        )
    if 2 * different > len(labels):
        raise DataError(
            f"{source.name}: the target {target_column!r} has {different:,} different values in "
            f"{pluralise(len(labels), 'row')}: it names the rows, and is no class that comes back. "
            "Take another column, or leave --target out."
        )


# --- columns --------------------------------------------------------------------------------------


def _columns(
    source: Table, target: Table, config: ColumnsConfig, target_column: str | None
) -> tuple[list[dict[str, NDArray[Any]]], list[str]]:
    """The columns of both, by name, and what is left out."""
    apart = {target_column, *config.ignore}
    notes = [
        f"{', '.join(map(repr, only))} of {here.name}, not in {there.name}: left out."
        for here, there in ((source, target), (target, source))
        if (only := [n for n in here.columns if n not in there.columns and n not in apart])
    ]
    found: list[dict[str, NDArray[Any]]] = [{}, {}]
    complaints: list[str] = []
    for name in source.columns:
        if name in apart or name not in target.columns:
            continue
        cells = source.columns[name], target.columns[name]
        as_names = name in config.categories or not _are_numbers(*cells)
        if (why := _says_nothing(cells, as_names)) is not None:
            notes.append(f"{name!r} {why}: left out.")
        elif as_names:
            complaints += _of_two_kinds(source, target, name, config)
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
            f"{source.name} and {target.name} have no column that can be compared. "
            f"{' '.join(notes)} {NOT_A_TABLE}"
        )
    return found, notes


def _are_numbers(*parts: Sequence[str]) -> bool:
    """Whether both hold numbers; an empty column fits any."""
    filled = [part for part in parts if any(cell not in MISSING_VALUES for cell in part)]
    return bool(filled) and all(map(is_mostly_numeric, filled))


def _says_nothing(parts: tuple[Sequence[str], Sequence[str]], as_names: bool) -> str | None:
    """Why a column cannot be held against that of another file; None if it can."""
    known = [[cell for cell in part if cell not in MISSING_VALUES] for part in parts]
    if not any(known):
        return "is empty"
    if as_names:
        comes_back = all(2 * len(set(part)) <= len(part) for part in known)
        return None if comes_back else "holds texts that hardly come back"
    values = [parse_numbers(part) for part in parts]
    rises = all(len(v) > 1 and bool((np.diff(v) > 0).all()) and not (v % 1).any() for v in values)
    return "counts the rows" if rises else None


def _of_two_kinds(source: Table, target: Table, name: str, config: ColumnsConfig) -> list[str]:
    """A complaint if numbers stand in one of the tables, and text in the other."""
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
        f"the column {name!r} holds numbers in {tables[True].name} and text in "
        f"{tables[False].name} ({text[:40]!r}); mend that, or say --set data.categories={name} or "
        f"data.ignore={name}"
    ]
