r"""Points of a curve for regression: made with noise, or two columns of a file.

The made curve is y = 2 sin x + x^0.8 + ε on [0, 5), the one on which textbooks show that kernel
regression is attention.
"""

from collections.abc import Callable
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from saccade.config import Config
from saccade.errors import ConfigError, DataError
from saccade.io.text_files import read_lines
from saccade.registry import lookup
from saccade.seeding import generator

FloatArray = NDArray[np.float64]

MAX_LISTED_ERRORS = 5  # complaints that are written out; the others are counted
CURVE_END = 5.0  # of the made curve; it begins at 0


class PointsConfig(Config):
    """Where the points of a curve come from."""

    synthetic: str | None = None  # the name of a curve that is made on the spot
    path: str | None = None  # a file with x and y in each line
    points: int = Field(50, ge=2)  # to learn from, of a made curve; as many more are held out
    noise: float = Field(0.5, ge=0, allow_inf_nan=False)  # the deviation of ε, of a made curve
    test_share: float = Field(0.2, gt=0, lt=1)  # of a file's points
    seed: int = 1  # of the noise, and of what is held out


class Points(NamedTuple):
    """N points in the order of x, and what they are called."""

    name: str
    x: FloatArray
    y: FloatArray

    def to_json(self) -> dict[str, Any]:
        """Plain values; every bit of the numbers comes back."""
        return {"name": self.name, "x": self.x.tolist(), "y": self.y.tolist()}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Points":
        """The same points again."""
        sides = (np.array(values[side], np.float64) for side in ("x", "y"))
        return Points(values["name"], *sides)


class PointSplits(NamedTuple):
    """Points to learn from and points held out, and the curve they lie around, if it is known."""

    train: Points
    test: Points
    truth: Callable[[FloatArray], FloatArray] | None = None


def sort_points(name: str, x: FloatArray, y: FloatArray) -> Points:
    """The points by x; those of one place stay in their order."""
    order = np.argsort(x, kind="stable")
    return Points(name, x[order], y[order])


# --- made ---------------------------------------------------------------------------------------


def true_curve(x: FloatArray) -> FloatArray:
    r"""f(x) = 2 sin x + x^0.8."""
    return 2 * np.sin(x) + x**0.8


def noisy_curve(count: int = 50, noise: float = 0.5, seed: int = 1, purpose: str = "") -> Points:
    r"""y = f(x) + ε with x uniform on [0, 5) and ε normal with the standard deviation `noise`."""
    if count < 1 or not 0 <= noise < np.inf:
        raise ValueError(f"got {count} points and noise {noise}; wanted 1 or more and 0 or more.")
    draw = generator(seed, f"curve {purpose}".strip())
    x = draw.uniform(0.0, CURVE_END, count)
    return sort_points("curve", x, true_curve(x) + draw.normal(0.0, noise, count))


SYNTHETIC_CURVES: dict[str, Callable[..., Points]] = {"curve": noisy_curve}
TRUE_CURVES: dict[str, Callable[[FloatArray], FloatArray]] = {"curve": true_curve}


def load_points(config: PointsConfig) -> PointSplits:
    """Make or read the points, and hold some of them out."""
    if (config.synthetic is None) == (config.path is None):
        raise ConfigError(
            "a recipe for a curve needs data.synthetic (a curve that is always there) or data.path "
            f"(a file), and not both; it has made={config.synthetic!r} and path={config.path!r}."
        )
    if config.path is not None:
        return split_points(read_points(config.path), config.test_share, config.seed)
    assert config.synthetic is not None
    make = lookup(SYNTHETIC_CURVES, config.synthetic, "made curve")
    train, test = (
        make(config.points, config.noise, config.seed, purpose) for purpose in ("train", "test")
    )
    return PointSplits(train, test, TRUE_CURVES[config.synthetic])


def split_points(points: Points, share: float, seed: int) -> PointSplits:
    """Hold a share of the points out, one at least, chosen at random by the seed."""
    count = len(points.x)
    held = max(1, round(share * count))
    if count - held < 2:
        raise DataError(
            f"{points.name} has {count} point{'s' if count > 1 else ''}, of which {held} would be "
            "held out; 2 or more must be left to learn from. Give more, or lower data.test_share."
        )
    is_test = np.zeros(count, bool)
    is_test[generator(seed, "points held out").permutation(count)[:held]] = True
    train, test = (Points(points.name, points.x[w], points.y[w]) for w in (~is_test, is_test))
    return PointSplits(train, test)


# --- files --------------------------------------------------------------------------------------


def read_points(path: str | Path) -> Points:
    """x and y in each line, with a tab, a comma or spaces between; a first row of names may be.

    Empty lines are no points. All that is wrong comes in one message, with its lines.
    """
    lines = read_lines(path)
    first = next(lines, None)
    if first is None:
        raise DataError(f"{path} is empty; x and y in each line were wanted.")
    delimiter = next((delimiter for delimiter in ("\t", ",") if delimiter in first), None)
    found: list[tuple[float, ...]] = []
    complaints: list[str] = []
    wrong = 0
    for number, line in enumerate(chain([first], lines), start=1):
        cells = [cell.strip() for cell in line.split(delimiter)]
        if not any(cells) or (number == 1 and _names(cells)):
            continue
        if len(cells) == 2 and all(map(_is_number, cells)):
            found.append(tuple(map(float, cells)))
            continue
        wrong += 1
        if wrong <= MAX_LISTED_ERRORS:
            complaints.append(f"line {number}: {_complaint(cells)}")
    if wrong:
        rest = [f"… and {wrong - MAX_LISTED_ERRORS} more"] if wrong > MAX_LISTED_ERRORS else []
        count = "1 line" if wrong == 1 else f"{wrong} lines"
        heading = f"{path}: {count} cannot be used; x and y were wanted in each. Mend them:"
        raise DataError("\n  - ".join([heading, *complaints, *rest]))
    if not found:
        raise DataError(f"{path} has no point in it; x and y in each line were wanted.")
    x, y = np.array(found, np.float64).T
    return sort_points(str(path), x, y)


def _names(cells: list[str]) -> bool:
    """Whether a first row names the columns: two cells, and neither begins as a number does."""
    return len(cells) == 2 and not any(cell[:1].isdigit() or cell[:1] in "+-." for cell in cells)


def _is_number(cell: str) -> bool:
    try:
        return isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def _complaint(cells: list[str]) -> str:
    if len(cells) != 2:
        return f"{len(cells)} cell{'s' if len(cells) > 1 else ''} where 2 were wanted"
    wrong = next(cell for cell in cells if not _is_number(cell))
    return f"{wrong[:40]!r} is not a number" if wrong else "a value is missing"
