"""Output file of `predict --out`, written so that a killed command can resume.

Predictions are appended to the file, a chunk of lines at a time. A progress file next to it
(`predictions.txt.part.json`) records how many input lines are done and their hash, how many bytes
of predictions that made and their hash, and the options and run used. It is replaced only after
the predictions are on the disk, so what it records is always there; anything after that is an
incomplete chunk and is written again. After the last line the progress file is removed.

The same command resumes. Everything is compared by content, so the input may have moved, or have
grown at its end. A mismatch is refused: no file is overwritten or appended to unless all of its
bytes are known.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from glob import escape
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, NamedTuple

from saccade.errors import ConfigError, DataError, RunError
from saccade.io.atomic import read_checksummed_json, write_checksummed_json
from saccade.io.lock import try_lock
from saccade.io.staging import check_output_path

OUTPUT_HASH_CHUNK = 1 << 20


def _new_hash() -> "blake2b":
    return blake2b(digest_size=16)


class OutputProgress(NamedTuple):
    """State of an output file; the field names are keys of the progress file."""

    lines: int  # input lines done
    read: str  # hash of those lines
    bytes: int  # bytes of predictions
    written: str  # hash of those bytes
    file: int  # inode of the output file


class ResumableOutput:
    """The file of `--out`, open for more predictions; holds those for `lines` of the input."""

    def __init__(self, path: Path, request: dict[str, Any]):
        """Create the file, or open one that was started with the same `request`."""
        self.path, self.request = path, request
        _check_is_file(path)
        self.progress_file = path.with_name(f"{path.name}.part.json")
        self._file = _open_locked(path)
        try:
            self._read, self._written = _new_hash(), _new_hash()
            before = self._previous_progress()
            self.lines, self._bytes = (before.lines, before.bytes) if before else (0, 0)
            self._before = before
            self._file.seek(self._bytes)
            self._file.truncate()
            for leftover in path.parent.glob(f".{escape(self.progress_file.name)}.*.part"):
                leftover.unlink(missing_ok=True)
            if before is None:
                self._write_progress()
        except BaseException:
            self._file.close()
            raise

    def skip(self, lines: Iterator[str], name: str) -> None:
        """Skip the lines that are done; raise DataError if they differ from those done before."""
        if self._before is None:
            return
        for _ in range(self.lines):
            line = next(lines, None)
            if line is None:
                break
            self._read.update(line.encode() + b"\n")
        if self._read.hexdigest() != self._before.read:
            raise DataError(
                f"{name} is not the input of {self.path}: its first {self.lines:,} lines differ "
                f"from those predicted before. {self._remedy()}"
            )

    def add(self, sources: Sequence[str], predictions: str) -> None:
        """Write the predictions for more lines to the disk, then update the progress file."""
        content = predictions.encode()
        try:
            self._file.write(content)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RunError(
                f"{self.path} could not be written: {error.strerror or error}. Predictions for "
                f"{self.lines:,} lines are saved: free some space, then repeat the command."
            ) from error
        self._read.update("".join(f"{line}\n" for line in sources).encode())
        self._written.update(content)
        self.lines += len(sources)
        self._bytes += len(content)
        self._write_progress()

    def finish(self) -> None:
        """Remove the progress file: the output is complete."""
        self.progress_file.unlink(missing_ok=True)

    def __enter__(self) -> "ResumableOutput":
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # a full disk was reported already
            self._file.close()
        if not self.lines and self.progress_file.exists():  # nothing to resume from
            self.progress_file.unlink()
            self.path.unlink(missing_ok=True)

    def _write_progress(self) -> None:
        progress = OutputProgress(
            self.lines,
            self._read.hexdigest(),
            self._bytes,
            self._written.hexdigest(),
            os.fstat(self._file.fileno()).st_ino,
        )
        write_checksummed_json(
            self.progress_file, {"asked": self.request, "done": progress._asdict()}
        )

    def _previous_progress(self) -> OutputProgress | None:
        """Return the progress of an interrupted command; None for a new file."""
        status = os.fstat(self._file.fileno())
        if not status.st_size:
            return None
        if not self.progress_file.exists():
            raise RunError(
                f"{self.path} already exists and is complete or was not written by predict. "
                "Choose another --out, or remove it."
            )
        request, progress = self._read_progress()
        if changed := _differences(request, self.request):
            raise ConfigError(
                f"{self.path} was started with other options ({'; '.join(changed)}). "
                f"Use the same options as before. {self._remedy()}"
            )
        if self._is_unchanged(progress) and (progress.bytes or progress.file == status.st_ino):
            return progress
        raise RunError(f"{self.path} was changed after it was written. {self._remedy()}")

    def _read_progress(self) -> tuple[dict[str, Any], OutputProgress]:
        try:
            content = read_checksummed_json(self.progress_file)
            return content["asked"], OutputProgress(**content["done"])
        except (RunError, KeyError, TypeError):
            raise RunError(
                f"{self.progress_file}, the progress file of {self.path}, is damaged. "
                f"{self._remedy()}"
            ) from None

    def _is_unchanged(self, progress: OutputProgress) -> bool:
        left = progress.bytes
        self._file.seek(0)
        while left and (content := self._file.read(min(left, OUTPUT_HASH_CHUNK))):
            self._written.update(content)
            left -= len(content)
        return not left and self._written.hexdigest() == progress.written

    def _remedy(self) -> str:
        return (
            f"To start over, choose another --out, or remove {self.path.name} and "
            f"{self.progress_file.name}."
        )


def _check_is_file(path: Path) -> None:
    """Raise a ConfigError for a path at which no file can be written."""
    if check_output_path(path).is_dir():
        raise ConfigError(
            f"--out {path} is a folder; expected a file for the predictions. Without --out they "
            "go to standard output."
        )


def _open_locked(path: Path) -> IO[bytes]:
    """Open a file for reading and writing, locked against other processes."""
    try:
        file = path.open("r+b" if path.exists() else "x+b")
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"--out {path} could not be opened: {reason}. Check the path.") from None
    if not try_lock(file.fileno()):
        file.close()
        raise ConfigError(
            f"{path} is being written by another process. Wait for it, or choose another --out."
        )
    return file


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {before.get(name, 'unset')} before, {now.get(name, 'unset')} now"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]


def run_fingerprint(folder: Path) -> str:
    """Return a short hash of the files of a run that its predictions depend on."""
    digest = _new_hash()
    for name in ("run.toml", "tokenizer.json", "model.safetensors"):
        with (folder / name).open("rb") as file:
            while content := file.read(OUTPUT_HASH_CHUNK):
                digest.update(content)
    return digest.hexdigest()[:12]
