"""Opening of one file or archive member: its format is detected from its name and first bytes."""

from saccade.data.records.base import ReadOptions, Records
from saccade.data.records.columnar import (
    ARROW_CONTINUATION,
    ARROW_FILE_MAGIC,
    PARQUET_MAGIC,
    open_arrow,
    open_parquet,
)
from saccade.data.records.delimited import DELIMITED_SUFFIXES, open_text
from saccade.data.records.excel import EXCEL_SUFFIXES, open_excel
from saccade.data.records.json import JSON_SUFFIXES, is_json, open_json
from saccade.data.records.sqlite import SQLITE_MAGIC, open_sqlite
from saccade.errors import DataError
from saccade.io.archives import archive_kind
from saccade.io.byte_source import ByteSource, local_file, plain_suffix
from saccade.io.signatures import OLE_MAGIC, binary_kind, zip_document_kind

FORMAT_BYTES = 1 << 10  # that show the format of a file
TEXT_SUFFIXES = (*DELIMITED_SUFFIXES, ".txt", ".text", ".data", ".dat", ".psv", ".ssv")
COLUMNAR_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
DATA_SUFFIXES = {  # suffix: format, of files that a folder or an archive is searched for
    **dict.fromkeys(TEXT_SUFFIXES, "text"),
    **dict.fromkeys(JSON_SUFFIXES, "json"),
    **dict.fromkeys(COLUMNAR_SUFFIXES, "columnar"),
    **dict.fromkeys(EXCEL_SUFFIXES, "excel"),
    **dict.fromkeys(SQLITE_SUFFIXES, "sqlite"),
}
ACCEPTED = "CSV, TSV, JSON, Parquet, Arrow, Excel, SQLite or plain text"


def open_file(source: ByteSource, options: ReadOptions, member: str | None = None) -> Records:
    """Open a file.

    Args:
        source: the file, not an archive.
        options: properties that the user gave.
        member: table of a database, sheet of a workbook, or list in a JSON object.
    """
    start = source.first_bytes(FORMAT_BYTES)
    if start.startswith(SQLITE_MAGIC):
        return open_sqlite(source, member)
    if is_workbook(source, start):
        return open_excel(source, options, member)
    if _is_json_file(source, start, options):
        return open_json(source, options, member)
    if member is not None:
        raise DataError(
            f"{source.name}#{member}: got a file without parts; expected a database, a workbook, "
            f"an archive or a JSON object before '#'; try {source.name}"
        )
    if start.startswith(PARQUET_MAGIC):
        return open_parquet(source)
    if start.startswith((ARROW_FILE_MAGIC, ARROW_CONTINUATION)):
        return open_arrow(source)
    if kind := archive_kind(start):
        raise DataError(
            f"{source.name}: got a {kind} archive inside another; expected {ACCEPTED}; try to "
            "unpack the outer one."
        )
    if kind := binary_kind(start) or _markup_kind(start):
        raise DataError(f"{source.name}: got {kind}; expected {ACCEPTED}.")
    return open_text(source, options)


def _markup_kind(start: bytes) -> str:
    """Return the kind of a page that servers send instead of a file."""
    text = start.decode("utf-8-sig", "replace").lstrip().lower()
    if text.startswith(("<!doctype html", "<html")):
        return "a web page (HTML), perhaps one that describes or protects the file"
    return "an XML document" if text.startswith("<?xml") else ""


def is_workbook(source: ByteSource, start: bytes) -> bool:
    """Return True for Excel and OpenDocument sheets; `DataError` for other documents."""
    kind = ""
    if archive_kind(start) == "zip":
        kind = zip_document_kind(local_file(source))
    elif start.startswith(OLE_MAGIC):
        kind = "excel" if source.suffix in EXCEL_SUFFIXES else "a document of Microsoft Office"
    if kind not in ("", "excel"):
        raise DataError(f"{source.name}: got {kind}; expected {ACCEPTED}.")
    return kind == "excel"


def _is_json_file(source: ByteSource, start: bytes, options: ReadOptions) -> bool:
    if options.delimiter is not None or source.suffix in DELIMITED_SUFFIXES:
        return False
    if source.suffix in JSON_SUFFIXES:
        return not binary_kind(start)
    return is_json(start.decode("utf-8-sig", "replace"))


def data_format(name: str) -> str:
    """Return the format that the name of a file suggests; an empty string for none."""
    return DATA_SUFFIXES.get(plain_suffix(name), "")
