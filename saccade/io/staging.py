"""Folders that are written whole or not at all, and checks of the path of an output.

A folder is prepared under a temporary name next to its own (`.NAME.PID.staging`) and renamed when
it is complete. A process that was killed leaves that temporary folder at most, which the next one
removes.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from saccade.errors import ConfigError, RunError
from saccade.io.file_kinds import format_path, special_kind
from saccade.io.lock import is_process_alive


def check_output_path(path: str | Path, option: str = "--out") -> Path:
    """Return the absolute path of an output, with links followed.

    Raises a ConfigError for a path that no file can have or that is not UTF-8, and for a pipe, a
    socket or a device.
    """
    listed = format_path(path)
    try:
        os.lstat(path)
    except ValueError:
        raise ConfigError(
            f"got {option} {listed}, which has a null character; expected the path of a file or a "
            "folder."
        ) from None
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ConfigError(
            f"got {option} {listed}, which cannot be written: {error.strerror or error}; try "
            "another path."
        ) from None
    kind = special_kind(path)
    if os.path.islink(path) and not os.path.exists(path):
        kind = "a link to nothing"
    if kind not in (None, "a folder"):
        raise ConfigError(
            f"got {option} {listed}, which is {kind}; expected a new file or folder; try another "
            "path."
        )
    found = os.path.realpath(path)
    try:
        found.encode()
    except UnicodeEncodeError:  # a file of tensors under such a path cannot be opened
        raise ConfigError(
            f"got {option} {listed}, whose path {format_path(found)} is not UTF-8; expected UTF-8; "
            "try another path."
        ) from None
    return Path(found)


def check_output_folder(folder: str | Path, kept: Iterable[Path] = ()) -> Path:
    """Return the absolute path of a folder that may be replaced by an output.

    Raises a ConfigError for a file, and for the working folder, one of the folders `kept`, and
    every folder that contains one of them.
    """
    found = check_output_path(folder)
    listed = format_path(folder)
    if found.is_file():
        raise ConfigError(
            f"got --out {listed}, which is a file; expected a new or an empty folder; try another "
            "path."
        )
    for inside in (Path.cwd(), *kept):
        absolute = Path(os.path.realpath(inside))
        if found == absolute or found in absolute.parents:
            what = "is" if found == absolute else "contains"
            raise ConfigError(
                f"got --out {listed}, which {what} the folder {absolute}; expected a new folder; "
                "try --out with another name."
            )
    return found


@contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """Yield a path next to `folder` for what becomes it or a part of it; removed unless moved.

    What killed processes left there is removed first.
    """
    folder = Path(os.path.realpath(folder))
    for left in folder.parent.glob(f".{escape(folder.name)}.*.staging"):
        pid = left.name.split(".")[-2]
        if not (pid.isdecimal() and is_process_alive(int(pid))):
            shutil.rmtree(left, ignore_errors=True)
    staging = _temporary_name(folder, "")
    shutil.rmtree(staging, ignore_errors=True)  # of a process with the same number
    had_parent = folder.parent.exists()
    try:
        yield staging
    except OSError as error:
        if error.filename != str(staging):
            raise
        reason = error.strerror or error
        raise RunError(f"{folder} could not be written: {reason}; try another path.") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if not had_parent:
            with suppress(OSError):  # not empty: the output is in it
                folder.parent.rmdir()


def replace_folder(staging: Path, folder: Path) -> None:
    """Move a complete folder to its own path; what is there before is removed.

    The old folder is renamed first: at no moment is there a part of it, or of the new one.
    """
    folder = Path(os.path.realpath(folder))
    old = _temporary_name(folder, ".old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    staging.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _temporary_name(folder: Path, role: str) -> Path:
    return folder.with_name(f".{folder.name}{role}.{os.getpid()}.staging")
