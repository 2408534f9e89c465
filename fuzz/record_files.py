"""The target `records`: files of any format, encoding and compression.

The first line of a case has the suffix of the file, its packing and options, the rest is the
content:

    .csv gzip delimiter=;
"""

import bz2
import csv
import gzip
import io
import lzma
import random
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

from fuzz.contract import Violation, interrupted, refusals
from fuzz.sandbox import sandbox
from saccade.data.records import base
from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.files import DATA_SUFFIXES
from saccade.data.records.open import open_records
from saccade.errors import SaccadeError
from saccade.io import text_files

SMALL_BLOCK = 7  # bytes
COMPRESSIONS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": (".gz", gzip.compress),
    "bzip2": (".bz2", bz2.compress),
    "xz": (".xz", lzma.compress),
}
OPTIONS = {
    "encoding": ["utf-8", "latin-1", "utf-16", "gb18030", "cp1251", "utf-7", "idna", "rot13", "x"],
    "delimiter": [",", "\\t", ";", "|", " ", "ab", '"', "\\n"],
    "header": ["true", "false"],
    "quoting": ["true", "false"],
}
PACKINGS = ["", "", "", "gzip", "bzip2", "xz", "zstd", "zip", "tar"]


def records_target(content: bytes) -> None:
    """Read a file with every reader of records and texts."""
    first, _, rest = content.partition(b"\n")
    words = first.decode("ascii", "replace").split()
    suffix = words[0] if words and words[0] in DATA_SUFFIXES else ""
    given = dict(word.split("=", 1) for word in words if "=" in word)
    packing = next((word for word in words[1:] if word in PACKINGS), "")
    with sandbox() as folder, interrupted():
        path = _write(folder, suffix, packing, rest)
        options = ReadOptions()
        with refusals():
            options = _options(given)
            records = open_records(str(path), options)
            whole = _read(records)
            if b"\r" not in rest:  # the first block decides whether it ends a line
                with _small_blocks():
                    in_blocks = _read(records)
                _compare(whole, in_blocks)
            if suffix == ".csv" and not packing and not given:
                _compare_with_csv(records, whole, rest)
        # one of the readers, which depends on the case alone
        read = _READERS[crc32(content) % len(_READERS)]
        with refusals():
            read(str(path), options)


def _options(given: dict[str, str]) -> ReadOptions:
    from saccade.config import build_config

    values: dict[str, Any] = {name: given[name] for name in OPTIONS if name in given}
    if "delimiter" in values:
        values["delimiter"] = values["delimiter"].replace("\\t", "\t").replace("\\n", "\n")
    return build_config(ReadOptions, values, "the options")


# --- readers --------------------------------------------------------------------------------------


def _summarise(path: str, options: ReadOptions) -> None:
    from saccade.data.records.summary import summarise_data

    summarise_data(path, options).to_dict()


def _pairs(path: str, options: ReadOptions) -> None:
    from saccade.data.parallel.readers import open_pairs

    open_pairs(path, options).read(1000)


def _labelled(path: str, options: ReadOptions) -> None:
    from saccade.data.text.labelled import open_labelled_texts

    for _ in open_labelled_texts(path):
        pass


def _text(path: str, options: ReadOptions) -> None:
    from saccade.data.text.corpus import read_text_corpus

    for _ in read_text_corpus(path, options.encoding):
        pass


def _table(path: str, options: ReadOptions) -> None:
    from saccade.data.tables.csv import read_table

    read_table(path, options)


def _points(path: str, options: ReadOptions) -> None:
    from saccade.data.points import read_points

    read_points(path, options)


def _series(path: str, options: ReadOptions) -> None:
    from saccade.data.time_series import read_series

    read_series(path)


_READERS = (_summarise, _pairs, _labelled, _text, _table, _points, _series)


# --- files ----------------------------------------------------------------------------------------


