r"""Division of a piece of delimited text into cells by a few operations on all of its bytes.

With the number of quotation marks before it, a byte is known to be inside (odd) or outside (even)
of a quoted cell; delimiters and line ends outside end cells and rows. A mark directly behind a
closing one is doubled and stays; the others are removed. Text in which a mark opens a cell in its
middle, or has text behind it where it closes one, is left to the csv module, which has the same
result for all other text.
"""

from typing import NamedTuple

import numpy as np

from saccade.data.records.dialect import CellRows
from saccade.types.arrays import BoolArray, ByteArray, IntArray

REMOVED, CELL_END = 0x1E, 0x1F  # information separators of ASCII: no text has them
QUOTE, LINE_FEED, CARRIAGE_RETURN = 0x22, 0x0A, 0x0D


class DividedCells(NamedTuple):
    """The cells of some whole rows in their order, and where each row ends."""

    content: bytes  # in UTF-8, CELL_END after each cell
    ends: IntArray  # number of cells up to the end of each row
    empty: BoolArray  # True for rows that are empty lines
    lines: IntArray  # number of line ends before each row
    size: int  # bytes of the rows
    line_count: int  # line ends of the rows

    def columns(self, width: int) -> list[list[str]] | None:
        """Return the cells by column; None if a row is empty or has another length."""
        count = len(self.ends)
        if self.empty.any() or not np.array_equal(self.ends, np.arange(1, count + 1) * width):
            return None
        cells = self.cells()
        return [cells[column::width] for column in range(width)]

    def rows(self) -> CellRows:
        """Return the cells of each row; an empty line is an empty row."""
        cells, ends = self.cells(), self.ends.tolist()
        starts = [0, *ends][:-1]
        return [
            [] if empty else cells[start:end]
            for start, end, empty in zip(starts, ends, self.empty.tolist(), strict=True)
        ]

    def cells(self) -> list[str]:
        """Return all cells."""
        cells = self.content.decode().split(chr(CELL_END))
        cells.pop()  # after the last one
        return cells


def divide_cells(content: bytes, delimiter: str, has_quotes: bool) -> DividedCells | None:
    """Return the cells of the whole rows at the start of a text; None: for the csv module.

    Args:
        content: rows in UTF-8; the last one may be cut anywhere.
        delimiter: an ASCII character.
        has_quotes: True if quotation marks enclose cells.
    """
    if bytes([REMOVED]) in content or bytes([CELL_END]) in content:
        return None
    raw: ByteArray = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero((raw == LINE_FEED) | (raw == ord(delimiter)))
    is_line_end = raw[ends] == LINE_FEED
    line_ends = ends[is_line_end]
    quotes = np.flatnonzero(raw == QUOTE) if has_quotes and b'"' in content else None
    if quotes is not None:
        is_outside = np.searchsorted(quotes, ends) % 2 == 0
        ends, is_line_end = ends[is_outside], is_line_end[is_outside]
    row_ends = ends[is_line_end]
    size = int(row_ends[-1]) + 1 if len(row_ends) else 0
    ends, is_line_end = ends[: np.searchsorted(ends, size)], is_line_end[: len(ends)]
    line_ends = line_ends[: np.searchsorted(line_ends, size)]
    text = raw[:size].copy()
    if quotes is not None:
        quotes = quotes[: np.searchsorted(quotes, size)]
        if not _remove_quotes(text, quotes[::2], quotes[1::2], ord(delimiter)):
            return None
    if b"\r" in content:
        returns = np.flatnonzero(raw[:size] == CARRIAGE_RETURN)
        if quotes is not None:
            returns = returns[np.searchsorted(quotes, returns) % 2 == 0]
        is_at_end = raw[returns + 1] == LINE_FEED
        if has_quotes and not is_at_end.all():
            return None
        text[returns[is_at_end]] = REMOVED
    text[ends] = CELL_END
    starts = np.concatenate([np.zeros(1, np.int64), row_ends + 1])[: len(row_ends)]
    lengths = row_ends - starts
    return DividedCells(
        text.tobytes().translate(None, bytes([REMOVED])),
        np.flatnonzero(is_line_end) + 1,
        (lengths == 0) | ((lengths == 1) & (raw[starts] == CARRIAGE_RETURN)),
        np.arange(len(starts))
        if len(line_ends) == len(starts)
        else np.searchsorted(line_ends, starts),
        size,
        len(line_ends),
    )


def _remove_quotes(text: ByteArray, opens: IntArray, closes: IntArray, delimiter: int) -> bool:
    """Mark quotation marks as removed, but one of doubled ones; False if a cell is not whole."""
    is_doubled = np.zeros(len(opens) + 1, bool)  # an opening mark, behind a closing one
    is_doubled[1:-1] = opens[1:] == closes[:-1] + 1
    starts, after = opens[~is_doubled[:-1]], closes[~is_doubled[1:]] + 1
    before, behind = text[starts - 1], text[after]
    is_started = (before == delimiter) | (before == LINE_FEED) | (starts == 0)
    is_return = (behind == CARRIAGE_RETURN) & (
        text[np.minimum(after + 1, len(text) - 1)] == LINE_FEED
    )
    is_ended = (behind == delimiter) | (behind == LINE_FEED) | is_return
    text[starts] = REMOVED
    text[closes] = REMOVED
    return bool(is_started.all() and is_ended.all())
