"""Shapes are checked on a function's first calls in a test, and not on its ten thousandth.

A check takes about 0.2 ms, several times what a small layer takes itself, and a loop calls the same
few functions with the same shapes again and again. `pyproject.toml` names `checked` as what the
signatures are checked by; `begin` is called before each test.
"""

import sys
from collections import Counter
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

from beartype import beartype

MOST = 60  # checks of one function in a test; a call is two, of what comes in and what goes out

_checks: Counter[tuple[str, str]] = Counter()
_resting: list[Any] = []


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The stand-in that jaxtyping calls with a function's arguments, checked by beartype."""
    check = beartype(function)
    name = function.__module__, function.__qualname__

    @wraps(check)
    def counted(*arguments: Any, **named: Any) -> Any:
        _checks[name] += 1
        if _checks[name] == MOST:
            _rest(*name)
        return check(*arguments, **named)

    return counted


def _rest(module: str, path: str) -> None:
    """jaxtyping calls a function with this mark as it is; one inside of another is not found."""
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if isinstance(found, FunctionType):
        found.__dict__["__no_type_check__"] = True
        _resting.append(found)


def begin() -> None:
    """Check every function anew."""
    _checks.clear()
    while _resting:
        del _resting.pop().__dict__["__no_type_check__"]
