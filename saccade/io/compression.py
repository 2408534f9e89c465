"""Decompression of gzip, bzip2, xz and Zstandard streams."""

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from typing import IO, Any, Protocol, cast

from saccade.errors import DataError, MissingPackageError

GZIP, BZIP2, XZ, ZSTANDARD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"


ZSTANDARD_READ_BYTES = 1 << 14  # they may decompress to thousands of times as many
MAX_UNPACKED_RATIO = 1000  # of unpacked to packed size, beyond MIN_BOMB_BYTES
MIN_BOMB_BYTES = 1 << 28

UNPACKING_ERRORS = (
    EOFError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    KeyError,
    NotImplementedError,  # a compression of zip that Python does not have
    RuntimeError,  # a member with a password
    ValueError,
)


class Closable(Protocol):
    """An open file or archive."""

    def close(self) -> None:
        """Close it."""
        ...


def decompress(file: IO[bytes], start: bytes, name: str) -> IO[bytes]:
    """Return the decompressed stream of a compressed file at its start.

    Args:
        file: a stream at its start, closed together with the result.
        start: its first bytes.
        name: name of the file, for messages.
    """
    packed = cast(IO[bytes], _Packed(file))
    if start.startswith(GZIP):
        inner = cast(IO[bytes], gzip.GzipFile(fileobj=packed))
    elif start.startswith(BZIP2):
        inner = cast(IO[bytes], bz2.BZ2File(packed))
    elif start.startswith(XZ):
        inner = cast(IO[bytes], lzma.LZMAFile(packed))
    else:
        inner = _zstandard(packed, name)
    return cast(IO[bytes], UnpackedStream(name, inner, packed))


def check_unpacked_size(name: str, packed: int, unpacked: int) -> None:
    """Raise a DataError for bytes that unpack to an implausible size."""
    if unpacked > max(MIN_BOMB_BYTES, MAX_UNPACKED_RATIO * packed):
        raise DataError(
            f"{name}: got {packed:,} bytes that unpack to {unpacked:,}; expected at most "
            f"{MAX_UNPACKED_RATIO:,} times the size; if you trust the file, unpack it yourself."
        )


class _Packed:
    """A compressed file that counts the bytes that were read."""

    def __init__(self, file: IO[bytes]):
        self.file, self.count = file, 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        content = self.file.read(size)
        self.count += len(content)
        return content

    def seekable(self) -> bool:
        """Return False: it is read once, from its start."""
        return False

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _zstandard(file: IO[bytes], name: str) -> IO[bytes]:
    try:
        from compression import zstd  # type: ignore[import-not-found]  # Python 3.14

        return cast(IO[bytes], zstd.ZstdFile(file))
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        file.close()
        raise MissingPackageError(
            f"{name} is compressed with Zstandard, which needs the package zstandard: "
            f"pip install 'saccade[files]'. Or decompress it: zstd -d {name}"
        ) from None
    return cast(IO[bytes], _ZstandardFrames(file, zstandard.ZstdDecompressor()))


class _ZstandardFrames:
    """The content of a file of Zstandard frames; a frame that is cut is an error.

    The stream reader of the package ends silently there.
    """

    def __init__(self, file: IO[bytes], decompressor: Any):
        self.file, self.decompressor = file, decompressor
        self.frame: Any = None
        self.packed = self.content = b""

    def read(self, size: int = -1) -> bytes:
        """Return the next decompressed bytes; none at the end."""
        while len(self.content) < size or size < 0:
            self.packed = self.packed or self.file.read(ZSTANDARD_READ_BYTES)
            if not self.packed:
                if self.frame is not None:
                    raise EOFError("the last frame is cut")
                break
            self.frame = self.frame or self.decompressor.decompressobj()
            self.content += self.frame.decompress(self.packed)
            self.packed = b""
            if self.frame.eof:
                self.packed, self.frame = self.frame.unused_data, None
        end = len(self.content) if size < 0 else size
        content, self.content = self.content[:end], self.content[end:]
        return content

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class UnpackedStream:
    """A stream that is unpacked while it is read; an error in it is a `DataError`."""

    def __init__(self, name: str, inner: IO[bytes], *files: Closable):
        self.name, self.inner, self.files = name, inner, files
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        """Return the next unpacked bytes; none at the end."""
        content = self._read(size)
        self.count += len(content)
        if self.count > MIN_BOMB_BYTES:
            for packed in self.files:
                if isinstance(packed, _Packed):
                    check_unpacked_size(self.name, packed.count, self.count)
        return content

    def _read(self, size: int) -> bytes:
        try:
            return self.inner.read(size)
        except UNPACKING_ERRORS as error:
            raise self._damaged(error) from None
        except OSError as error:
            if error.errno is None:  # of bz2, not of the disk
                raise self._damaged(error) from None
            raise
        except Exception as error:
            if type(error).__name__ == "ZstdError":  # of an optional package
                raise self._damaged(error) from None
            raise

    def _damaged(self, error: Exception) -> DataError:
        return DataError(
            f"{self.name}: got a file that cannot be unpacked to its end ({error}); expected one "
            "that is complete and undamaged; try to copy or download it again."
        )

    def close(self) -> None:
        """Close the stream and the files that it is read from."""
        for file in (self.inner, *self.files):
            file.close()

    def __enter__(self) -> "UnpackedStream":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
