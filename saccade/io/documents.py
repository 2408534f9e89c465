"""JSON and TOML texts of any origin: every defect is a ValueError, also nesting without end."""

import json
import tomllib
from reprlib import repr as short_repr
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

PositiveNumber = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_TOO_DEEP = "it is nested too deeply"


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; ValueError if it is not JSON or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text ({error.reason})") from None
    except ValueError:  # of int(): Python limits the digits
        raise ValueError("it has an integer of thousands of digits") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text; ValueError if it is not TOML or is nested too deeply."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def parse_structure(kind: Any, value: Any) -> Any:
    """Return plain values as a type with annotations; ValueError if a value is of another type.

    Args:
        kind: a NamedTuple, a TypedDict or another type; a field may have a range.
        value: as `parse_json` returns it. A list is accepted for a tuple, 1 for 1.0, and nothing
            else is converted.
    """
    try:
        return TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"got {short_repr(first['input'])} as {where}: {first['msg']}") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
