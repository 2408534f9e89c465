"""What is not a regular file, for tests of readers."""

import os
import stat
from pathlib import Path

SPECIAL_KINDS = ("a device", "a folder", "a pipe", "a socket")


def make_special(kind: str, path: Path) -> None:
    """Put what is not a regular file at a path."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "a folder":
        path.mkdir()
    else:
        os.mknod(path, 0o600 | stat.S_IFSOCK)
