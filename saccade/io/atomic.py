"""Files that are whole or not there, and that know whether they are as they were written.

A file is written beside its place, flushed to the disk and renamed: whoever reads sees the old
one or the new one, never half of one. Each file carries its own seal, a SHA-256 of the rest of
it, so that a flipped bit or a cut tail is found when it is read, and files need no order among
each other. Nothing that is read here is ever executed.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from saccade.errors import RunError

CHECKSUM_KEY = "sha256"


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one move; on any failure the old file stays as it was."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        _forget(beside)
        raise RunError(
            f"{path} could not be written: {error.strerror or error}. "
            "What was there before is untouched; make room or choose another folder."
        ) from error
    except BaseException:
        _forget(beside)
        raise
    _flush_folder(path.parent)


def _forget(beside: Path) -> None:
    """Remove what was begun; if that fails too, the first error is the one to tell."""
    with suppress(OSError):
        beside.unlink()


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where folders can be flushed (on Windows they cannot)."""
    # the file itself is whole and in its place by now, so a refusal here is no failure
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def corrupt_file_error(path: Path, reason: str) -> RunError:
    """The error for a file that is not as it was written."""
    return RunError(
        f"{path} is damaged: {reason}. It was not used. "
        "Copy it again from where it came, or train again."
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise RunError(f"{path} is missing. Is {path.parent} a finished run?") from None
    except OSError as error:
        raise RunError(f"{path} could not be read: {error.strerror or error}.") from None


# --- text: the last line is a comment with the seal ---------------------------------------------


def write_checksummed_text(path: Path, text: str) -> None:
    """Write text whose last line, a `#` comment, seals the rest (TOML)."""
    body = text if text.endswith("\n") else text + "\n"
    write_atomically(path, _sealed_text(body.encode()))


def read_checksummed_text(path: Path) -> str:
    """The text that `write_text` wrote, or a `RunError` if it was changed since."""
    raw = _read(path)
    body, _, _ = raw.rpartition(f"# {CHECKSUM_KEY} ".encode())
    if raw != _sealed_text(body):
        raise corrupt_file_error(
            path, "it is not as it was written (a run's files are not meant to be edited)"
        )
    return body.decode()


def _sealed_text(body: bytes) -> bytes:
    return body + f"# {CHECKSUM_KEY} {sha256(body).hexdigest()}\n".encode()


# --- JSON: one field holds the seal ---------------------------------------------------------------


def write_checksummed_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object with a last field that seals the others."""
    assert CHECKSUM_KEY not in value, f"the field {CHECKSUM_KEY!r} is the seal's"
    write_atomically(path, _sealed_json(value))


def read_checksummed_json(path: Path) -> dict[str, Any]:
    """The object that `write_json` wrote, or a `RunError` if it was changed since."""
    raw = _read(path)
    try:
        value = json.loads(raw.decode())
        del value[CHECKSUM_KEY]
        as_written = _sealed_json(value)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise corrupt_file_error(
            path, "it is cut short or is not the JSON that was written"
        ) from None
    if raw != as_written:
        raise corrupt_file_error(path, "its content does not match its seal")
    return dict(value)


def _sealed_json(value: Mapping[str, Any]) -> bytes:
    body = json.dumps(value, ensure_ascii=False, indent=1)
    sealed = {**value, CHECKSUM_KEY: sha256(body.encode()).hexdigest()}
    return (json.dumps(sealed, ensure_ascii=False, indent=1) + "\n").encode()
