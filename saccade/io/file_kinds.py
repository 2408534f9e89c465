"""Kinds of files: what is not a regular file is refused by name, without opening it.

Opening a named pipe waits for a writer, and a device such as /dev/zero has no end. A pipe that a
shell has opened for the command, as in `saccade predict RUN --file <(zcat a.gz)`, is a file.
"""

import os
import stat
from pathlib import Path

from saccade.errors import DataError, SaccadeError

MAX_PATH_CHARS = 200  # characters of a path in a message
DESCRIPTORS = ("/dev/fd/", "/proc/self/fd/")
SPECIAL_FILES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def special_kind(path: str | Path) -> str | None:
    """Return "a folder", "a pipe", … for what is not a regular file; None for a file or nothing."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # ValueError: a path with a null character
        return None
    return SPECIAL_FILES.get(stat.S_IFMT(mode))


def is_opened_pipe(path: str | Path) -> bool:
    """Return True for a pipe that this process was started with: /dev/stdin, or /dev/fd/63."""
    name = str(path)
    is_descriptor = name.startswith(DESCRIPTORS) and name.rpartition("/")[2].isdecimal()
    return (is_descriptor or name == "/dev/stdin") and special_kind(path) == "a pipe"


def check_regular_file(path: Path, error_class: type[SaccadeError] = DataError) -> None:
    """Raise an error if there is a folder, a pipe, a socket or a device at a path."""
    kind = special_kind(path)
    if kind is not None:
        raise error_class(f"{path}: got {kind}; expected a file; try the path of a regular file.")


def format_path(path: str | Path) -> str:
    """Return a path as a message shows it: without control characters, of a long one the start."""
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(path))
    return text if len(text) <= MAX_PATH_CHARS else f"{text[:MAX_PATH_CHARS]}…"
