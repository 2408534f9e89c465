r"""Points for one-dimensional regression: a noisy synthetic curve, or two columns of a file.

The synthetic curve is y = 2 sin x + x^0.8 + ε on [0, 5), the textbook example of kernel regression
as attention.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field, FiniteFloat

from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.open import open_records
from saccade.data.source import PathSource, SourceConfig, resolve_source
from saccade.errors import DataError
from saccade.io.documents import parse_structure
from saccade.io.numbers import is_number
from saccade.io.text_files import MAX_LISTED_ERRORS, read_lines
from saccade.seeding import generator
from saccade.types.arrays import FloatArray
from saccade.types.limits import MAX_COUNT, MAX_SEED, MAX_VALUE

CURVE_END = 5.0  # the synthetic curve is on [0, CURVE_END)


class PointsConfig(SourceConfig):
    """Source and splits of the points of a curve."""

    points: int = Field(50, ge=2, le=MAX_COUNT)
    """Number of training points of a synthetic curve; as many are held out."""
    noise: float = Field(0.5, ge=0, le=MAX_VALUE)
    """Standard deviation of the noise of a synthetic curve."""
    test_share: float = Field(0.2, gt=0, lt=1)
    """Share of a file's points that is held out."""
    seed: int = Field(1, ge=0, le=MAX_SEED)
    """Random seed of the noise and of the split."""


class Points(NamedTuple):
    """N points sorted by x, and their name."""

    name: str
    x: FloatArray
    y: FloatArray

    def to_json(self) -> dict[str, Any]:
        """Return plain values, from which every bit of the numbers is restored."""
        return {"name": self.name, "x": self.x.tolist(), "y": self.y.tolist()}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Points":
        """Return the points that `to_json` described."""
        x, y = (
            np.array(parse_structure(list[FiniteFloat], values[side]), np.float64)
            for side in ("x", "y")
        )
        if len(x) != len(y) or not len(x):
            raise ValueError(f"got {len(x):,} values of x and {len(y):,} of y")
        return Points(parse_structure(str, values["name"]), x, y)


class PointSplits(NamedTuple):
    """Training points, held-out points, and the true curve, if it is known."""

    train: Points
    test: Points
    truth: Callable[[FloatArray], FloatArray] | None = None


def sort_points(name: str, x: FloatArray, y: FloatArray) -> Points:
    """Return the points sorted by x; those of equal x stay in their order."""
    order = np.argsort(x, kind="stable")
    return Points(name, x[order], y[order])


# --- synthetic ----------------------------------------------------------------------------------


def true_curve(x: FloatArray) -> FloatArray:
    r"""Return f(x) = 2 sin x + x^0.8."""
    return 2 * np.sin(x) + x**0.8


def noisy_curve(count: int = 50, noise: float = 0.5, seed: int = 1, purpose: str = "") -> Points:
    r"""Return y = f(x) + ε with x uniform on [0, 5) and ε ~ N(0, noise²)."""
    if count < 1 or not 0 <= noise < np.inf:
        raise ValueError(f"got {count} points and noise {noise}; expected count ≥ 1 and noise ≥ 0.")
    draw = generator(seed, f"curve {purpose}".strip())
    x = draw.uniform(0.0, CURVE_END, count)
    return sort_points("curve", x, true_curve(x) + draw.normal(0.0, noise, count))


SYNTHETIC_CURVES: dict[str, Callable[..., Points]] = {"curve": noisy_curve}
TRUE_CURVES: dict[str, Callable[[FloatArray], FloatArray]] = {"curve": true_curve}


def load_points(config: PointsConfig) -> PointSplits:
    """Generate or read the points, and hold some of them out."""
    source = resolve_source(config, SYNTHETIC_CURVES, what="curve")
    if isinstance(source, PathSource):
        return split_points(read_points(source.path, config), config.test_share, config.seed)
    train, test = (
        SYNTHETIC_CURVES[source.name](config.points, config.noise, config.seed, purpose)
        for purpose in ("train", "test")
    )
    return PointSplits(train, test, TRUE_CURVES[source.name])


