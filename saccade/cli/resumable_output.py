"""Answers that are kept as they come, so that a run that was killed can go on where it stopped.

They are appended to the file that `--out` names, a group of lines at a time. A note beside it
(`answers.txt.part.json`) says how far they go: how many lines of the input are answered and a
print of them, how many bytes that has made and a print of those, and what was asked of which
model. The note is replaced after the answers are on the disk, so what it says is always there;
what stands behind that was cut off in the middle and is written again. When the last line is
answered, the note goes away.

Whoever types the same command again goes on. Everything is compared by content, so the input may
have been moved, or have grown at its end. What does not match is refused: no file is written over
or added to that is not known to the last byte.
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

OUTPUT_HASH_CHUNK = 1 << 20


def _new_print() -> Any:
    return blake2b(digest_size=16)


class OutputProgress(NamedTuple):
    """How far a file has been answered."""

    lines: int  # of the input
    read: str  # the print of those lines
    bytes: int  # of the answers
    written: str  # the print of those bytes
    file: int  # which file of its folder the answers are in


class ResumableOutput:
    """The file of `--out`, open for more answers; `lines` of the input are answered in it."""

    def __init__(self, path: Path, request: dict[str, Any]):
        """Begin a file, or go on with one that was `asked` for the same."""
        self.path, self.request = path, request
        self.progress_file = path.with_name(f"{path.name}.part.json")
        self._file = _open_alone(path)
        try:
            self._read, self._written = _new_print(), _new_print()
            before = self._place_before()
            self.lines, self._bytes = (before.lines, before.bytes) if before else (0, 0)
            self._before = before
            self._file.seek(self._bytes)
            self._file.truncate()
            for begun in path.parent.glob(f".{escape(self.progress_file.name)}.*.part"):
                begun.unlink(missing_ok=True)
            if before is None:
                self._write_note()
        except BaseException:
            self._file.close()
            raise

    def skip(self, lines: Iterator[str], name: str) -> None:
        """Pass over the lines that are answered, which must be those that were answered then."""
        if self._before is None:
            return
        for _ in range(self.lines):
            line = next(lines, None)
            if line is None:
                break
            self._read.update(line.encode() + b"\n")
        if self._read.hexdigest() != self._before.read:
            raise DataError(
                f"{name} is not the file that {self.path} has answers to: its first "
                f"{self.lines:,} lines are not those that were answered. {self._what_to_do()}"
            )

    def add(self, sources: Sequence[str], answers: str) -> None:
        """Put the answers to some more lines on the disk, and note that they are there."""
        content = answers.encode()
        try:
            self._file.write(content)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise RunError(
                f"{self.path} could not be written: {error.strerror or error}. The answers to "
                f"{self.lines:,} lines are safe: make room, then type the same command again."
            ) from error
        for line in sources:
            self._read.update(line.encode() + b"\n")
        self._written.update(content)
        self.lines += len(sources)
        self._bytes += len(content)
        self._write_note()

    def finish(self) -> None:
        """All lines are answered: the file stands by itself."""
        self.progress_file.unlink(missing_ok=True)

    def __enter__(self) -> "ResumableOutput":
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # a full disk has been told of already
            self._file.close()
        if (
            not self.lines and self.progress_file.exists()
        ):  # nothing was answered, so nothing is left
            self.progress_file.unlink()
            self.path.unlink(missing_ok=True)

    def _write_note(self) -> None:
        place = OutputProgress(
            self.lines,
            self._read.hexdigest(),
            self._bytes,
            self._written.hexdigest(),
            os.fstat(self._file.fileno()).st_ino,
        )
        write_checksummed_json(self.progress_file, {"asked": self.request, "done": place._asdict()})

    def _place_before(self) -> OutputProgress | None:
        """Where a run that was stopped has come to; None: there is nothing to go on from."""
        status = os.fstat(self._file.fileno())
        if not status.st_size:
            return None
        if not self.progress_file.exists():
            raise RunError(
                f"{self.path} is already there, and is finished or not a file of answers. "
                "Choose another --out, or remove it."
            )
        request, place = self._read_note()
        if changed := _differences(request, self.request):
            raise ConfigError(
                f"{self.path} was begun with something else ({'; '.join(changed)}). "
                f"Ask as it was asked then. {self._what_to_do()}"
            )
        if self._is_as_it_was(place) and (place.bytes or place.file == status.st_ino):
            return place
        raise RunError(
            f"{self.path} has been changed since its answers were written. {self._what_to_do()}"
        )

    def _read_note(self) -> tuple[dict[str, Any], OutputProgress]:
        try:
            progress_file = read_checksummed_json(self.progress_file)
            return progress_file["asked"], OutputProgress(**progress_file["done"])
        except (RunError, KeyError, TypeError):
            raise RunError(
                f"{self.progress_file}, which says how far {self.path} has come, is damaged. "
                f"{self._what_to_do()}"
            ) from None

    def _is_as_it_was(self, place: OutputProgress) -> bool:
        left = place.bytes
        self._file.seek(0)
        while left and (content := self._file.read(min(left, OUTPUT_HASH_CHUNK))):
            self._written.update(content)
            left -= len(content)
        return not left and self._written.hexdigest() == place.written

    def _what_to_do(self) -> str:
        return f"To begin anew, choose another --out, or remove {self.path.name} and {self.progress_file.name}."


def _open_alone(path: Path) -> IO[bytes]:
    """Open for reading and writing what no other process is writing."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "no ordinary file"
        raise ConfigError(
            f"--out {path} is {kind}; a file for the answers was wanted. "
            "Without --out they go to standard output."
        )
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


def _differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {then.get(name, 'not said')} then, {now.get(name, 'not said')} now"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    ]


def run_fingerprint(folder: Path) -> str:
    """A short hash of all that an answer depends on."""
    digest = _new_print()
    for name in ("run.toml", "tokenizer.json", "model.safetensors"):
        with (folder / name).open("rb") as file:
            while content := file.read(OUTPUT_HASH_CHUNK):
                digest.update(content)
    return str(digest.hexdigest()[:12])
