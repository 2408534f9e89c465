"""Decompression of gzip, bzip2, xz and Zstandard streams."""

import bz2
import gzip
import lzma
import zlib
from typing import IO, cast

from saccade.errors import MissingPackageError

GZIP, BZIP2, XZ, ZSTANDARD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"


class DecompressionError(Exception):
    """A compressed stream that is truncated or damaged."""


def decompress(file: IO[bytes], start: bytes, name: str) -> IO[bytes]:
    """Return the decompressed stream of a compressed file at its start.

    Args:
        file: a stream at its start, closed together with the result.
        start: its first bytes.
        name: name of the file, for messages.
    """
    if start.startswith(GZIP):
        inner = cast(IO[bytes], gzip.GzipFile(fileobj=file))
    elif start.startswith(BZIP2):
        inner = cast(IO[bytes], bz2.BZ2File(file))
    elif start.startswith(XZ):
        inner = cast(IO[bytes], lzma.LZMAFile(file))
    else:
        inner = _zstandard(file, name)
    return cast(IO[bytes], _Decompressed(inner, file))


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
    return cast(
        IO[bytes], zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    )


class _Decompressed:
    """A decompressed stream whose errors are all `DecompressionError`."""

    def __init__(self, inner: IO[bytes], file: IO[bytes]):
        self.inner, self.file = inner, file

    def read(self, size: int = -1) -> bytes:
        """Return the next decompressed bytes; none at the end."""
        try:
            return self.inner.read(size)
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, ValueError) as error:
            raise DecompressionError(error) from None
        except OSError as error:
            if error.errno is None:  # of bz2, not of the disk
                raise DecompressionError(error) from None
            raise
        except Exception as error:
            if type(error).__name__ == "ZstdError":  # of an optional package
                raise DecompressionError(error) from None
            raise

    def close(self) -> None:
        """Close both streams."""
        self.inner.close()
        self.file.close()

    def __enter__(self) -> "_Decompressed":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
