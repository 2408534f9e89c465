"""Attention maps as text for a terminal: keys across the top, queries down the side, a block or a
colour for each weight.

Imports neither matplotlib nor torch, so that a map is printed without delay.
"""

import sys
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import wcwidth

from saccade.inspection.attention_map import AttentionMap, check_map, map_limit

SHADE_BLOCKS = " ░▒▓█"
ASCII_SHADES = " .:-=+*#%@"  # for encodings without block characters
# dark to light like matplotlib's magma, from the 256 xterm colours, with growing lightness
TERMINAL_COLORS = (233, 53, 54, 90, 125, 162, 168, 203, 209, 216, 222, 229)

VISIBLE_SIGNS = {
    " ": "␣",
    "\u00a0": "⍽",
    "\u202f": "⍽",
    "\u3000": "␣",
    "\t": "⇥",
    "\n": "↵",
    "\r": "↵",
}
INVISIBLE_SIGN = "∅"  # replaces an invisible character
LEFT_TO_RIGHT = "\u200e"  # Unicode left-to-right mark
MAX_VERTICAL_LETTERS = 16  # letters of a column label that is set vertically
MAX_SIDE_LABEL_WIDTH = 20  # terminal columns of a row label


class HeaderLayout(NamedTuple):
    """Layout of the column labels: terminal columns of each, horizontal or vertical."""

    labels: list[str]
    widths: list[int]
    vertical: bool


def display_width(text: str) -> int:
    """Return the terminal columns of `text`: 2 for 年 or 😀, 1 for é, composed or not."""
    return wcwidth.width(text, control_codes="ignore")


def visible_text(token: str) -> str:
    """Replace spaces and control characters by signs; put a combining character on a ◌."""
    if not token or all(is_invisible(letter) for letter in token):
        return INVISIBLE_SIGN
    visible = "".join(visible_letter(letter, at) for at, letter in enumerate(token))
    if unicodedata.category(visible[0])[0] == "M" or display_width(visible) == 0:
        visible = "◌" + visible
    return visible


def shorten_name(name: str, limit: int) -> str:
    """Return a name (of a class, a column) in one line of limited length; spaces stay spaces."""
    visible = visible_text(" ".join(name.split()) or name).replace("␣", " ")
    return visible if len(visible) <= limit else f"{visible[: limit - 1]}…"


def visible_letter(letter: str, at: int) -> str:
    """Return the visible form of one character; a joiner is kept if one precedes it."""
    if letter in VISIBLE_SIGNS:
        return VISIBLE_SIGNS[letter]
    joins = letter in "\u200c\u200d" or "\ufe00" <= letter <= "\ufe0f" or "\U000e0020" <= letter
    return INVISIBLE_SIGN if is_invisible(letter) and not (joins and at) else letter


