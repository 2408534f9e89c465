"""Files of ids, memory-mapped and verified when they are opened.

Compiled kernels index arrays by these ids without checks of their own, so an id outside its range
would read or write memory that is not theirs. Opening a file therefore reads it once: length,
CRC-32 and range, block by block. An index file next to the ids, with a checksum of its own, has
length and CRC-32; runs before version 0.7 have none, and only the range is verified.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import DTypeLike, NDArray

from saccade.errors import RunError
from saccade.io.atomic import corrupt_file_error, read_checksummed_json, write_checksummed_json
from saccade.io.documents import parse_structure
from saccade.io.memmap import open_memmap

_LOGGER = logging.getLogger("saccade")  # prints warnings to standard error
ID_INDEX_FILE = "ids.json"
ID_BLOCK = 1 << 18  # ids that are verified together: they stay in the cache


StoredT = TypeVar("StoredT")


class IdRange(NamedTuple):
    """Smallest and largest id."""

    low: int
    high: int


def ids_checksum(ids: NDArray[Any]) -> int:
    """Return the CRC-32 of ids, read block by block."""
    found = 0
    for start in range(0, len(ids), ID_BLOCK):
        found = crc32(ids[start : start + ID_BLOCK].data, found)
    return found


def open_ids(
    path: Path, dtype: DTypeLike, valid: IdRange, length: int | None, checksum: int | None
) -> NDArray[Any]:
    """Map a file of ids; RunError if its length, checksum or an id is wrong.

    Args:
        path: the file.
        dtype: the type of an id.
        valid: the range of the ids.
        length: number of ids; None: not known.
        checksum: their CRC-32; None: not known.
    """
    itemsize = np.dtype(dtype).itemsize
    try:
        if not path.is_file():
            raise corrupt_file_error(path, "it is missing or is not a file")
        size = path.stat().st_size
        if size % itemsize or length not in (None, size // itemsize):
            of = "" if length is None else f" of {length:,}"
            raise corrupt_file_error(path, f"it has {size:,} bytes, {size // itemsize:,} ids{of}")
        ids = open_memmap(path, dtype)
        found = 0
        for start in range(0, len(ids), ID_BLOCK):
            block = ids[start : start + ID_BLOCK]
            found = crc32(block.data, found)
            if int(block.min()) < valid.low or int(block.max()) > valid.high:
                raise corrupt_file_error(
                    path, f"it has ids outside of {valid.low:,} … {valid.high:,}"
                )
    except OSError as error:
        raise RunError(f"{path} could not be read: {error.strerror or error}.") from None
    if checksum not in (None, found):
        raise corrupt_file_error(path, "its content does not match its checksum")
    return ids


def stored_or_none(read: Callable[[], StoredT]) -> StoredT | None:
    """Return what `read` returns; None, with a warning, if its files are damaged."""
    try:
        return read()
    except RunError as error:
        _LOGGER.warning("%s The data is read again instead.", error)
        return None


def write_id_index(folder: Path, files: Mapping[str, NDArray[Any]]) -> None:
    """Write length and checksum of the ids in each file of a folder."""
    facts = {name: {"ids": len(ids), "crc32": ids_checksum(ids)} for name, ids in files.items()}
    write_checksummed_json(folder / ID_INDEX_FILE, {"files": facts})


def read_id_files(
    folder: Path, names: Mapping[str, str], dtype: DTypeLike, valid: IdRange
) -> dict[str, NDArray[Any]]:
    """Return the ids of those files of a folder that exist, by key; `names` are the files."""
    index: dict[str, Any] = {}
    if (folder / ID_INDEX_FILE).exists():
        path = folder / ID_INDEX_FILE
        try:
            index = parse_structure(dict[str, dict[str, int]], read_checksummed_json(path)["files"])
        except (KeyError, ValueError) as error:
            raise corrupt_file_error(path, f"it has another structure ({error})") from None
    found = {}
    for key, name in names.items():
        facts = index.get(name, {})
        if facts or (folder / name).exists():
            found[key] = open_ids(folder / name, dtype, valid, facts.get("ids"), facts.get("crc32"))
    return found
