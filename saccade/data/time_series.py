r"""Time series for forecasting, from a file or synthetic, and sliding windows over them.

An autoregressive model with τ lags predicts x_t from x_{t−τ} … x_{t−1}; a window is that row of
features with the values that follow it. Splits are by time: held-out values come after the training
values.
"""

import csv
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from saccade.errors import DataError
from saccade.io.numbers import is_number
from saccade.io.text_files import MAX_LISTED_ERRORS, read_lines
from saccade.registry import did_you_mean
from saccade.seeding import generator
from saccade.types.arrays import FloatArray, IntArray

MISSING_SERIES_VALUES = {"", "na", "n/a", "nan", "null", "none", "?", "-", "."}


class TimeSeries(NamedTuple):
    """Values in the order of time, and their name."""

    name: str
    values: FloatArray


def noisy_sine(
    length: int = 1000, noise: float = 0.2, rate: float = 0.01, seed: int = 0
) -> TimeSeries:
    r"""Return x_t = sin(ω t) + ε_t for t = 1 … length, ε ~ N(0, noise²)."""
    if length < 1 or noise < 0:
        raise ValueError(
            f"got length {length} and noise {noise}; expected length ≥ 1 and noise ≥ 0."
        )
    drawn = generator(seed, "noisy sine").normal(0.0, noise, length)
    return TimeSeries("noisy sine", np.sin(rate * np.arange(1, length + 1)) + drawn)


SYNTHETIC_SERIES = {"sine": noisy_sine}

# --- files --------------------------------------------------------------------------------------


def read_series(path: str | Path, column: str | int | None = None) -> TimeSeries:
    """Return a column of a table with tabs or commas, or a file with one number in each line.

    `column` is a name or a number from 1; by default it is the only numeric column. A first row
    without a number names the columns. A missing value is an error and not skipped, since every
    later value would shift in time; empty lines at the end are ignored.
    """
    rows = _rows(path)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: got an empty file; expected one number in each line, or a table.")
    names = first.cells if _is_header(first.cells) else None
    sample = next(rows, None) if names else first
    if sample is None:
        raise DataError(f"{path}: got a row of names and no row below it; expected numbers.")
    index = _column_index(path, sample.cells, names, column)
    name = names[index] if names else (f"column {index + 1}" if len(first.cells) > 1 else str(path))
    values = _numbers(path, chain([sample], rows), index, len(first.cells))
    return TimeSeries(name, np.array(values, np.float64))


class _Row(NamedTuple):
    line: int
    cells: list[str]


def _rows(path: str | Path) -> Iterator[_Row]:
    """Yield the rows of a table; an empty line is one empty cell, except at the end."""
    pending: list[_Row] = []
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        return
    delimiter = "\t" if "\t" in first else ","
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells] or [""]
            row = _Row(reader.line_num, stripped)
            if any(stripped):
                yield from pending
                yield row
                pending = []
            else:
                pending.append(row)
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}: got a row that cannot be parsed ({error}); expected "
            "cells with commas or tabs between; try closing a quotation mark, or a line break."
        ) from None


def _is_header(cells: list[str]) -> bool:
    """Return True if a first row names the columns: it has text, and no number."""
    return not any(map(is_number, cells)) and any(
        cell.lower() not in MISSING_SERIES_VALUES for cell in cells
    )


def _column_index(
    path: str | Path, sample: list[str], names: list[str] | None, column: str | int | None
) -> int:
    """Return the index of the given column, from 0, or of the only numeric one."""
    columns = ", ".join(names or map(str, range(1, len(sample) + 1)))
    if column is None:
        found = [index for index, cell in enumerate(sample) if is_number(cell)]
        if len(sample) == 1 or len(found) == 1:
            return found[0] if found else 0
        raise DataError(
            f"{path}: got {len(sample)} columns, {len(found)} of them numeric; expected the name "
            f"of one; try --set data.column=NAME with one of: {columns}."
        )
    if names and str(column) in names:
        return names.index(str(column))
    if str(column).isdecimal() and 1 <= int(column) <= len(names or sample):
        return int(column) - 1
    near = did_you_mean(str(column), names or [])
    raise DataError(f"{path}: got no column {column!r}.{near} Columns: {columns}.")


