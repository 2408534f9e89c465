r"""Series for forecasting: numbers in the order of time, from a file or made, and windows of them.

A model of the past τ values learns x_t from x_{t−τ} … x_{t−1}; a window is that row of features
with what follows it. Splits are by time: what is held out lies after what is learned from.
"""

import csv
from collections.abc import Iterable, Iterator
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from saccade.errors import DataError
from saccade.io.text_files import read_lines
from saccade.registry import did_you_mean
from saccade.seeding import generator

FloatArray = NDArray[np.float64]

MAX_LISTED_ERRORS = 5  # complaints that are written out; the others are counted
MISSING_SERIES_VALUES = {"", "na", "n/a", "nan", "null", "none", "?", "-", "."}


class TimeSeries(NamedTuple):
    """Values in the order of time, and what they are called."""

    name: str
    values: FloatArray


def noisy_sine(
    length: int = 1000, noise: float = 0.2, rate: float = 0.01, seed: int = 0
) -> TimeSeries:
    r"""x_t = sin(ω t) + ε_t for t = 1 … length, ε normal with the standard deviation `noise`."""
    if length < 1 or noise < 0:
        raise ValueError(f"got length {length} and noise {noise}; wanted 1 or more and 0 or more.")
    drawn = generator(seed, "noisy sine").normal(0.0, noise, length)
    return TimeSeries("noisy sine", np.sin(rate * np.arange(1, length + 1)) + drawn)


# --- files --------------------------------------------------------------------------------------


def read_series(path: str | Path, column: str | int | None = None) -> TimeSeries:
    """A column of a table with tabs or commas, by name or number from 1; or one number a line.

    Left open, it is the only column of numbers. A first row without a number names the columns.
    A missing value is refused and not skipped, since every later one would be taken to be
    earlier than it was; empty lines at the end are no values.
    """
    rows = _rows(path)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path} is empty; one number a line or a table was wanted.")
    names = first.cells if _names(first.cells) else None
    sample = next(rows, None) if names else first
    if sample is None:
        raise DataError(f"{path} has a row of names and nothing below; numbers were wanted.")
    at = _place(path, sample.cells, names, column)
    name = names[at] if names else (f"column {at + 1}" if len(first.cells) > 1 else str(path))
    values = _numbers(path, chain([sample], rows), at, len(first.cells))
    return TimeSeries(name, np.array(values, np.float64))


class _Row(NamedTuple):
    line: int
    cells: list[str]


def _rows(path: str | Path) -> Iterator[_Row]:
    """The rows of a table; empty lines count as one empty cell, but not at the end."""
    waiting: list[_Row] = []
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
                yield from waiting
                yield row
                waiting = []
            else:
                waiting.append(row)
    except csv.Error as error:
        raise DataError(
            f"{path}, line {reader.line_num}: this is no row of a table ({error}). "
            "Look for a quotation mark that is not closed, or for a line without an end."
        ) from None


def _names(cells: list[str]) -> bool:
    """Whether a first row names the columns: it holds words, and no number."""
    return not any(map(_is_number, cells)) and any(
        cell.lower() not in MISSING_SERIES_VALUES for cell in cells
    )


def _is_number(cell: str) -> bool:
    try:
        return isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def _place(
    path: str | Path, sample: list[str], names: list[str] | None, column: str | int | None
) -> int:
    """The column asked for, from 0, or the only one of numbers."""
    shown = ", ".join(names or map(str, range(1, len(sample) + 1)))
    if column is None:
        found = [at for at, cell in enumerate(sample) if _is_number(cell)]
        if len(sample) == 1 or len(found) == 1:
            return found[0] if found else 0
        raise DataError(
            f"{path} has {len(sample)} columns, {len(found)} of them with numbers ({shown}); "
            "say which is the series."
        )
    if names and str(column) in names:
        return names.index(str(column))
    if str(column).isdecimal() and 1 <= int(column) <= len(names or sample):
        return int(column) - 1
    near = did_you_mean(str(column), names or [])
    raise DataError(f"{path} has no column {column!r}.{near} It has: {shown}.")


def _numbers(path: str | Path, rows: Iterable[_Row], at: int, width: int) -> list[float]:
    """The numbers of one column, or one error with all that is wrong."""
    values: list[float] = []
    complaints: list[str] = []
    wrong = 0
    for row in rows:
        if len(row.cells) == width and _is_number(row.cells[at]):
            values.append(float(row.cells[at]))
            continue
        wrong += 1
        if wrong <= MAX_LISTED_ERRORS:
            complaints.append(f"line {row.line}: {_complaint(row, at, width)}")
    if not wrong:
        return values
    rest = [f"… and {wrong - MAX_LISTED_ERRORS} more"] if wrong > MAX_LISTED_ERRORS else []
    count = "1 line" if wrong == 1 else f"{wrong} lines"
    heading = f"{path}: {count} cannot be used; a number was wanted in each. Fill or mend them:"
    raise DataError("\n  - ".join([heading, *complaints, *rest]))


def _complaint(row: _Row, at: int, width: int) -> str:
    if row.cells == [""] or (
        len(row.cells) == width and row.cells[at].lower() in MISSING_SERIES_VALUES
    ):
        return "the value is missing"
    if len(row.cells) != width:
        return f"{len(row.cells)} cells where the first row has {width}"
    return f"{row.cells[at][:40]!r} is not a number"


# --- windows ------------------------------------------------------------------------------------


class SeriesWindows(NamedTuple):
    """N windows: τ values each, and the k values that follow."""

    features: FloatArray  # (N, τ), the oldest first
    labels: FloatArray  # (N, k)
    times: NDArray[np.int64]  # (N,) where in the series each row's first label stands


def make_windows(values: FloatArray, lags: int, horizon: int = 1) -> SeriesWindows:
    """Every window of `past` values with the `ahead` values that follow it."""
    if lags < 1 or horizon < 1 or len(values) < lags + horizon:
        raise ValueError(
            f"got {len(values)} values for windows of {lags} and {horizon} ahead; wanted 1 or more "
            f"of both, and {max(lags, 1) + max(horizon, 1)} values at least."
        )
    rows = sliding_window_view(values, lags + horizon)
    times = np.arange(lags, len(values) - horizon + 1)
    return SeriesWindows(rows[:, :lags].copy(), rows[:, lags:].copy(), times)


def split_windows(
    values: FloatArray, lags: int, horizon: int = 1, dev: float = 0.1, test: float = 0.1
) -> dict[str, SeriesWindows]:
    """Windows for train, dev and test, by the time of what is to be foretold.

    All labels of a window lie in its own stretch of time, so that no held-out value is learned
    from. The features of the first held-out windows reach back into the stretch before: by then
    they are known.
    """
    if min(dev, test) < 0 or dev + test >= 1:
        raise ValueError(f"got shares of {dev} and {test}; wanted 0 or more, under 1 together.")
    every = make_windows(values, lags, horizon)
    ends = [round(len(values) * share) for share in (1 - dev - test, 1 - test, 1.0)]
    splits, start = {}, 0
    for name, end in zip(("train", "dev", "test"), ends, strict=True):
        inside = (every.times >= start) & (every.times + horizon <= end)
        splits[name] = SeriesWindows(
            every.features[inside], every.labels[inside], every.times[inside]
        )
        start = end
    if not len(splits["train"].times):
        raise ValueError(
            f"got {len(values)} values, of which {ends[0]} come before what is held out; windows "
            f"of {lags} and {horizon} need {lags + horizon}: hold less out or look back less."
        )
    return splits
