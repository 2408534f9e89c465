"""Values that are likely to break something, and random changes of JSON values and texts.

Cases are JSON, in which some values have a short form, expanded by `expand`:

    {"$digits": 5000}        an integer of 5,000 digits
    {"$repeat": ["ab", 9]}   a text, repeated
    {"$nest": 2000}          a list in a list in a list …
    {"$float": "nan"}        a number that JSON does not have
    {"$delete": true}        the key is removed
"""

import random
import re
from collections.abc import Callable
from typing import Any

MAX_REPEATED = 1 << 20  # characters
_RAW = re.compile(r'"@digits:(\d+)@"')

HOSTILE: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    2,
    3,
    -1,
    7,
    64,
    1.5,
    0.0,
    -0.5,
    1e-300,
    1e308,
    1000,
    65536,
    65537,
    10**6,
    10**9,
    2**31 - 1,
    2**31,
    2**63 - 1,
    2**63,
    10**30,
    {"$digits": 5000},
    {"$float": "nan"},
    {"$float": "inf"},
    "",
    " ",
    "x",
    "a b",
    "0",
    "-1",
    "1e308",
    "nan",
    "\0",
    "\ud800",
    "\u0301" * 50,
    "../x",
    "/dev/zero",
    "/",
    ".",
    "-",
    "*",
    "#",
    "é\u202e",
    "<pad>",
    {"$repeat": ["a", 10000]},
    {"$repeat": ["(", 300]},
    {"$repeat": ["a/", 3000]},
    [],
    {},
    [[]],
    [0],
    [""],
    {"": 0},
    {"$nest": 2000},
]
DELETE = {"$delete": True}


def expand(value: Any) -> Any:
    """Return a value of a case with its short forms written out."""
    match value:
        case {"$digits": int(count), **others} if not others:
            return f"@digits:{max(0, min(count, 10**6))}@"  # written out by `with_digits`
        case {"$repeat": [str(text), int(times)], **others} if not others:
            return text * max(0, min(times, MAX_REPEATED // max(1, len(text))))
        case {"$nest": int(depth), **others} if not others:
            nested: list[Any] = []
            for _ in range(max(0, min(depth, 5000))):
                nested = [nested]
            return nested
        case {"$float": ("nan" | "inf" | "-inf") as text, **others} if not others:
            return float(text)
        case dict():
            return {key: expand(inner) for key, inner in value.items()}
        case list():
            return [expand(inner) for inner in value]
    return value


def with_digits(text: str) -> str:
    """Return a document in which the integers of many digits are written out."""
    return _RAW.sub(lambda match: "9" * int(match[1]), text)


def paths_of(value: Any, limit: int = 400) -> list[list[str | int]]:
    """Return the paths to the values inside a value, the first elements of lists only."""
    found: list[list[str | int]] = [[]]
    for path in found:
        if len(found) > limit:
            break
        inner = get(value, path)
        if isinstance(inner, dict):
            found += [[*path, key] for key in list(inner)[:60]]
        elif isinstance(inner, list):
            found += [[*path, index] for index in range(min(3, len(inner)))]
    return found


def get(value: Any, path: list[str | int]) -> Any:
    """Return the value at a path; None where there is none."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def put(value: Any, path: list[Any], new: Any) -> Any:
    """Return the value with another one at a path; missing parents are made."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, list) and isinstance(key, int):
        if new == DELETE and not rest:
            return value[:key] + value[key + 1 :]
        inner = value[key] if -len(value) <= key < len(value) else None
        return [*value[: max(key, 0)], put(inner, rest, new), *value[max(key, 0) + 1 :]]
    known = value if isinstance(value, dict) else {}
    if new == DELETE and not rest:
        return {name: inner for name, inner in known.items() if name != key}
    return {**known, str(key): put(known.get(str(key)), rest, new)}


def hostile_value(draw: random.Random, old: Any = None) -> Any:
    """Return a random value; often one of the type of the old one."""
    chosen = draw.random()
    if chosen < 0.15 and isinstance(old, int | float) and not isinstance(old, bool):
        return draw.choice([old + 1, old - 1, old * 2, -old, old * 10, old / 2, str(old)])
    if chosen < 0.3 and isinstance(old, str):
        return mutate_text(old, draw)
    if chosen < 0.4 and isinstance(old, list):
        return draw.choice([old * 2, old[::-1], old[:1], old[1:], [*old, hostile_value(draw)]])
    if chosen < 0.5:
        return DELETE
    return draw.choice(HOSTILE)


def mutate_text(text: str, draw: random.Random) -> str:
    """Return a text with some characters removed, doubled or replaced."""
    start, end = sorted(draw.randrange(len(text) + 1) for _ in range(2))
    middle = text[start:end]
    extra = draw.choice([v for v in HOSTILE if isinstance(v, str)])
    change: Callable[[], str] = draw.choice(
        [
            lambda: "",
            lambda: middle * 2,
            lambda: middle[::-1],
            lambda: middle.upper(),
            lambda: extra,
            lambda: chr(draw.choice([draw.randrange(32, 127), draw.randrange(0xD7FF)])),
        ]
    )
    return text[:start] + change() + text[end:]