def _write(folder: Path, suffix: str, packing: str, content: bytes) -> Path:
    path = folder / f"data{suffix}"
    if packing == "zstd":
        import zstandard

        path, content = path.with_name(path.name + ".zst"), zstandard.compress(content)
    elif packing in COMPRESSIONS:
        end, compress = COMPRESSIONS[packing]
        path, content = path.with_name(path.name + end), compress(content)
    elif packing == "zip":
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"data{suffix}", content)
        path, content = folder / "data.zip", target.getvalue()
    elif packing == "tar":
        target = io.BytesIO()
        with tarfile.open(fileobj=target, mode="w") as archive:
            info = tarfile.TarInfo(f"data{suffix}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        path, content = folder / "data.tar", target.getvalue()
    path.write_bytes(content)
    return path


# --- differences ----------------------------------------------------------------------------------

Rows = list[tuple[str | None, ...]]


def _read(records: Records) -> tuple[Rows, list[int]] | str:
    """Return the rows and their numbers, or the kind of error."""
    rows: Rows = []
    numbers: list[int] = []
    try:
        for chunk in records.chunks():
            for name, cells in chunk.columns.items():
                if len(cells) != len(chunk):
                    raise Violation(f"column {name!r} has {len(cells)} cells of {len(chunk)}")
            rows += zip(*chunk.columns.values(), strict=True)
            numbers += chunk.numbers.tolist()
    except SaccadeError as error:
        return type(error).__name__
    if not all(isinstance(cell, str | None) for row in rows for cell in row):
        raise Violation("a cell is neither text nor None")
    return rows, numbers


@contextmanager
def _small_blocks() -> Iterator[None]:
    """Read files in blocks of a few bytes, and rows in chunks of two."""
    before = text_files.READ_BLOCK_BYTES, base.CHUNK_ROWS
    text_files.READ_BLOCK_BYTES = SMALL_BLOCK
    try:
        yield
    finally:
        text_files.READ_BLOCK_BYTES, base.CHUNK_ROWS = before


def _compare(whole: Any, in_blocks: Any) -> None:
    if whole != in_blocks:
        raise Violation(f"read as a whole: {whole!r:.300}; in blocks: {in_blocks!r:.300}")


def _compare_with_csv(records: Records, found: Any, content: bytes) -> None:
    """Compare with the csv module where the two have the same rules."""
    try:
        text = content.decode("utf-8")
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return
    is_plain = not any(part in text for part in ("\r", "\0", "\\", ", ", ' "', '" ', "\ufeff"))
    if (
        isinstance(found, str)
        or not is_plain
        or text.startswith("#")
        or not text.endswith("\n")
        or records.format != "csv"
        or records.delimiter != ","
        or not records.has_quotes
        or any(len(row) != len(records.columns) for row in rows)
    ):
        return
    # rows of white space are kept, as cells of text; only rows of empty cells are left out
    expected = [tuple(row) for row in rows[records.has_header :] if any(row)]
    if found[0] != expected:
        raise Violation(f"got {found[0]!r:.300}; the csv module has {expected!r:.300}")


# --- changes --------------------------------------------------------------------------------------


def mutate_records(content: bytes, max_size: int, seed: int) -> bytes:
    """Change the first line sometimes, and otherwise the bytes as the fuzzer does."""
    import atheris

    draw = random.Random(seed)
    first, newline, rest = content.partition(b"\n")
    if not newline or draw.random() < 0.1:
        words = [draw.choice(list(DATA_SUFFIXES)), draw.choice(PACKINGS)]
        if draw.random() < 0.3:
            name = draw.choice(list(OPTIONS))
            words.append(f"{name}={draw.choice(OPTIONS[name])}")
        first = " ".join(filter(None, words)).encode()
        if newline:
            return (first + b"\n" + rest)[:max_size]
    if draw.random() < 0.2:
        piece = draw.choice(_PIECES)
        at = draw.randrange(len(rest) + 1)
        return (first + b"\n" + rest[:at] + piece + rest[at:])[:max_size]
    return first + b"\n" + atheris.Mutate(rest or b"\n", max(1, max_size - len(first) - 1))


_PIECES = [
    b'"',
    b'""',
    b",",
    b"\t",
    b"\r\n",
    b"\r",
    b"\n",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xe2\x80\xa8",
    b"\xc3",
    b"\xcc\x81" * 30,
    b"\\u0000",
    b"\\ud800",
    b"1e999",
    b"9" * 5000,
    b"[" * 2000,
    b'{"a":' * 500,
    b"NaN",
    b"__label__a ",
    b"# ",
    b"1_000",
    b"2024-02-30",
    b"\xe7\x8c\xab",
]
