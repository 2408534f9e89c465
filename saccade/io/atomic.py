"""Atomic writes, and text and JSON files that carry their own checksum.

A file is written to a temporary name in the same folder, flushed to the disk and renamed: a reader
sees the old file or the new one, never half of one. Each file contains a SHA-256 checksum of the
rest of it, so that a flipped bit or a truncated file is found when it is read; files need not be
written in any particular order. Nothing that is read here is ever executed.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from saccade.errors import RunError
from saccade.io.file_kinds import check_regular_file
from saccade.io.lock import is_process_alive

CHECKSUM_KEY = "sha256"
HEADER_KEY = "sealed"  # of a safetensors file: the entry with its metadata and checksum


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at `path` by `content`; on any failure the old file is unchanged."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    _remove_stale_parts(path)
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        _remove_part(part)
        raise RunError(
            f"{path} could not be written: {error.strerror or error}. "
            "The old file is unchanged; free some space or choose another folder."
        ) from error
    except BaseException:
        _remove_part(part)
        raise
    _flush_folder(path.parent)


def _remove_stale_parts(path: Path) -> None:
    """Remove the temporary files of this file that killed processes have left."""
    start, end = f".{path.name}.", ".part"
    with suppress(OSError):  # a folder that cannot be listed
        for name in os.listdir(path.parent):
            if name.startswith(start) and name.endswith(end):
                pid = name[len(start) : -len(end)]
                if pid.isdecimal() and not is_process_alive(int(pid)):
                    _remove_part(path.with_name(name))


def write_new_file(path: Path, content: bytes) -> None:
    """Write a file that is not there, or that has this content; RunError if it has another."""
    check_regular_file(path, RunError)
    if path.exists() and path.read_bytes() != content:
        raise RunError(
            f"{path} already exists and has other content; expected a new file; try another name, "
            "or remove it."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)


def _remove_part(part: Path) -> None:
    """Remove the temporary file; if that fails too, the first error is the one to report."""
    with suppress(OSError):
        part.unlink()


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power failure, where folders can be flushed (not on Windows)."""
    # the file itself is complete and renamed by now, so an error here is not a failed write
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def corrupt_file_error(path: Path, reason: str) -> RunError:
    """Return the error for a file whose content differs from what was written."""
    return RunError(
        f"{path} is damaged: {reason:.1000}. It was not used. "
        "Copy it again from its source, or train again."
    )


def _read(path: Path) -> bytes:
    check_regular_file(path, RunError)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"{path} is missing. Is {path.parent} a finished run?") from None
    except OSError as error:
        raise RunError(f"{path} could not be read: {error.strerror or error}.") from None


# --- text: the last line is a comment with the checksum ------------------------------------------


def write_checksummed_text(path: Path, text: str) -> None:
    """Write text (TOML) with a last line, a `#` comment, that holds the checksum of the rest."""
    body = text if text.endswith("\n") else text + "\n"
    write_atomically(path, _with_checksum_line(body.encode()))


def read_checksummed_text(path: Path) -> str:
    """Return the text that `write_checksummed_text` wrote; `RunError` if the file was changed."""
    raw = _read(path)
    body, _, _ = raw.rpartition(f"# {CHECKSUM_KEY} ".encode())
    if raw != _with_checksum_line(body):
        raise corrupt_file_error(
            path, "it is not as it was written (a run's files are not meant to be edited)"
        )
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise corrupt_file_error(path, f"it is not UTF-8 text ({error.reason})") from None


def _with_checksum_line(body: bytes) -> bytes:
    return body + f"# {CHECKSUM_KEY} {sha256(body).hexdigest()}\n".encode()


# --- JSON: one field holds the checksum -----------------------------------------------------------


def write_checksummed_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object with a last field that holds the checksum of the others."""
    assert CHECKSUM_KEY not in value, f"the field {CHECKSUM_KEY!r} is reserved for the checksum"
    write_atomically(path, _with_checksum_field(value))


def read_checksummed_json(path: Path) -> dict[str, Any]:
    """Return the object that `write_checksummed_json` wrote; `RunError` if the file was changed."""
    raw = _read(path)
    try:
        value = json.loads(raw.decode())
        del value[CHECKSUM_KEY]
        as_written = _with_checksum_field(value)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise corrupt_file_error(
            path, "it is truncated or is not the JSON that was written"
        ) from None
    if raw != as_written:
        raise corrupt_file_error(path, "its content does not match its checksum")
    return dict(value)


def _with_checksum_field(value: Mapping[str, Any]) -> bytes:
    checksum = sha256(_json_bytes(value)).hexdigest()
    return _json_bytes({**value, CHECKSUM_KEY: checksum}) + b"\n"


def _json_bytes(value: Mapping[str, Any]) -> bytes:
    """Return UTF-8 JSON; lone surrogates (bytes of a path that are not UTF-8) are escaped."""
    return json.dumps(value, ensure_ascii=False, indent=1).encode(errors="backslashreplace")