def _numbers(path: str | Path, rows: Iterable[_Row], index: int, width: int) -> list[float]:
    """Return the numbers of a column, or raise one error for all lines that have none."""
    values: list[float] = []
    complaints: list[str] = []
    errors = 0
    for row in rows:
        if len(row.cells) == width and is_number(row.cells[index]):
            values.append(float(row.cells[index]))
            continue
        errors += 1
        if errors <= MAX_LISTED_ERRORS:
            complaints.append(f"line {row.line}: {_complaint(row, index, width)}")
    if not errors:
        return values
    rest = [f"… and {errors - MAX_LISTED_ERRORS} more"] if errors > MAX_LISTED_ERRORS else []
    count = "1 line" if errors == 1 else f"{errors} lines"
    heading = f"{path}: {count} cannot be used; expected a number in each; fill in or correct them:"
    raise DataError("\n  - ".join([heading, *complaints, *rest]))


def _complaint(row: _Row, index: int, width: int) -> str:
    if row.cells == [""] or (
        len(row.cells) == width and row.cells[index].lower() in MISSING_SERIES_VALUES
    ):
        return "the value is missing"
    if len(row.cells) != width:
        return f"got {len(row.cells)} cells; expected {width}, as in the first row"
    return f"{row.cells[index][:40]!r} is not a number"


# --- windows ------------------------------------------------------------------------------------


class SeriesWindows(NamedTuple):
    """N windows of τ values, and the k values that follow each."""

    features: FloatArray  # (N, τ), the oldest first
    labels: FloatArray  # (N, k)
    times: IntArray  # (N,) position of each row's first label in the series


def make_windows(values: FloatArray, lags: int, horizon: int = 1) -> SeriesWindows:
    """Return every window of `lags` values with the `horizon` values that follow it."""
    if lags < 1 or horizon < 1 or len(values) < lags + horizon:
        raise ValueError(
            f"got {len(values)} values, lags={lags} and horizon={horizon}; expected lags ≥ 1, "
            f"horizon ≥ 1 and at least {max(lags, 1) + max(horizon, 1)} values."
        )
    rows = sliding_window_view(values, lags + horizon)
    times = np.arange(lags, len(values) - horizon + 1)
    return SeriesWindows(rows[:, :lags].copy(), rows[:, lags:].copy(), times)


def split_windows(
    values: FloatArray, lags: int, horizon: int = 1, dev: float = 0.1, test: float = 0.1
) -> dict[str, SeriesWindows]:
    """Return windows for train, dev and test, split by the time of their labels.

    All labels of a window lie in the period of its split, so that no held-out value is trained on.
    The features of the first held-out windows reach back into the period before, whose values are
    known by then.
    """
    if min(dev, test) < 0 or dev + test >= 1:
        raise ValueError(
            f"got shares of {dev} and {test}; expected at least 0 each, and less than 1 together."
        )
    windows = make_windows(values, lags, horizon)
    ends = [round(len(values) * share) for share in (1 - dev - test, 1 - test, 1.0)]
    splits, start = {}, 0
    for name, end in zip(("train", "dev", "test"), ends, strict=True):
        inside = (windows.times >= start) & (windows.times + horizon <= end)
        splits[name] = SeriesWindows(
            windows.features[inside], windows.labels[inside], windows.times[inside]
        )
        start = end
    if not len(splits["train"].times):
        raise ValueError(
            f"got {len(values)} values, {ends[0]} of them for training; expected at least "
            f"{lags + horizon} (lags + horizon); try smaller held-out shares or fewer lags."
        )
    return splits
