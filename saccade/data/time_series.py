r"""Time series for forecasting, from a file or synthetic, and sliding windows over them.

An autoregressive model with τ lags predicts x_t from x_{t−τ} … x_{t−1}; a window is that row of
features with the values that follow it. Splits are by time: held-out values come after the training
values.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.roles import RoleChoice
from saccade.data.split_keys import read_split_cells
from saccade.data.splits import SplitConfig
from saccade.data.tables.csv import Table
from saccade.data.tables.schema import parse_times
from saccade.data.task_records import RoleOptions, open_task_records
from saccade.errors import DataError
from saccade.io.numbers import is_number
from saccade.io.text_files import MAX_LISTED_ERRORS
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


class LoadedSeries(NamedTuple):
    """A series, the column of each role, and the choices that were left open."""

    series: TimeSeries
    columns: dict[str, str]
    choices: list[RoleChoice]
    times: FloatArray | None = None  # of the values, ascending; None: not known
    cells: Table | None = None  # columns that divide the values, in their order


def load_series_records(
    data: str | Path | object, options: ReadOptions, is_other: bool = False
) -> LoadedSeries:
    """Read a column of numbers from a file of any format, or from an object in memory.

    A missing value is an error and not skipped, since every later value would shift in time.

    Args:
        data: a path, or an object in memory.
        options: settings with the roles `target` and `time`.
        is_other: True for other data than that of the settings.
    """
    opened = open_task_records(data, options, "forecast", is_other=is_other)
    records, column = opened.records, opened.columns["target"]
    time = opened.columns.get("time")
    cells, numbers = _read_cells(records, column)
    values = _numbers(records, cells, numbers)
    lines, times, division = np.array(numbers, np.int64), None, None
    if isinstance(options, SplitConfig) and (ways := _division_of(records, options, is_other)):
        division = read_split_cells(records, ways, lines)
    if time is not None:
        table = Table(records.name, {time: _read_cells(records, time)[0]}, lines, unit=records.unit)
        times = parse_times(table, time)
        order = np.argsort(times, kind="stable")
        values, times = values[order], times[order]
        division = None if division is None else division.take(order)
    is_named = records.has_header or len(records.columns) > 1
    name = column if is_named else records.name
    series = TimeSeries(name, values)
    return LoadedSeries(series, opened.columns, opened.choices, times, division)


def _division_of(records: Records, config: SplitConfig, is_other: bool) -> SplitConfig | None:
    """Return the settings whose columns are read; of other data, the names of its series."""
    if not is_other:
        return config
    has_groups = config.group_by and all(name in records.columns for name in config.group_by)
    return SplitConfig(group_by=config.group_by) if has_groups else None


def read_series(path: str | Path, column: str | int | None = None) -> TimeSeries:
    """Return a column of a file: by name or by position from 1, or the only numeric one."""
    return load_series_records(path, RoleOptions(target=column)).series


def _read_cells(records: Records, column: str) -> tuple[list[str], list[int]]:
    """Return the cells of a column, empty ones for empty lines between, and their numbers."""
    cells: list[str] = []
    numbers: list[int] = []
    is_list = len(records.columns) == 1
    for chunk in records.chunks([column]):
        for cell, number in zip(chunk.columns[column], chunk.numbers.tolist(), strict=True):
            if records.unit == "line" and is_list and numbers:
                between = range(numbers[-1] + 1, number)  # lines that were left out as empty
                numbers += between
                cells += [""] * len(between)
            cells.append("" if cell is None else cell.strip())
            numbers.append(number)
    while is_list and cells and not cells[-1]:  # empty lines at the end
        cells.pop()
        numbers.pop()
    if not cells:
        raise DataError(f"{records.name}: got no values; expected one number in each row.")
    return cells, numbers


def _numbers(records: Records, cells: list[str], numbers: list[int]) -> FloatArray:
    """Return the numbers of a column, or raise one error for all rows that have none."""
    complaints = [
        f"{records.unit} {number}: {_complaint(cell)}"
        for cell, number in zip(cells, numbers, strict=True)
        if not is_number(cell)
    ]
    if not complaints:
        return np.array(cells, np.float64)
    more = len(complaints) - MAX_LISTED_ERRORS
    rest = [f"… and {more} more"] if more > 0 else []
    count = f"1 {records.unit}" if len(complaints) == 1 else f"{len(complaints)} {records.unit}s"
    heading = (
        f"{records.name}: {count} cannot be used; expected a number in each; fill in or correct "
        "them:"
    )
    raise DataError("\n  - ".join([heading, *complaints[:MAX_LISTED_ERRORS], *rest]))


def _complaint(cell: str) -> str:
    if cell.lower() in MISSING_SERIES_VALUES:
        return "the value is missing"
    return f"{cell[:40]!r} is not a number"


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
