"""Exclusive process-lifetime locks on files and run folders (flock)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saccade.errors import RunError

try:
    import fcntl
except ImportError:  # Windows: two processes in one folder are not detected
    fcntl = None  # type: ignore[assignment]


def try_lock(handle: int) -> bool:
    """Lock an open file or folder until it is closed; return False if another process holds it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems have no locks; carry on without one
        pass
    return True


def is_process_alive(pid: int) -> bool:
    """Return False if there is no process of that number."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # a process of another user
        return True
    return True


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock a run folder against other processes; the lock ends with the process, even if killed."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not try_lock(handle):
            raise RunError(
                f"{folder} is being trained by another process. Wait until that has ended or stop "
                "it, then continue with --resume; or choose another folder (--out)."
            )
        yield
    finally:
        os.close(handle)
