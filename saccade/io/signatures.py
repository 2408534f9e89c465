"""Kinds of binary files by their first bytes, for messages about files that are no tables."""

import re
import zipfile
from pathlib import Path

SIGNATURES = {  # first bytes: kind
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"BM": "a BMP image",
    b"II*\0": "a TIFF image",
    b"MM\0*": "a TIFF image",
    b"%PDF": "a PDF document",
    b"\x7fELF": "a program (ELF)",
    b"MZ": "a program (Windows)",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF": "an HDF5 file",
    b"\x80\x02": "a pickle file",
    b"\x80\x03": "a pickle file",
    b"\x80\x04": "a pickle file",
    b"\x80\x05": "a pickle file",
    b"ID3": "an MP3 file",
    b"fLaC": "a FLAC file",
    b"OggS": "an Ogg file",
    b"Rar!": "a RAR archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"FEA1": "a Feather file of version 1",
    b"Obj\x01": "an Avro file",
    b"ORC": "an ORC file",
    b"\x1aE\xdf\xa3": "a Matroska video",
    b"gguf": "a GGUF model",
    b"\0asm": "a WebAssembly program",
    b"PGDMP": "a PostgreSQL dump",
    b"DUCK": "a DuckDB database",
}
PICKLES = ("a pickle file", "a PyTorch file")  # kinds that execute code when they are opened
OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # .xls, .doc, .msg
SHORT_SIGNATURE = 2  # bytes; so short a signature may also be text
MAX_CONTROL_SHARE = 0.1  # of a text

_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_OFFICE = {  # a member of a zip file, and the kind of document
    "xl/workbook.xml": "excel",
    "xl/workbook.bin": "excel",
    "word/document.xml": "a Word document",
    "ppt/presentation.xml": "a PowerPoint document",
    "META-INF/MANIFEST.MF": "a Java archive",
}
_OPEN_DOCUMENT = {
    "application/vnd.oasis.opendocument.spreadsheet": "excel",
    "application/vnd.oasis.opendocument.text": "an OpenDocument text",
}


def binary_kind(start: bytes) -> str:
    """Return the kind of a binary file from its first bytes; an empty string for a text."""
    for signature, kind in SIGNATURES.items():
        is_short = len(signature) <= SHORT_SIGNATURE and _is_text(start)
        if start.startswith(signature) and not is_short:
            return kind
    if start[4:8] == b"ftyp":
        return "a video or an HEIC image"
    if start[:4] == b"RIFF" and start[8:12] in (b"WAVE", b"AVI ", b"WEBP"):
        return {b"WAVE": "a WAV file", b"AVI ": "an AVI video"}.get(start[8:12], "a WebP image")
    return "" if _is_text(start) else "a binary file of an unknown format"


def _is_text(start: bytes) -> bool:
    """Return True unless many bytes are control characters; text of UTF-16 has zero bytes."""
    zeros = start.count(0)
    controls = len(_CONTROLS.findall(start)) - zeros
    return controls <= MAX_CONTROL_SHARE * len(start) and (
        zeros <= MAX_CONTROL_SHARE * len(start) or _has_wide_characters(start)
    )


def _has_wide_characters(start: bytes) -> bool:
    """Return True for UTF-16 and UTF-32: a mark at the start, or zeros at every second byte."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        return True
    low, high = sorted((start[0::2].count(0), start[1::2].count(0)))
    return high > 10 * low


def zip_document_kind(path: Path) -> str:
    """Return "excel" or the kind of another document that is a zip file; "" for an archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {*archive.namelist()}
            if "mimetype" in names and archive.getinfo("mimetype").file_size < 1000:
                found = archive.read("mimetype").decode("ascii", "replace")
                return _OPEN_DOCUMENT.get(found, "an OpenDocument file or an e-book")
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, NotImplementedError):
        return ""
    if any(name.endswith("/data.pkl") for name in names):
        return "a PyTorch file"
    if names and all(name.endswith(".npy") for name in names):
        return "a NumPy archive"
    return next((kind for name, kind in _OFFICE.items() if name in names), "")
