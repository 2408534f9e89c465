"""Numbers as users type them, and predictions that are numbers."""

from math import floor, isfinite, log10

from saccade.errors import DataError
from saccade.types.results import Prediction


def format_number(value: float, spread: float, digits: int = 3) -> str:
    """Format a number to `digits` significant digits of the spread of the data."""
    if not 1e-12 < spread < 1e15:
        return f"{value:.6g}"
    return f"{value:.{max(0, digits - 1 - floor(log10(spread)))}f}"


def numeric_prediction(values: list[float], spread: float) -> Prediction:
    """Return a prediction of one number or more."""
    text = " ".join(format_number(value, spread, 5) for value in values)
    single = values[0] if len(values) == 1 else None
    return Prediction(text, value=single, values=tuple(values))


def parse_number_list(text: str, number: int, expected: str) -> list[float]:
    """Parse the numbers of an input; `expected` describes them in errors."""
    cells = [cell.removesuffix(",") for cell in text.split()]
    for cell in cells:
        if not _is_number(cell):
            raise DataError(
                f"input {number}: got {cell[:40]!r}, which is not a number; expected {expected}."
            )
    if not cells:
        raise DataError(f"input {number}: got an empty line; expected {expected}.")
    return [float(cell) for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        return isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False
