"""Images with a class or another text each, not decoded yet, and the names of files."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from saccade.data.images.decode import RawImage
from saccade.data.records.base import Records
from saccade.data.records.roles import RoleChoice
from saccade.errors import DataError, bullet_list
from saccade.types.arrays import IntArray

MAX_REFUSED_ROWS = 20  # in an error


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images with a class each, not decoded yet."""

    name: str  # of the source, for messages
    names: Sequence[str]  # of the images
    labels: Sequence[str]  # "": none
    read: Callable[[int], RawImage]
    splits: Sequence[str | None] | None = None  # where the source is divided
    records: Records | None = None  # of a table
    numbers: IntArray | None = None  # rows of the table
    columns: dict[str, str] = field(default_factory=dict)  # by role, of a table
    choices: list[RoleChoice] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.names)


def refuse_rows(source: str, complaints: Sequence[str]) -> None:
    """Raise a DataError with the complaints about rows, if there are any."""
    if complaints:
        listed = [*complaints[:MAX_REFUSED_ROWS]]
        more = len(complaints) - len(listed)
        heading = f"{source}: got {len(complaints):,} rows that cannot be used:"
        raise DataError(
            bullet_list([*listed, *([f"… and {more:,} more"] if more else [])], heading)
        )


def printable(name: str) -> str:
    """Return a name as it is printed, in one line."""
    return decodable(name).replace("\n", "\\n").replace("\r", "\\r")


def decodable(name: str) -> str:
    r"""Return a name with `\xff` for each byte that is not UTF-8, so that it can be written."""
    return re.sub("[\ud800-\udfff]", lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", name)
