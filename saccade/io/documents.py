"""JSON and TOML texts of any origin: every defect is a ValueError, also nesting without end."""

import json
import tomllib
from typing import Any

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
