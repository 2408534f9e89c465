"""What two processes would spoil is one's at a time, for as long as it lives."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saccade.errors import RunError

try:
    import fcntl
except ImportError:  # on Windows two at once are not noticed
    fcntl = None  # type: ignore[assignment]


def try_lock(handle: int) -> bool:
    """Take an open file or folder until it is closed; False: another process has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network disks have no locks; most people have one terminal
        pass
    return True


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep others from training into a folder; one that is killed keeps nobody."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not try_lock(handle):
            raise RunError(
                f"{folder} is being trained by another process. Wait until that has ended or stop "
                "it, then go on with --resume; or choose another folder (--out)."
            )
        yield
    finally:
        os.close(handle)
