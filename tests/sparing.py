"""Check shapes on a function's first calls of each test only, to keep the tests fast.

A check takes about 0.2 ms, several times what a small layer takes, and a training loop calls the
same few functions with the same shapes thousands of times. `pyproject.toml` names `checked` as the
type checker of signatures; conftest.py calls `reset_checks` before each test.
"""

import sys
from collections import Counter
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

from beartype import beartype

# per function and test; one call makes two checks, of its arguments and of its result
MAX_CHECKS_PER_FUNCTION = 60

_checks: Counter[tuple[str, str]] = Counter()
_unchecked: list[Any] = []


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the type checker that jaxtyping applies to a function: beartype with a call limit."""
    check = beartype(function)
    name = function.__module__, function.__qualname__

    @wraps(check)
    def counted(*arguments: Any, **named: Any) -> Any:
        _checks[name] += 1
        if _checks[name] == MAX_CHECKS_PER_FUNCTION:
            _stop_checking(*name)
        return check(*arguments, **named)

    return counted


def _stop_checking(module: str, path: str) -> None:
    """Mark a function so that jaxtyping calls it directly; nested functions are not found."""
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if isinstance(found, FunctionType):
        found.__dict__["__no_type_check__"] = True
        _unchecked.append(found)


def reset_checks() -> None:
    """Check every function again."""
    _checks.clear()
    while _unchecked:
        del _unchecked.pop().__dict__["__no_type_check__"]
