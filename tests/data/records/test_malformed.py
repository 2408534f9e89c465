"""Files that cannot be read: each message has the file, the position and a command that works."""

import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from saccade.data.records.delimited_rows import PIECE_BYTES
from saccade.data.records.open import open_records
from saccade.errors import DataError

ACCEPTED = "expected CSV, TSV, JSON, Parquet, Arrow, Excel, SQLite or plain text."


def write_docx(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", "<document/>")


BINARY: dict[str, tuple[bytes | Callable[[Path], object], str]] = {
    "photo.csv": (b"\x89PNG\r\n\x1a\n" + bytes(50), f"got a PNG image; {ACCEPTED}"),
    "photo.jpg": (b"\xff\xd8\xff\xe0\0\x10JFIF", f"got a JPEG image; {ACCEPTED}"),
    "paper.pdf": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", f"got a PDF document; {ACCEPTED}"),
    "program": (b"\x7fELF\x02\x01\x01" + bytes(60), f"got a program (ELF); {ACCEPTED}"),
    "a.exe": (b"MZ\x90\0\x03" + bytes(60), f"got a program (Windows); {ACCEPTED}"),
    "rows.pkl": (pickle.dumps([1, 2]), f"got a pickle file; {ACCEPTED}"),
    "rows.npy": (lambda path: np.save(path, np.zeros(3)), f"got a NumPy array; {ACCEPTED}"),
    "rows.npz": (lambda path: np.savez(path, a=np.zeros(3)), f"got a NumPy archive; {ACCEPTED}"),
    "text.docx": (write_docx, f"got a Word document; {ACCEPTED}"),
    "text.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(60), "a document of Microsoft Office"),
    "sound.wav": (b"RIFF\x24\0\0\0WAVEfmt ", f"got a WAV file; {ACCEPTED}"),
    "film.mp4": (b"\0\0\0\x18ftypmp42", f"got a video or an HEIC image; {ACCEPTED}"),
    "x.json": (b"\x89HDF\r\n\x1a\n" + bytes(60), f"got an HDF5 file; {ACCEPTED}"),
    "random": (
        np.random.default_rng(0).bytes(2000),
        f"got a binary file of an unknown format; {ACCEPTED}",
    ),
    "numbers": (
        struct.pack("<200i", *range(200)),
        f"got a binary file of an unknown format; {ACCEPTED}",
    ),
    "old.feather": (b"FEA1" + bytes(60), f"got a Feather file of version 1; {ACCEPTED}"),
    "page.csv": (
        b"<!DOCTYPE html>\n<html><body>Sign in",
        "got a web page (HTML), perhaps one",
    ),
    "data.xml": (b'<?xml version="1.0"?><rows/>', f"got an XML document; {ACCEPTED}"),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_files_are_named(tmp_path: Path, name: str) -> None:
    content, message = BINARY[name]
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
    with pytest.raises(DataError) as caught:
        open_records(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


TEXTS = {
    "a letter that is a signature": "MZ is a name\nBM too\n",
    "controls": "a\x0cb\x1b[0m\x0bc\n",
    "markup": "<p>hello</p>\n<b>you</b>\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_unusual_texts_are_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "text.txt"
    path.write_text(TEXTS[name], encoding="utf-8")
    assert open_records(path).format == "text"


MISSING = {
    "rows.cvs": "There is no file {folder}/rows.cvs. Did you mean 'rows.csv'?",
    "gone/rows.csv": "There is no file {folder}/gone/rows.csv: there is no folder {folder}/gone. "
    "Check the path.",
    "rows.csv#part": "{folder}/rows.csv#part: got a file without parts; expected a database, a "
    "workbook, an archive or a JSON object before '#'; try {folder}/rows.csv",
}


@pytest.mark.parametrize("name", MISSING)
def test_missing_files(tmp_path: Path, name: str) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError) as caught:
        open_records(f"{tmp_path}/{name}")
    assert str(caught.value) == MISSING[name].format(folder=tmp_path)


def test_row_that_is_one_cell_short_is_refused_in_every_piece(tmp_path: Path) -> None:
    """The first row may lack a name; a later one is wrong, wherever the file is divided."""
    for before in (1, PIECE_BYTES // 4 - 1):  # the second: the first row of the second piece
        path = tmp_path / f"table{before}.csv"
        path.write_text("a,b\n" + "1,2\n" * before + "3\n4,5\n")
        with pytest.raises(DataError, match=rf"line {before + 2:,}: got 1 cell; expected 2"):
            for _ in open_records(str(path)).chunks():
                pass