def split_points(points: Points, share: float, seed: int) -> PointSplits:
    """Hold out a random share of the points, at least one."""
    count = len(points.x)
    held = max(1, round(share * count))
    if count - held < 2:
        raise DataError(
            f"{points.name}: got {count} point{'s' if count > 1 else ''}, of which {held} would be "
            "held out; expected at least 2 for training; try more points, or less data.test_share."
        )
    is_test = np.zeros(count, bool)
    is_test[generator(seed, "points held out").permutation(count)[:held]] = True
    train, test = (Points(points.name, points.x[w], points.y[w]) for w in (~is_test, is_test))
    return PointSplits(train, test)


# --- files --------------------------------------------------------------------------------------


def read_points(data: str | Path | object, options: ReadOptions | None = None) -> Points:
    """Read x and y from a file of two columns, of the columns `x` and `y`, or from memory.

    In a text file there is a tab, a comma or spaces between; a header row is optional and empty
    lines are skipped. One error lists all rows that are wrong.
    """
    records = open_records(data, options)
    if records.text_source is not None and not _has_names(records):
        return _read_lines(records.name, read_lines(records.text_source, records.encoding))
    return _read_records(records)


def _has_names(records: Records) -> bool:
    return {"x", "y"} <= {*records.columns} and len(records.columns) > 2


def _read_records(records: Records) -> Points:
    columns = ("x", "y") if {"x", "y"} <= {*records.columns} else records.columns
    if len(columns) != 2:
        raise DataError(
            f"{records.name}: got the columns {', '.join(records.columns)}; expected two, or x and "
            "y; try to rename two of them to x and y."
        )
    found: list[tuple[float, ...]] = []
    wrong: list[str] = []
    for chunk in records.chunks(columns):
        rows = zip(*chunk.columns.values(), chunk.numbers.tolist(), strict=True)
        for *cells, number in rows:
            texts = ["" if cell is None else str(cell).strip() for cell in cells]
            if all(map(is_number, texts)):
                found.append(tuple(map(float, texts)))
            else:
                wrong.append(f"{records.unit} {number}: {_complaint(texts)}")
    return _points(records.name, records.unit, found, wrong)


def _read_lines(name: str, lines: Iterator[str]) -> Points:
    first = next(lines, "")
    delimiter = next((delimiter for delimiter in ("\t", ",") if delimiter in first), None)
    found: list[tuple[float, ...]] = []
    wrong: list[str] = []
    for number, line in enumerate(chain([first], lines), start=1):
        cells = [cell.strip() for cell in line.split(delimiter)]
        if not any(cells) or (number == 1 and _is_header(cells)):
            continue
        if len(cells) == 2 and all(map(is_number, cells)):
            found.append(tuple(map(float, cells)))
        else:
            wrong.append(f"line {number}: {_complaint(cells)}")
    return _points(name, "line", found, wrong)


def _points(name: str, unit: str, found: list[tuple[float, ...]], wrong: list[str]) -> Points:
    """Return the points, or raise one error with the rows that are wrong."""
    if wrong:
        more = len(wrong) - MAX_LISTED_ERRORS
        rest = [f"… and {more} more"] if more > 0 else []
        count = f"1 {unit}" if len(wrong) == 1 else f"{len(wrong)} {unit}s"
        heading = f"{name}: {count} cannot be used; expected x and y in each; correct them:"
        raise DataError("\n  - ".join([heading, *wrong[:MAX_LISTED_ERRORS], *rest]))
    if not found:
        raise DataError(f"{name}: got no points; expected x and y in each {unit}.")
    x, y = np.array(found, np.float64).T
    return sort_points(name, x, y)


def _is_header(cells: list[str]) -> bool:
    """Return True if a first row names the columns: two cells, neither like a number."""
    return len(cells) == 2 and not any(cell[:1].isdigit() or cell[:1] in "+-." for cell in cells)


def _complaint(cells: list[str]) -> str:
    if len(cells) != 2:
        return f"got {len(cells)} cell{'s' if len(cells) > 1 else ''}; expected 2"
    wrong = next(cell for cell in cells if not is_number(cell))
    return f"{wrong[:40]!r} is not a number" if wrong else "a value is missing"