def is_invisible(letter: str) -> bool:
    """True for characters without a glyph: controls, format characters, variation selectors."""
    if letter in VISIBLE_SIGNS:
        return False
    kind = unicodedata.category(letter)
    return kind in {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp", "Zs"} or "\ufe00" <= letter <= "\ufe0f"


def explain_invisible(tokens: Sequence[str], axis: str) -> list[str]:
    """Return a line for each kind of token that is shown as ∅, with its positions on an axis."""
    positions: dict[str, list[str]] = {}
    for number, token in enumerate(tokens, 1):
        if visible_text(token) == INVISIBLE_SIGN:
            names = " ".join(map(character_name, token)) or "an empty token"
            positions.setdefault(names, []).append(str(number))
    return [f"{INVISIBLE_SIGN} {axis} {', '.join(at)}: {names}" for names, at in positions.items()]


def character_name(letter: str) -> str:
    """Return the code point and name of a character: 'U+200F right-to-left mark'."""
    return f"U+{ord(letter):04X} {unicodedata.name(letter, '').lower()}".strip()


def has_right_to_left(text: str) -> bool:
    """True if a terminal may reorder this text and its neighbours."""
    return any(unicodedata.bidirectional(letter) in {"R", "AL", "AN"} for letter in text)


def isolate_right_to_left(text: str) -> str:
    """Put right-to-left text between left-to-right marks, so that it stays in its cell."""
    return f"{LEFT_TO_RIGHT}{text}{LEFT_TO_RIGHT}" if has_right_to_left(text) else text


def render_terminal(
    map: AttentionMap, width: int = 80, colour: bool = True, encoding: str | None = None
) -> str:
    """Return the map as lines of at most `width` terminal columns.

    A map that is too wide is split into bands of columns below each other. `encoding` is that of
    the terminal (of standard output if None); characters that it lacks are replaced.
    """
    check_map(map)
    screen = TerminalScreen(encoding or getattr(sys.stdout, "encoding", None) or "utf-8", colour)
    rows, cut_rows = side_labels(map.rows, screen, width)
    margin = max(display_width(row) for row in rows) + 1
    room = max(width - margin, 4)
    columns = [screen.text(visible_text(token)) for token in map.columns]
    layout, cut_columns = truncate_header(arrange_header(columns, room), map.columns, screen)
    bands, limit = split_bands(layout.widths, room), map_limit(map)
    lines = [screen.text(map.title)]
    for start, end in bands:
        if len(bands) > 1:
            lines.append(f"columns {start + 1} to {end} of {len(columns)}")
        part = HeaderLayout(layout.labels[start:end], layout.widths[start:end], layout.vertical)
        lines += [" " * margin + line for line in header_lines(part)]
        for label, weights in zip(rows, map.weights[:, start:end], strict=True):
            gap = " " * (margin - 1 - display_width(label))
            lines.append(
                gap
                + isolate_right_to_left(label)
                + " "
                + screen.blocks(np.minimum(weights / limit, 1.0), part)
            )
    if len(bands) == 1:
        append_strongest(lines, map, columns, width)
    lines.append(screen.scale(limit))
    notes = (
        explain_invisible(map.columns, "column")
        + explain_invisible(map.rows, "row")
        + cut_columns
        + cut_rows
    )
    return "\n".join([*lines, *(screen.text(note) for note in notes)])


class TerminalScreen(NamedTuple):
    """Capabilities of a terminal."""

    encoding: str
    colour: bool

    def can_encode(self, text: str) -> bool:
        """True if the encoding has all characters of `text`."""
        try:
            text.encode(self.encoding)
        except UnicodeError:
            return False
        return True

    def text(self, text: str) -> str:
        r"""Return the text, with escapes such as \u5e74 for characters that the encoding lacks."""
        if self.can_encode(text):
            return text
        text = (
            text.replace("␣", "_").replace("⍽", "_").replace(INVISIBLE_SIGN, "0").replace("…", "~")
        )
        return text.encode(self.encoding, "backslashreplace").decode(self.encoding)

    def ellipsis(self) -> str:
        """Return the sign for truncated text."""
        return "…" if self.can_encode("…") else "~"

    def shades(self) -> str:
        """Return the signs from weight 0 to the largest."""
        return SHADE_BLOCKS if self.can_encode(SHADE_BLOCKS) else ASCII_SHADES

    def blocks(self, shares: np.ndarray, layout: HeaderLayout) -> str:
        """Return one line of the grid, from weights divided by the end of the scale."""
        return "".join(self.runs([*zip(shares.tolist(), layout.widths, strict=True)]))

    def runs(self, shares: list[tuple[float, int]]) -> list[str]:
        """Return signs or coloured cells; equal neighbours share one colour escape."""
        if not self.colour:
            shades = self.shades()
            return [shades[round(share * (len(shades) - 1))] * width for share, width in shares]
        pieces, last = [], -1
        for share, width in shares:
            level = TERMINAL_COLORS[round(share * (len(TERMINAL_COLORS) - 1))]
            pieces.append((f"\x1b[48;5;{level}m" if level != last else "") + " " * width)
            last = level
        return [*pieces, "\x1b[0m"]

    def scale(self, end: float) -> str:
        """Return the legend of the signs or colours."""
        steps = len(TERMINAL_COLORS) if self.colour else len(self.shades())
        signs = self.runs([(step / (steps - 1), 1 if self.colour else 2) for step in range(steps)])
        return f"weight 0 {''.join(signs)} {end:g}"


def side_labels(
    tokens: Sequence[str], screen: TerminalScreen, width: int
) -> tuple[list[str], list[str]]:
    """Return the row labels, and a note for each that was truncated."""
    limit = min(MAX_SIDE_LABEL_WIDTH, max(width // 4, 1))
    labels, notes = [], []
    for number, token in enumerate(tokens, 1):
        label = screen.text(visible_text(token))
        if display_width(label) > limit:
            notes.append(f"row {number}: {visible_text(token)}")
            label = truncate_to_width(label, limit - 1) + screen.ellipsis()
        labels.append(label)
    return labels, notes


def truncate_to_width(text: str, width: int) -> str:
    """Return the longest prefix of at most `width` columns, without splitting graphemes."""
    taken, kept = 0, ""
    for letter in wcwidth.iter_graphemes(text):
        taken += display_width(letter)
        if taken > width:
            break
        kept += letter
    return kept


def arrange_header(labels: list[str], room: int) -> HeaderLayout:
    """Return the widest layout that fits: horizontal, one column per letter, or vertical."""
    step = 3 if would_merge(labels) else 2
    flat = [step if is_one_letter(label) else display_width(label) + 1 for label in labels]
    if sum(flat) <= room:
        return HeaderLayout(labels, flat, vertical=False)
    if all(display_width(label) == 1 and not has_right_to_left(label) for label in labels):
        return HeaderLayout(labels, [1] * len(labels), vertical=False)
    words = not all(is_one_letter(label) for label in labels)
    return HeaderLayout(labels, [step] * len(labels), vertical=words)


def is_one_letter(label: str) -> bool:
    """True if a label is one grapheme of at most two columns."""
    return display_width(label) <= 2 and len(list(wcwidth.iter_graphemes(label))) == 1


def would_merge(labels: list[str]) -> bool:
    """True if neighbours without a gap would join into one glyph (two halves of a flag)."""
    return any(
        display_width(a + b) != display_width(a) + display_width(b) for a, b in pairwise(labels)
    )


def truncate_header(
    layout: HeaderLayout, tokens: Sequence[str], screen: TerminalScreen
) -> tuple[HeaderLayout, list[str]]:
    """Truncate vertical labels to `MAX_VERTICAL_LETTERS`; return a note for each."""
    if not layout.vertical:
        return layout, []
    labels, notes = [], []
    for number, (label, token) in enumerate(zip(layout.labels, tokens, strict=True), 1):
        letters = list(wcwidth.iter_graphemes(label))
        if len(letters) > MAX_VERTICAL_LETTERS:
            label = "".join(letters[: MAX_VERTICAL_LETTERS - 1]) + screen.ellipsis()
            notes.append(f"column {number}: {visible_text(token)}")
        labels.append(label)
    return layout._replace(labels=labels), notes


def split_bands(widths: list[int], room: int) -> list[tuple[int, int]]:
    """Split the columns evenly into bands that each fit into `room`."""
    each = max(1, room // max(widths)) if sum(widths) > room else len(widths)
    count = -(-len(widths) // each)
    edges = [len(widths) * band // count for band in range(count + 1)]
    return list(pairwise(edges))


def header_lines(layout: HeaderLayout) -> list[str]:
    """Return the lines above the grid; vertical labels are aligned at the bottom."""
    if not layout.vertical:
        return [header_line(layout.labels, layout.widths)]
    letters = [list(wcwidth.iter_graphemes(label)) for label in layout.labels]
    tall = max(len(column) for column in letters)
    columns = [[""] * (tall - len(column)) + column for column in letters]
    return [header_line(line, layout.widths) for line in zip(*columns, strict=True)]


def header_line(labels: Sequence[str], widths: list[int]) -> str:
    """Return labels, each padded to its columns."""
    pairs = zip(labels, widths, strict=True)
    return "".join(
        isolate_right_to_left(label) + " " * (width - display_width(label))
        for label, width in pairs
    ).rstrip()


def append_strongest(lines: list[str], map: AttentionMap, columns: list[str], width: int) -> None:
    """Append the key with the largest weight to each row, if all rows have room."""
    notes = []
    for weights in map.weights:
        best = int(weights.argmax())
        note = f"  {weights[best]:4.0%} {isolate_right_to_left(columns[best])}"
        notes.append(note if weights[best] > 0 else "")
    first = len(lines) - len(notes)
    noted = [line + note for line, note in zip(lines[first:], notes, strict=True)]
    if max(display_width(wcwidth.strip_sequences(line)) for line in noted) <= width:
        lines[first:] = noted
