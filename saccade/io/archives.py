"""Members of zip and tar archives as sources of bytes.

A member is read as a stream inside its archive and never written under its own name, so a path that
leads out of a folder does no harm. A member that would unpack to an implausible size is refused.
"""

import tarfile
import weakref
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast

from saccade.errors import DataError
from saccade.io.byte_source import FIRST_BYTES, ByteSource, local_file, unpacked
from saccade.io.compression import UNPACKING_ERRORS, UnpackedStream, check_unpacked_size
from saccade.registry import did_you_mean

TAR_MAGIC_OFFSET = 257
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")


class ArchiveMember(NamedTuple):
    """A file in an archive."""

    name: str
    size: int


def archive_kind(start: bytes) -> str:
    """Return "zip" or "tar" for the first bytes of an archive, else an empty string."""
    if start.startswith(ZIP_MAGIC):
        return "zip"
    magic = start[TAR_MAGIC_OFFSET : TAR_MAGIC_OFFSET + 5]
    return "tar" if magic == b"ustar" else ""


def list_members(source: ByteSource, kind: str) -> list[ArchiveMember]:
    """Return the files of an archive, without hidden ones, sorted by name."""
    with _errors(source):
        found = list(_zip_members(source) if kind == "zip" else _tar_members(source))
    visible = [
        member for member in found if not any(map(_is_hidden, PurePosixPath(member.name).parts))
    ]
    return sorted(visible)


def _is_hidden(part: str) -> bool:
    return part == "__MACOSX" or (part.startswith(".") and part != "..")


def member_source(source: ByteSource, kind: str, name: str) -> ByteSource:
    """Return the source of a member; `DataError` with the nearest name if there is none."""
    names = [member.name for member in list_members(source, kind)]
    if name not in names:
        listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise DataError(
            f"{source.name}: got no member {name!r}.{did_you_mean(name, names)} It contains: "
            f"{listed or 'no file'}."
        )
    label = f"{source.name}#{name}"
    open_member = _open_zip_member if kind == "zip" else _open_tar_member

    def opened() -> IO[bytes]:
        with _errors(source), open_member(source, name) as stream:
            start = stream.read(FIRST_BYTES)
        return unpacked(open_member(source, name), start, label)

    return ByteSource(label, opened)


class ArchiveReader:
    """Members of an archive, read in any order from one open file; nothing is extracted.

    Not for several threads together. Names that lead out of a folder are refused.
    """

    def __init__(self, source: ByteSource, kind: str):
        self.source = source
        members = list_members(source, kind)
        for member in members:
            parts = PurePosixPath(member.name).parts
            if ".." in parts or PurePosixPath(member.name).is_absolute() or "\\" in member.name:
                raise DataError(
                    f"{source.name}: got the member {member.name!r}, whose name leads out of a "
                    "folder; expected names such as cat/1.jpg; try to pack the archive again."
                )
        self.names = [member.name for member in members]
        self._sizes = dict(members)
        with _errors(source):
            self._archive = _open_archive(local_file(source), kind)
            self._infos: dict[str, tarfile.TarInfo] = {}
            if isinstance(self._archive, tarfile.TarFile):  # it would look for a name in a list
                self._infos = {info.name: info for info in self._archive if info.isfile()}
        weakref.finalize(self, self._archive.close)

    def size(self, name: str) -> int:
        """Return the unpacked size of a member; KeyError if there is none of that name."""
        return self._sizes[name]

    def read(self, name: str) -> bytes:
        """Return the content of a member."""
        with _errors(self.source):
            if isinstance(self._archive, zipfile.ZipFile):
                info = self._archive.getinfo(name)
                label = f"{self.source.name}#{name}"
                check_unpacked_size(label, info.compress_size, info.file_size)
                return self._archive.read(info)
            stream = self._archive.extractfile(self._infos[name])
            assert stream is not None  # a file
            return stream.read()


def _open_archive(path: Path, kind: str) -> zipfile.ZipFile | tarfile.TarFile:
    return zipfile.ZipFile(path) if kind == "zip" else tarfile.open(path, "r:")


def _zip_members(source: ByteSource) -> Iterator[ArchiveMember]:
    with zipfile.ZipFile(local_file(source)) as archive:
        for info in archive.infolist():
            if info.filename and not info.is_dir():  # is_dir reads the last character
                yield ArchiveMember(info.filename, info.file_size)


def _tar_members(source: ByteSource) -> Iterator[ArchiveMember]:
    with source.open() as file, _open_tar(file) as archive:
        for info in archive:
            if info.isfile():
                yield ArchiveMember(info.name, info.size)


def _open_zip_member(source: ByteSource, name: str) -> IO[bytes]:
    archive, label = zipfile.ZipFile(local_file(source)), f"{source.name}#{name}"
    try:
        info = archive.getinfo(name)
        check_unpacked_size(label, info.compress_size, info.file_size)
        return cast(IO[bytes], UnpackedStream(label, archive.open(info), archive))
    except BaseException:
        archive.close()
        raise


def _open_tar_member(source: ByteSource, name: str) -> IO[bytes]:
    file, label = source.open(), f"{source.name}#{name}"
    try:
        archive = _open_tar(file)
        for info in archive:
            if info.name == name and info.isfile():
                stream = archive.extractfile(info)
                assert stream is not None
                return cast(IO[bytes], UnpackedStream(label, stream, archive, file))
        raise DataError(f"{source.name}: got no member {name!r}.")
    except BaseException:
        file.close()
        raise


def _open_tar(file: IO[bytes]) -> tarfile.TarFile:
    return tarfile.open(fileobj=file, mode="r|")  # a stream, whatever is around it


@contextmanager
def _errors(source: ByteSource) -> Iterator[None]:
    """Turn errors of a damaged archive into `DataError`."""
    try:
        yield
    except UNPACKING_ERRORS as error:
        raise DataError(
            f"{source.name}: got an archive that cannot be unpacked ({error}); expected one that "
            "is complete and has no password; try to copy or download it again, or to unpack it "
            f"yourself: {_unpack_command(source)}"
        ) from None


def _unpack_command(source: ByteSource) -> str:
    name = Path(source.name).name
    is_tar = ".tar" in name or Path(name).suffix.startswith(".t")
    return f"tar xf {name}" if is_tar else f"unzip {name}"
