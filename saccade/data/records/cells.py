"""Conversion of values to cells: text, or None for a missing value."""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from enum import Enum
from types import NoneType
from typing import Any

import numpy as np

from saccade.data.records.base import Cells

MISSING_SCALARS = ("<NA>", "NaT")  # pandas' missing values that are not floats


def to_cell(value: Any) -> str | None:
    """Return the text of a value; None for None, NaN and the missing values of pandas.

    A list or a mapping is written as JSON.
    """
    if value is None or type(value) is str:
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))  # an IntEnum is its number
    if isinstance(value, float | np.floating):
        return None if math.isnan(value) else str(value)
    if isinstance(value, Enum):
        return to_cell(value.value)
    if isinstance(value, str | np.generic):
        value = value.item() if isinstance(value, np.generic) else str(value)
        return value if type(value) is str else to_cell(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, datetime | date | time):
        return None if str(value) in MISSING_SCALARS else value.isoformat()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return json.dumps(to_json_value(value), ensure_ascii=False)
    text = str(value)
    return None if text in MISSING_SCALARS else text


def to_cells(values: Iterable[Any]) -> Cells:
    """Return the texts of a column; most columns have values of one type."""
    column = list(values)
    kinds = {*map(type, column)}
    if kinds <= {str, NoneType}:
        return column
    if kinds == {int} or (kinds == {float} and not any(map(math.isnan, column))):
        return list(map(str, column))
    return [value if type(value) is str else to_cell(value) for value in column]


def to_json_value(value: Any) -> Any:
    """Return a value that JSON can hold, with the same cells."""
    if isinstance(value, Mapping):
        return {str(key): to_json_value(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json_value(inside) for inside in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return to_cell(value)


def flatten_fields(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the fields of nested mappings by dotted path."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat.update(flatten_fields(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
