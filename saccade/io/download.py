"""Download of files, whole or one member of a zip archive, with limits on their size.

`download_cached` keeps a copy and asks the server whether it is still current.

A file is downloaded to a temporary name and gets its own name only after it was checked, so half a
file is never there.
"""

import hashlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EINVAL
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from saccade import __version__
from saccade.errors import DataError
from saccade.io.atomic import write_atomically
from saccade.io.byte_source import byte_source
from saccade.io.documents import parse_json
from saccade.io.text_files import read_blocks
from saccade.types.progress import ProgressCallback

MAX_DOWNLOAD_BYTES = 256 << 20  # of a published dataset
MAX_ADDRESS_BYTES = 4 << 30  # of an address that the user gave
MAX_UNPACKED_BYTES = 512 << 20
DOWNLOAD_CHUNK = 1 << 16  # bytes
DOWNLOAD_TIMEOUT = 30.0  # seconds without a byte from the server
MAX_LENGTH_DIGITS = 18  # of a Content-Length
MAX_CACHED_NAME = 80  # characters
NOT_MODIFIED = 304
VALIDATORS = {"If-None-Match": "ETag", "If-Modified-Since": "Last-Modified"}  # asked: sent
# some servers refuse a bare "Python-urllib"
USER_AGENT = f"Mozilla/5.0 (compatible; saccade/{__version__})"

# Errors of zipfile for a file that is no archive, a damaged one, or one with a password or an
# unknown compression. A damaged one may also make it seek to a negative offset: EINVAL.
ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, ValueError)


class CachedFile(NamedTuple):
    """The local copy of a file at an address, and a note for the user if it may be old."""

    path: Path
    note: str


class _NotModifiedError(Exception):
    """The copy that is here is current."""


def download_file(
    url: str,
    path: Path,
    archive_member: str = "",
    check: Callable[[Path], None] = lambda part: None,
    on_progress: ProgressCallback = lambda done, total: None,
) -> None:
    """Download a file to `path`, or one member of the zip archive at the address.

    `check` gets the temporary file and raises `DataError` if its content is wrong. Raises
    `DataError` with the reason if the download fails, without a full stop.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _part(path) as downloaded:
            _download(Request(url), downloaded, MAX_DOWNLOAD_BYTES, on_progress)
            if not archive_member:
                check(downloaded)
                os.replace(downloaded, path)
                return
            with _part(path.with_name(f"{path.name}.unpacked")) as unpacked:
                _unpack(downloaded, archive_member, unpacked)
                check(unpacked)
                os.replace(unpacked, path)
    except (DataError, HTTPException, OSError) as error:
        raise DataError(_reason(error)) from None


def download_cached(
    url: str, folder: Path, on_progress: ProgressCallback = lambda done, total: None
) -> CachedFile:
    """Download a file into a folder, unless the copy that is there is current.

    The server is asked by the validators that it sent with the copy (ETag, Last-Modified). A copy
    is also used, with a note, if the server cannot be reached.
    """
    name = re.sub(r"[^\w.-]", "_", Path(urlsplit(url).path).name)[-MAX_CACHED_NAME:] or "data"
    path = folder / hashlib.sha256(url.encode()).hexdigest()[:16] / name
    validators = path.with_name(f"{name}.validators.json")
    request = Request(url)
    has_copy = path.is_file()
    for header, value in (_read_validators(validators) if has_copy else {}).items():
        request.add_header(header, value)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _part(path) as downloaded:
            headers = _download(request, downloaded, MAX_ADDRESS_BYTES, on_progress)
            with suppress(OSError):
                validators.unlink()  # those of the copy that is replaced
            os.replace(downloaded, path)
        found = {ask: headers[sent] for ask, sent in VALIDATORS.items() if headers.get(sent)}
        write_atomically(validators, json.dumps(found).encode())
    except _NotModifiedError:
        return CachedFile(path, "")
    except (DataError, HTTPException, OSError) as error:
        if has_copy:
            return CachedFile(path, f"{url} cannot be reached ({_reason(error)}); its copy is used")
        raise DataError(
            f"{url} could not be downloaded: {_reason(error)}. Check the address, or download the "
            "file and give its path."
        ) from None
    return CachedFile(path, "")


def _read_validators(path: Path) -> dict[str, str]:
    try:
        found = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return {ask: str(found[ask]) for ask in VALIDATORS if ask in found}


def count_lines(path: Path) -> int:
    """Return the number of lines of a UTF-8 text file, plain or compressed."""
    return sum(block.content.count(b"\n") for block in read_blocks(path, "utf-8"))


def count_bytes_in(path: Path) -> int:
    """Return the number of bytes of a file, plain or compressed, without its compression."""
    with byte_source(path).open() as file:
        return sum(map(len, iter(lambda: file.read(DOWNLOAD_CHUNK), b"")))


def _reason(error: Exception) -> str:
    if isinstance(error, URLError):
        return _reason(error.reason) if isinstance(error.reason, OSError) else str(error.reason)
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return str(error).rstrip(".") or type(error).__name__


@contextmanager
def _part(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`, and remove what is left of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
    finally:
        with suppress(OSError):
            part.unlink()


def _download(
    request: Request, path: Path, max_bytes: int, on_progress: ProgressCallback
) -> Mapping[str, str]:
    """Write the response to a file and return its headers."""
    request.add_header("User-Agent", USER_AGENT)
    with _open(request) as response, path.open("wb") as file:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() and len(length) <= MAX_LENGTH_DIGITS else 0
        if total > max_bytes:
            raise DataError(f"got a file of {total:,} bytes; expected at most {max_bytes:,}")
        done = _copy(response.read, file, max_bytes, lambda done: on_progress(done, total))
        headers: Mapping[str, str] = response.headers
    if total and done < total:
        raise DataError(f"got {done:,} of {total:,} bytes before the connection ended; try again")
    return headers


def _open(request: Request) -> Any:
    try:
        return urlopen(request, timeout=DOWNLOAD_TIMEOUT)
    except HTTPError as error:
        error.close()  # it holds the connection
        if error.code == NOT_MODIFIED:
            raise _NotModifiedError from None
        raise DataError(f"the server answered {error.code} ({error.reason})") from None


def _unpack(archive: Path, member_name: str, path: Path) -> None:
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(member_name) as member:
            with path.open("wb") as file:
                _copy(member.read, file, MAX_UNPACKED_BYTES, lambda done: None)
    except (*ARCHIVE_ERRORS, OSError) as error:
        if isinstance(error, OSError) and error.errno != EINVAL:  # for example a full disk
            raise
        raise DataError(f"got no zip archive that contains {member_name} ({error})") from None


def _copy(
    read: Callable[[int], bytes],
    target: IO[bytes],
    max_bytes: int,
    on_progress: Callable[[int], None],
) -> int:
    """Copy a stream to its end, flush it to the disk, and return the number of bytes."""
    done = 0
    while content := read(DOWNLOAD_CHUNK):
        done += len(content)
        if done > max_bytes:
            raise DataError(f"got more than {max_bytes:,} bytes, the maximum")
        target.write(content)
        on_progress(done)
    target.flush()
    os.fsync(target.fileno())
    return done
