"""Files of a folder or an archive by name, read without extracting anything."""

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from saccade.data.images.decode import MAX_IMAGE_BYTES, UnreadableImage
from saccade.errors import DataError
from saccade.io.archives import ArchiveReader, archive_kind
from saccade.io.byte_source import FIRST_BYTES, ByteSource, file_source, unpacked
from saccade.io.file_kinds import special_kind

ARCHIVE_BYTES = 512  # that recognise an archive


@dataclass(frozen=True, eq=False)
class FileTree:
    """Names of files, sorted, with / between folders, and a function that reads one."""

    name: str  # path as the user gave it
    files: Sequence[str]
    read_file: Callable[[str], bytes]
    size: Callable[[str], int]
    is_archive: bool = False
    prefix: str = ""  # that the names in the archive have in addition

    def read(self, name: str) -> bytes:
        """Return the content of a file; UnreadableImage if it is too large or cannot be read."""
        try:
            if (size := self.size(name)) > MAX_IMAGE_BYTES:
                raise UnreadableImage(
                    f"got a file of {size:,} bytes; expected at most {MAX_IMAGE_BYTES:,}"
                )
            return self.read_file(name)
        except KeyError:  # of an archive
            raise UnreadableImage("got no such file") from None
        except OSError as error:
            raise UnreadableImage(f"could not be read: {error.strerror or error}") from None

    def read_unpacked(self, name: str) -> bytes:
        """Return the content of a file of any size, decompressed."""
        content = self.read_file(name)
        with unpacked(io.BytesIO(content), content[:FIRST_BYTES], self.label(name)) as stream:
            return stream.read()

    def label(self, name: str) -> str:
        """Return the name of a file for messages, which for a folder is its path."""
        return f"{self.name}#{name}" if self.is_archive else os.path.join(self.name, name)

    def table_name(self, name: str) -> str:
        """Return the name by which `open_records` opens a table of the folder or the archive."""
        return self.label(self.prefix + name)


def open_tree(path: str | Path) -> FileTree | None:
    """Return the files of a folder or an archive; None for another file."""
    if os.path.isdir(path):
        return _folder_tree(Path(path))
    source = file_source(Path(path))
    kind = archive_kind(source.first_bytes(ARCHIVE_BYTES))
    return _archive_tree(source, kind) if kind else None


def _folder_tree(folder: Path) -> FileTree:
    found = []
    for where, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = Path(where).relative_to(folder)
        found += [(inside / name).as_posix() for name in names if not name.startswith(".")]
    return _files_of(folder, sorted(found))


def files_near(path: Path) -> FileTree:
    """Return the files next to a file, those of sub-folders not listed."""
    return _files_of(path.parent, sorted(os.listdir(path.parent)))


def _files_of(folder: Path, files: Sequence[str]) -> FileTree:
    def read(name: str) -> bytes:
        path = folder / name
        if (kind := special_kind(path)) is not None:  # opening a pipe would wait for ever
            raise UnreadableImage(f"got {kind}; expected a file")
        return path.read_bytes()

    return FileTree(str(folder), files, read, lambda name: (folder / name).stat().st_size)


def read_image_file(path: Path) -> bytes:
    """Return the content of a file; UnreadableImage if there is none, or it cannot be read."""
    return _files_of(path.parent, ()).read(path.name)


def _archive_tree(source: ByteSource, kind: str) -> FileTree:
    reader = ArchiveReader(source, kind)
    prefix = common_folder(reader.names)
    return FileTree(
        source.name,
        [name.removeprefix(prefix) for name in reader.names],
        lambda name: reader.read(prefix + name),
        lambda name: reader.size(prefix + name),
        is_archive=True,
        prefix=prefix,
    )


def common_folder(names: Sequence[str]) -> str:
    """Return the folders that enclose all other folders: "photos/" of photos/cat/1.jpg, …"""
    folders = [PurePosixPath(name).parts[:-1] for name in names]
    depth = 0
    while folders and all(
        len(parts) > depth + 1 and parts[depth] == folders[0][depth] for parts in folders
    ):
        depth += 1
    return "".join(f"{part}/" for part in folders[0][:depth]) if depth else ""


def check_tree(tree: FileTree, needs_labels: bool = True) -> None:
    """Raise a DataError if there is no file."""
    if not tree.files:
        kind = "archive" if tree.is_archive else "folder"
        expected = "a sub-folder of images for each class" if needs_labels else "images"
        example = f"{tree.name.rstrip('/')}/{'cat/' if needs_labels else ''}1.jpg"
        raise DataError(
            f"{tree.name}: got an empty {kind}; expected {expected}, such as {example}."
        )
