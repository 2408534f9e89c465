"""Numbers as people type them, and answers that are numbers."""

from math import floor, isfinite, log10
from typing import Any, NamedTuple

from saccade.errors import ConfigError, DataError

DEFAULT_SEARCH = {("beam", 1), ("n_best", 1)}  # how an answer is asked for when nothing is said


class NumericPrediction(NamedTuple):
    """An answer of one number or more: as text, and as they are."""

    text: str
    values: tuple[float, ...]
    alternatives: tuple["NumericPrediction", ...] = ()  # there are none: nothing is searched for


def format_number(value: float, spread: float, digits: int = 3) -> str:
    """A number to so many digits of what it varies by: what it is far from zero says nothing."""
    if not 1e-12 < spread < 1e15:
        return f"{value:.6g}"
    return f"{value:.{max(0, digits - 1 - floor(log10(spread)))}f}"


def numeric_prediction(values: list[float], spread: float) -> NumericPrediction:
    """The answer with these numbers."""
    return NumericPrediction(
        " ".join(format_number(value, spread, 5) for value in values), tuple(values)
    )


def parse_number_list(text: str, number: int, wanted: str) -> list[float]:
    """The numbers of an input, with spaces between; `wanted` says which, for the message."""
    cells = [cell.removesuffix(",") for cell in text.split()]
    for cell in cells:
        if not _is_number(cell):
            raise DataError(f"input {number}: {cell[:40]!r} is not a number; wanted {wanted}.")
    if not cells:
        raise DataError(f"input {number} is empty; wanted {wanted}.")
    return [float(cell) for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        return isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def reject_search_options(task: str, how: dict[str, Any]) -> None:
    """A task with one answer has no beam, and draws nothing by chance."""
    asked = [name for name, value in how.items() if (name, value) not in DEFAULT_SEARCH]
    if asked:
        raise ConfigError(
            f"got {', '.join(sorted(asked))}; {task} computes its one answer and searches for "
            f"nothing: leave {'it' if len(asked) == 1 else 'them'} out."
        )
