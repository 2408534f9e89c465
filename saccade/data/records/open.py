"""Opening of tabular data: files, folders, globs, archives, addresses and objects in memory."""

import os
import re
from dataclasses import replace
from pathlib import Path

from saccade.data.datasets import cache_folder
from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.files import FORMAT_BYTES, is_workbook, open_file
from saccade.data.records.folders import open_archive, open_folder, open_glob
from saccade.data.records.memory import open_memory
from saccade.errors import DataError
from saccade.io.archives import archive_kind
from saccade.io.byte_source import (
    STANDARD_INPUT,
    ByteSource,
    file_source,
    spooled_standard_input,
)
from saccade.io.download import download_cached
from saccade.types.progress import ProgressCallback

ADDRESSES = ("http://", "https://")


def open_records(
    data: str | Path | object,
    options: ReadOptions | None = None,
    on_progress: ProgressCallback = lambda done, total: None,
) -> Records:
    """Open tabular data; the format is detected.

    Args:
        data: a path (of a file, a folder, an archive, or a glob), an address, "-" for standard
            input, or an object in memory. "#NAME" after a path or an address chooses a table of a
            database, a sheet of a workbook, a member of an archive, or a list in a JSON object.
        options: properties of a file that are known; None: detected.
        on_progress: receives the bytes of a download and their number.
    """
    options = ReadOptions() if options is None else options
    if isinstance(data, str | os.PathLike):
        return _open_name(os.fspath(data), options, on_progress)
    return open_memory(data)


def _open_name(name: str, options: ReadOptions, on_progress: ProgressCallback) -> Records:
    if name == STANDARD_INPUT:
        return _open_source(spooled_standard_input(), options, None)
    if name.startswith(ADDRESSES):
        address, _, part = name.partition("#")
        copy = download_cached(address, cache_folder() / "addresses", on_progress)
        records = _open_source(file_source(copy.path, address), options, part or None)
        return replace(records, notes=(copy.note, *records.notes)) if copy.note else records
    path, member = divide_name(name)
    if os.path.isdir(path):
        return open_folder(path, name, options, member)
    if not os.path.exists(path) and any(character in name for character in "*?["):
        return open_glob(os.path.expanduser(name), options)
    label = name if member is None else name.removesuffix(f"#{member}")
    return _open_source(file_source(path, label), options, member)


def divide_name(name: str) -> tuple[Path, str | None]:
    """Return a path and the part of it that is named after "#", if any."""
    path = Path(name).expanduser()
    if not os.path.exists(path):  # Path.exists raises for a name that is too long
        for match in re.finditer("#", name):  # a path may contain the character too
            before = Path(name[: match.start()]).expanduser()
            if os.path.exists(before) and str(before) != ".":
                return before, name[match.end() :] or None
    return path, None


def _open_source(source: ByteSource, options: ReadOptions, member: str | None) -> Records:
    start = source.first_bytes(FORMAT_BYTES)
    kind = archive_kind(start)
    if not kind or is_workbook(source, start):
        return open_file(source, options, member)
    if source.is_live:
        raise DataError(
            f"got a {kind} archive on standard input; expected a table; try to save it to a file."
        )
    return open_archive(source, kind, options, member)
