"""Compressed files that unpack to an implausible size are refused in bounded memory."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from saccade.data.records.open import open_records
from saccade.errors import DataError
from saccade.io import compression

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


@pytest.mark.parametrize("suffix", COMPRESSORS)
@pytest.mark.parametrize("content", [b"a", b"a,b\n"])
def test_bomb_is_refused(
    suffix: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "MIN_BOMB_BYTES", 1 << 20)
    monkeypatch.setattr(compression, "MAX_UNPACKED_RATIO", 100)
    path = tmp_path / f"table.csv.{suffix}"
    # several streams in one file, each of which is small
    path.write_bytes(COMPRESSORS[suffix](content * ((1 << 20) // len(content))) * 8)
    read = 0
    with pytest.raises(DataError, match=r"bytes that unpack to .* 100 times the size"):
        for chunk in open_records(str(path)).chunks():
            read += len(chunk)
    assert read <= 4 * (1 << 20)


def test_ratio_of_ordinary_files_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "MIN_BOMB_BYTES", 1 << 10)
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"".join(b"%d,x\n" % n for n in range(9000))))
    assert sum(map(len, open_records(str(path)).chunks())) == 9000
