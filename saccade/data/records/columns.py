"""Names of columns: numbered where there is no header, different where names are repeated."""

from collections import Counter
from collections.abc import Sequence


def numbered_columns(count: int) -> tuple[str, ...]:
    """Return the names of columns without a header."""
    return tuple(f"column {number}" for number in range(1, count + 1))


def different_names(cells: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a different name for each cell of a header, and notes about repeated ones.

    White space in a name is one space; a column without a name has its number.
    """
    names = [" ".join(cell.split()) or f"column {n}" for n, cell in enumerate(cells, 1)]
    given, seen = {*names}, Counter[str]()
    different = []
    for name in names:
        seen[name] += 1
        new = name
        while seen[name] > 1 and (new := f"{name} ({seen[name]})") in given:
            seen[name] += 1
        given.add(new)
        different.append(new)
    notes = [
        f"{name!r} is the name of several columns; the second is '{name} (2)'"
        for name, count in Counter(names).items()
        if count > 1
    ]
    return tuple(different), tuple(notes)
