"""Division of time series: held-out values lie after the training values, or in other series.

by share       the last values are test, those before them dev
given files    `data.test`, or `data.dev` and `data.test`, continue the series
a column       `data.split_column` names train, then dev, then test
by series      `data.group_by` names the series of each row; whole series are held out
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from saccade.data.hashing import hash_bytes
from saccade.data.split_keys import divide_rows
from saccade.data.splits import (
    DEV,
    SPLIT_NAMES,
    TEST,
    SplitConfig,
    split_by_column,
)
from saccade.data.tables.csv import pluralise
from saccade.data.time_series import LoadedSeries
from saccade.errors import DataError
from saccade.types.arrays import FloatArray

MAX_CONTEXT_VALUES = 63  # of a series of its own, before the first that is predicted, and the lags


class SeriesSpan(NamedTuple):
    """Values in order of time; those from `start` on are to be predicted."""

    values: FloatArray  # in units of the data
    start: int


SeriesSplit = tuple[SeriesSpan, ...]


class DividedSeries(NamedTuple):
    """The series of each split, and notes for the user."""

    splits: dict[str, SeriesSplit]
    notes: list[str]


def divide_series(
    loaded: LoadedSeries, given: Mapping[str, LoadedSeries], config: SplitConfig, lags: int
) -> DividedSeries:
    """Divide the values of a file by the settings.

    Args:
        loaded: the values in the order of time, and the cells that divide them.
        given: the values of the files "dev" and "test", which follow.
        config: settings of the division.
        lags: number of values that a prediction needs.

    Raises:
        DataError: if the splits are not in the order of time, or one is too short.
    """
    if config.group_by:
        return _divide_groups(loaded, config, lags)
    name, values = loaded.series
    notes: list[str] = []
    if given:
        parts, notes = _in_order([loaded, *(given[n] for n in SPLIT_NAMES[1:] if n in given)])
        values, dev_end = np.concatenate(parts), sum(map(len, parts[:-1]))
        train_end = len(parts[0]) if "dev" in given else _end(dev_end, config.dev_share)
    elif config.split_column:
        train_end, dev_end = _column_ends(loaded, config)
    else:
        shares = (config.dev_share + config.test_share, config.test_share)
        train_end, dev_end = (_end(len(values), share) for share in shares)
    _check_lengths(name, (train_end, dev_end, len(values)), lags)
    note = (
        f"{name}: {train_end:,} values for training, then {dev_end - train_end:,} for dev "
        f"and {len(values) - dev_end:,} for test."
    )
    splits: dict[str, SeriesSplit] = {
        "train": (SeriesSpan(values[:train_end], min(train_end - 1, lags)),),
        "dev": (SeriesSpan(values[:dev_end], train_end),),
        "test": (SeriesSpan(values, dev_end),),
    }
    return DividedSeries(splits, [note, *notes])


def _end(count: int, held_out: float) -> int:
    """Return the end of the values before the last share."""
    return round(count * (1 - held_out))


def _check_lengths(name: str, ends: tuple[int, int, int], lags: int) -> None:
    train_end, dev_end, count = ends
    if train_end <= lags or dev_end == train_end or count == dev_end:
        raise DataError(
            f"got {count:,} values in {name}: {train_end} for training, "
            f"{dev_end - train_end} for dev and {count - dev_end} for test; expected more than "
            f"data.lags={lags} for training and 1 or more for the others; try a longer series, or "
            "fewer lags."
        )


def _in_order(parts: Sequence[LoadedSeries]) -> tuple[list[FloatArray], list[str]]:
    """Return the values of files that follow each other, without those of a later file."""
    kept, notes = [parts[-1].series.values], []
    for part, later in reversed(list(pairwise(parts))):
        values = part.series.values
        after = np.concatenate(kept)
        if part.times is not None and later.times is not None:
            count = int(np.searchsorted(part.times, later.times[0]))
        elif len(after) < len(values) and np.array_equal(values[-len(after) :], after):
            count = len(values) - len(after)
        else:
            count = len(values)
        if count < len(values):
            left_out = pluralise(len(values) - count, "value")
            notes.append(f"{left_out} of {part.series.name} that a later file has are left out.")
        kept.insert(0, values[:count])
    return kept, notes


def _column_ends(loaded: LoadedSeries, config: SplitConfig) -> tuple[int, int]:
    """Return the ends of train and dev by the cells of a column."""
    cells = loaded.cells
    assert cells is not None and config.split_column is not None
    splits = split_by_column(cells.columns[config.split_column])
    if len(early := np.flatnonzero(np.diff(splits) < 0)):
        row = int(early[0])
        one, other = (SPLIT_NAMES[int(splits[number])] for number in (row, row + 1))
        raise DataError(
            f"{cells.name}: got a value of {other} ({cells.where(row + 1)}) after one of {one} "
            f"({cells.where(row)}) in {config.split_column!r}; expected train, then dev, then "
            "test, since held-out values lie after the training values; try --time COLUMN to sort "
            "them, or without data.split_column."
        )
    train_end, dev_end = (int((splits < number).sum()) for number in (DEV, TEST))
    count = len(splits)
    if train_end == count:
        shares = (config.dev_share + config.test_share, config.test_share)
        return _end(count, shares[0]), _end(count, shares[1])
    if dev_end == count:
        raise DataError(
            f"{cells.name}: got no value of test after those of dev in {config.split_column!r}; "
            "expected some; try without data.split_column, which holds out the last values."
        )
    return (_end(dev_end, config.dev_share) if train_end == dev_end else train_end), dev_end


# --- several series -------------------------------------------------------------------------------


def own_span(values: FloatArray, lags: int) -> SeriesSpan:
    """Return a series of its own: its first values are context and are not predicted."""
    return SeriesSpan(values, max(lags, min(lags + MAX_CONTEXT_VALUES, len(values) // 2)))


def group_series(loaded: LoadedSeries, config: SplitConfig, lags: int) -> dict[int, FloatArray]:
    """Return the values of each series, by the row of its first value.

    Raises:
        DataError: if a series has too few values to predict one.
    """
    cells = loaded.cells
    assert cells is not None
    members: dict[tuple[str, ...], list[int]] = {}
    columns = [cells.columns[name] for name in config.group_by]
    for row, key in enumerate(zip(*columns, strict=True)):
        members.setdefault(key, []).append(row)
    for key, rows in members.items():
        if len(rows) <= lags:
            raise DataError(
                f"{cells.name}: got {pluralise(len(rows), 'value')} of the series "
                f"{', '.join(map(repr, key))} ({cells.where(rows[0])}); expected more than "
                f"data.lags={lags} in each; try fewer lags, or leave it out."
            )
    return {rows[0]: loaded.series.values[rows] for rows in members.values()}


def _divide_groups(loaded: LoadedSeries, config: SplitConfig, lags: int) -> DividedSeries:
    """Hold out whole series; equal ones are never in two splits."""
    series = group_series(loaded, config, lags)
    assert loaded.cells is not None
    by_group = SplitConfig(
        group_by=config.group_by, dev_share=config.dev_share, test_share=config.test_share
    )
    inputs = hash_bytes(values.tobytes() for values in series.values())
    cells = loaded.cells.take(np.array(list(series), np.int64))
    division = divide_rows(by_group, inputs, cells, is_exact=True)
    values = list(series.values())
    parts = {name: [values[row] for row in rows] for name, rows in division.rows().items()}
    counts = ", ".join(f"{len(part):,} for {name}" for name, part in parts.items())
    if not all(parts.values()):
        raise DataError(
            f"{loaded.cells.name}: got {len(values)} series ({counts}); expected one or more in "
            "each split; try more series, or without data.group_by."
        )
    splits: dict[str, SeriesSplit] = {
        name: tuple(own_span(part, lags) for part in some) for name, some in parts.items()
    }
    splits["train"] = tuple(SeriesSpan(part, min(len(part) - 1, lags)) for part in parts["train"])
    note = f"{loaded.series.name}: {len(values):,} series ({counts})."
    return DividedSeries(splits, [note, *division.notes])
