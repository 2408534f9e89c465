"""Which run folders were made on this machine: a signature of the paths of their data.

A run folder may come from anywhere, and its settings name the files of its data. So that such a
folder cannot have files of this machine read, the paths are signed when a run is made
(HMAC-SHA-256), by a random key in the user's state folder ($XDG_STATE_HOME or ~/.local/state,
saccade/machine.key). The key is never written into a run, so that a folder that was given away and
comes back with other paths has no valid signature.
"""

import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from saccade.io.file_kinds import special_kind

PATH_SETTINGS = ("path", "dev", "test")  # settings of the data that name files
KEY_BYTES = 32


def sign_paths(data: Mapping[str, Any], remembered: Mapping[str, Any]) -> str:
    """Return the signature of the data paths of a run; empty where no key can be kept.

    Args:
        data: settings of the data.
        remembered: absolute and relative paths of the files, as run.toml has them.
    """
    key = _read_key() or _make_key()
    return "" if key is None else _signature(key, data, remembered)


def is_made_here(data: Mapping[str, Any], made: Mapping[str, Any]) -> bool:
    """Return True if a run has a signature of this machine for its data paths.

    Args:
        data: settings of the data.
        made: provenance of the run: `paths`, and their signature as `machine`.
    """
    key, found = _read_key(), made.get("machine")
    if key is None or not isinstance(found, str):
        return False
    return hmac.compare_digest(
        _signature(key, data, made.get("paths", {})).encode(), found.encode()
    )


def _signature(key: bytes, data: Mapping[str, Any], remembered: Mapping[str, Any]) -> str:
    given = {name: data.get(name) for name in PATH_SETTINGS}
    if data.get("world") is not None:  # an environment may be code of a module
        given["world"] = data["world"]
    text = json.dumps([given, remembered], sort_keys=True, default=str)
    return hmac.digest(key, text.encode(), "sha256").hex()


def _key_file() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "saccade" / "machine.key"


def _read_key() -> bytes | None:
    with suppress(OSError, RuntimeError):  # RuntimeError: a user without a home
        path = _key_file()
        if special_kind(path) is None:
            key = path.read_bytes()
            return key if len(key) == KEY_BYTES else None
    return None


def _make_key() -> bytes | None:
    """Write a new key and return it, or that of a process that was faster."""
    with suppress(OSError, RuntimeError):
        path = _key_file()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        with suppress(FileExistsError):
            os.link(part, path)  # fails if there is one
        part.unlink()
    return _read_key()
