r"""Text files as records: delimited (CSV, TSV and others), or one column of lines.

Cells keep their text: spaces, and the empty string for an empty cell. Empty lines and rows without
any text are skipped. Where semicolons separate, 1,5 is read as 1.5 in columns of such numbers.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import islice

import numpy as np

from saccade.data.records.base import CHUNK_ROWS, ReadOptions, RecordChunk, Records
from saccade.data.records.columns import different_names
from saccade.data.records.delimited_rows import DECIMAL_COMMA, Layout, read_delimited
from saccade.data.records.dialect import (
    SAMPLE_CHARACTERS,
    SAMPLE_ROWS,
    USUAL_DELIMITERS,
    CellRows,
    Dialect,
    detect_dialect,
    fallback_dialect,
    lines_of,
    parse_sample,
    row_lengths,
)
from saccade.data.records.header import HeaderChoice, choose_header, detect_header, header_note
from saccade.errors import DataError
from saccade.io.byte_source import ByteSource
from saccade.io.encodings import DetectedEncoding
from saccade.io.text_files import (
    TextBlock,
    file_encoding,
    read_lines,
    read_text_blocks,
)

DELIMITED_SUFFIXES = (".csv", ".tsv", ".tab")
MAX_COMMENT_LINES = 50  # at the start of a file
MIN_TABLE_ROWS = 5  # with the same number of cells, in a file whose suffix does not name a format

_INTEGER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)([eE][+-]?\d+)?")


def open_text(source: ByteSource, options: ReadOptions) -> Records:
    """Open a text file: delimited if its rows have the same number of cells, else lines."""
    encoding = file_encoding(source, options.encoding)
    sample, is_whole = _sample(source, encoding.name)
    if not sample.strip():
        raise DataError(f"{source.name}: got an empty file; expected rows or lines of text.")
    notes = encoding_notes(encoding, options)
    comments = _comment_lines(sample)
    rest = sample.split("\n", comments)[comments]
    dialect = detect_dialect(rest, is_whole, source.suffix, options.delimiter, options.quoting)
    has_suffix = source.suffix in DELIMITED_SUFFIXES or options.delimiter is not None
    if dialect is None and has_suffix:
        dialect = fallback_dialect(rest, source.suffix)
    rows = None if dialect is None else parse_sample(rest, is_whole, dialect)
    if dialect is None or not (has_suffix or _is_table(rows or [], dialect)):
        return _open_lines(source, encoding.name, notes)
    if not rows:  # an error that reading reports with its line, as a mark that is never closed
        first_line = next(line for line in lines_of(rest) if line)
        rows = Dialect(dialect.delimiter, has_quotes=False).split([first_line])
    if comments:
        first = "line is" if comments == 1 else f"{comments} lines are"
        notes += (f"the first {first} left out as comments (#)",)
    return _open_delimited(source, dialect, encoding.name, rows, options, notes, comments)


def _sample(source: ByteSource, encoding: str) -> tuple[str, bool]:
    """Return the first lines, and whether these are all."""
    blocks = read_text_blocks(source, encoding)
    text = next(blocks, TextBlock("", 1)).text
    cut = len(text)
    if cut > SAMPLE_CHARACTERS:
        cut = text.rfind("\n", 0, SAMPLE_CHARACTERS) + 1 or text.find("\n") + 1
    is_whole = cut == len(text) and not source.is_live and next(blocks, None) is None
    return text[:cut], is_whole


def _comment_lines(sample: str) -> int:
    """Return the number of comments at the start; one like the line below it is a header."""
    lines = lines_of(sample)[: MAX_COMMENT_LINES + 1]
    count = next((n for n, line in enumerate(lines) if not line.startswith("#")), 0)
    if not any(line.strip() for line in lines[count:]):  # nothing but comments
        return 0
    if count and any(
        0 < lines[count - 1].count(delimiter) == lines[count].count(delimiter)
        for delimiter in USUAL_DELIMITERS
    ):
        return count - 1
    return count


def _is_table(rows: CellRows, dialect: Dialect) -> bool:
    """Return True unless the delimiter may be an ordinary character of a text."""
    width, _, share = row_lengths(rows, dialect)
    if share < 1 or width < 2:
        return False
    if dialect.delimiter == "\t" or (width > 2 and len(rows) >= MIN_TABLE_ROWS):
        return True
    choice = detect_header(rows[:SAMPLE_ROWS], assume=False)
    return choice.is_header and choice.is_evident


def encoding_notes(encoding: DetectedEncoding, options: ReadOptions) -> tuple[str, ...]:
    """Return a note about an encoding that was guessed."""
    if encoding.is_certain or options.encoding is not None:
        return ()
    return (
        f"read as {encoding.name} (detected); if letters look wrong, try --set data.encoding=NAME",
    )


# --- lines ----------------------------------------------------------------------------------------


def _open_lines(source: ByteSource, encoding: str, notes: tuple[str, ...]) -> Records:
    return Records(
        source.name,
        "text",
        ("text",),
        lambda names: _line_chunks(source, encoding, names),
        has_header=False,
        encoding=encoding,
        text_source=source,
        notes=notes,
    )


def _line_chunks(
    source: ByteSource, encoding: str, names: tuple[str, ...]
) -> Iterator[RecordChunk]:
    lines, done = read_lines(source, encoding), 0
    while cells := list(islice(lines, CHUNK_ROWS)):
        numbers = np.arange(done + 1, done + 1 + len(cells))
        yield RecordChunk({name: list[str | None](cells) for name in names}, numbers)
        done += len(cells)


# --- delimited ------------------------------------------------------------------------------------


def _open_delimited(
    source: ByteSource,
    dialect: Dialect,
    encoding: str,
    rows: CellRows,
    options: ReadOptions,
    notes: tuple[str, ...],
    comments: int,
) -> Records:
    width, min_width, _ = row_lengths(rows, dialect)
    padded = ([*row, *[""] * (width - len(row))] for row in rows if min_width <= len(row) <= width)
    even = list(islice(padded, int(min_width <= len(rows[0]) <= width), SAMPLE_ROWS))
    first, found = rows[0], list(notes)
    if first[0].startswith("#") and not any(row[0].startswith("#") for row in even):
        first = [first[0].lstrip("# "), *first[1:]]
    if len(first) == width - 1 and options.header is not False and _has_row_names(even):
        first = ["", *first]
        found.append("the first column has no name: it has the names of the rows")
    if min_width <= len(first) <= width:
        first = [*first, *[""] * (width - len(first))]
        choice = choose_header([first, *even], options.header, dialect.delimiter != "\t")
    elif len(first) > width:  # an error, reported when the rows are read
        width, min_width, even = len(first), len(first), []
        choice = HeaderChoice(dialect.delimiter != "\t", "it is longer than the rows below")
    else:
        first, choice = [""] * width, HeaderChoice(False, "the first row has another length")
    names, renamed = different_names(first if choice.is_header else [""] * width)
    data = even if choice.is_header else [first, *even]
    commas = _decimal_commas(names, data) if dialect.delimiter == ";" else frozenset()
    layout = Layout(source, encoding, dialect, names, choice.is_header, commas, min_width, comments)
    return Records(
        source.name,
        "tsv" if dialect.delimiter == "\t" else "csv",
        names,
        partial(read_delimited, layout),
        has_header=choice.is_header,
        encoding=encoding,
        delimiter=dialect.delimiter,
        text_source=source,
        has_quotes=dialect.has_quotes,
        notes=(*found, *_layout_notes(layout, choice, options), *renamed),
    )


def _has_row_names(rows: CellRows) -> bool:
    """Return True if the first cells of the rows are different, as R writes a table."""
    return len({row[0] for row in rows}) == len(rows)


def _decimal_commas(names: tuple[str, ...], rows: CellRows) -> frozenset[str]:
    """Return the columns whose cells are all numbers, some of them with a decimal comma."""
    found = set()
    for name, cells in zip(names, zip(*rows, strict=True), strict=bool(rows)):
        present = [cell.strip() for cell in cells if cell.strip()]
        if any(map(DECIMAL_COMMA.fullmatch, present)) and all(
            DECIMAL_COMMA.fullmatch(cell) or _INTEGER.fullmatch(cell) for cell in present
        ):
            found.add(name)
    return frozenset(found)


def _layout_notes(layout: Layout, choice: HeaderChoice, options: ReadOptions) -> list[str]:
    notes = []
    dialect, expected = layout.dialect, {".csv": ","}.get(layout.source.suffix, "\t")
    if options.delimiter is None and dialect.delimiter != expected and len(layout.columns) > 1:
        notes.append(f"columns are separated by {layout.delimiters} (detected)")
    if dialect.max_cells:
        notes.append(
            f"{layout.delimiters} in the last column ({layout.columns[-1]!r}) belong to its text"
        )
    if layout.min_width < len(layout.columns):
        notes.append(f"some rows have {layout.min_width} cells: the last ones are missing")
    if options.quoting is None and dialect.has_backslashes:
        notes.append("a backslash before a quotation mark makes it an ordinary character")
    if options.quoting is None and dialect.ignores_quotes:
        notes.append(
            "quotation marks are ordinary characters here; if they enclose cells, try "
            "--set data.quoting=true"
        )
    if layout.decimal_commas:
        listed = ", ".join(map(repr, sorted(layout.decimal_commas)))
        notes.append(f"decimal commas are read as points in {listed}")
    return [*notes, *header_note(choice, options.header)]
