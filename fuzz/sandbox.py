"""A temporary working folder for each input, outside of which nothing is written."""

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fuzz.contract import Violation

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {  # audit events of the os module with the arguments that are paths
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.mkdir": (0,),
    "os.rmdir": (0,),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "shutil.rmtree": (0,),
}
_NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.bind")
# machine code that numba caches, the lists of fonts of matplotlib, and devices
_ALLOWED = ("__pycache__", "matplotlib", "/dev/", "/proc/")

_allowed: list[str] = []  # the folders that may be written; none: the hook is inactive
_violations: list[str] = []
_is_installed = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _allowed:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITES:
            _check_inside(path)
    elif event in _CHANGES:
        for position in _CHANGES[event]:
            _check_inside(arguments[position])
    elif event in _NETWORK:
        raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))


def _check_inside(path: Any) -> None:
    if not isinstance(path, str | bytes | os.PathLike):
        return
    real = os.path.realpath(os.fsdecode(path))
    if any(part in real for part in _ALLOWED) or real.startswith(tuple(_allowed)):
        return
    _violations.append(real)
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), real)


@contextmanager
def sandbox() -> Iterator[Path]:
    """Yield an empty folder, the working folder inside the block; writes elsewhere fail.

    A write elsewhere that was tried is a `Violation`.
    """
    global _is_installed
    if not _is_installed:
        sys.addaudithook(_audit)
        _is_installed = True
    before = os.getcwd()
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="fuzz-")))
    environment = {name: os.environ.get(name) for name in ("HOME", "TMPDIR", "SACCADE_DATA")}
    os.environ |= {"HOME": str(folder)}
    os.environ.pop("SACCADE_DATA", None)
    os.chdir(folder)
    _violations.clear()
    # temporary files, also of torch, are in the system's folder, under these prefixes
    temporary = os.path.realpath(tempfile.gettempdir())
    # the library prepares a folder under a temporary name next to its own
    _allowed.extend((str(folder), str(folder.with_name(f".{folder.name}."))))
    _allowed.extend(
        os.path.join(temporary, prefix) for prefix in ("saccade-", "tmp", "torchinductor_")
    )
    try:
        yield folder
    finally:
        _allowed.clear()
        os.chdir(before)
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)
    if _violations:
        raise Violation(f"a write outside of the working folder: {_violations[0]}")
