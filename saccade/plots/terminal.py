"""Attention maps as text for a terminal: what is looked at across the top, what is written down
the side, a block or a colour for each weight.

Nothing here needs matplotlib or torch, so that a map is on the screen at once.
"""

import sys
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import wcwidth

SHADE_BLOCKS = " ░▒▓█"
ASCII_SHADES = " .:-=+*#%@"  # for screens that cannot show blocks
# Dark to light like matplotlib's magma, of the 256 colours every terminal has; each is lighter
# to the eye than the one before.
TERMINAL_COLORS = (233, 53, 54, 90, 125, 162, 168, 203, 209, 216, 222, 229)
SCALE_LIMITS = (0.05, 0.1, 0.2, 0.5, 1.0)

VISIBLE_SIGNS = {
    " ": "␣",
    "\u00a0": "⍽",
    "\u202f": "⍽",
    "\u3000": "␣",
    "\t": "⇥",
    "\n": "↵",
    "\r": "↵",
}
INVISIBLE_SIGN = "∅"  # stands for a character that cannot be seen
LTR_MARK = "\u200e"
MAX_VERTICAL_LETTERS = 16  # letters of a piece that is written downwards
MAX_SIDE_LABEL_WIDTH = 20  # columns of a piece at the side


class AttentionMap(NamedTuple):
    """One attention map: row t says how much each key was looked at while piece t was written."""

    weights: np.ndarray  # (T, S), rows sum to 1, or to 0 where nothing may be seen
    rows: Sequence[str]  # T pieces being written
    columns: Sequence[str]  # S pieces looked at
    title: str  # "cross attention, layer 1, head 2"
    across: str = "source (looked at)"  # what the columns are
    down: str = "target (written)"  # what the rows are


class HeaderLayout(NamedTuple):
    """How the pieces across the top are set: the columns each takes, flat or downwards."""

    labels: list[str]
    widths: list[int]
    vertical: bool


def display_width(text: str) -> int:
    """The columns a terminal gives to `text`: 2 for 年 or 😀, 1 for é however it is written."""
    return wcwidth.width(text, control_codes="ignore")


def check_map(map: AttentionMap) -> AttentionMap:
    """The map itself, or a `ValueError` that says what does not fit."""
    shape, wanted = np.shape(map.weights), (len(map.rows), len(map.columns))
    if shape != wanted:
        raise ValueError(
            f"{map.title}: got weights of shape {shape} for {wanted[0]} rows and {wanted[1]} "
            f"columns; give weights of shape {wanted}."
        )
    if 0 in wanted:
        raise ValueError(f"{map.title}: there is nothing to draw, the map is {wanted}.")
    if not np.isfinite(map.weights).all() or np.min(map.weights) < 0:
        raise ValueError(
            f"{map.title}: some weights are negative or not finite; attention weights are "
            "between 0 and 1. Look for a NaN in the model."
        )
    return map


def scale_limit(weights: np.ndarray) -> float:
    """The end of the scale: 1, or less if every weight is so small that nothing would show."""
    return next((limit for limit in SCALE_LIMITS if weights.max() <= limit), float(weights.max()))


def visible_text(piece: str) -> str:
    """A piece as it can be seen: spaces and controls as signs, a lone mark on a dotted circle."""
    if not piece or all(is_invisible(letter) for letter in piece):
        return INVISIBLE_SIGN
    seen = "".join(visible_letter(letter, at) for at, letter in enumerate(piece))
    if unicodedata.category(seen[0])[0] == "M" or display_width(seen) == 0:
        seen = "◌" + seen
    return seen


def visible_letter(letter: str, at: int) -> str:
    """One letter of a piece; what joins letters stays when it has one to its left."""
    if letter in VISIBLE_SIGNS:
        return VISIBLE_SIGNS[letter]
    joins = letter in "\u200c\u200d" or "\ufe00" <= letter <= "\ufe0f" or "\U000e0020" <= letter
    return INVISIBLE_SIGN if is_invisible(letter) and not (joins and at) else letter


def is_invisible(letter: str) -> bool:
    """Whether a letter alone leaves no mark: controls, format characters, selectors."""
    if letter in VISIBLE_SIGNS:
        return False
    kind = unicodedata.category(letter)
    return kind in {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp", "Zs"} or "\ufe00" <= letter <= "\ufe0f"


def explain_invisible(pieces: Sequence[str], of: str) -> list[str]:
    """A line for each kind of piece that is shown as ∅, so that nothing stays hidden."""
    places: dict[str, list[str]] = {}
    for number, piece in enumerate(pieces, 1):
        if visible_text(piece) == INVISIBLE_SIGN:
            names = " ".join(map(character_name, piece)) or "an empty piece"
            places.setdefault(names, []).append(str(number))
    return [f"{INVISIBLE_SIGN} {of} {', '.join(at)}: {names}" for names, at in places.items()]


def character_name(letter: str) -> str:
    """A character's number and name: 'U+200F right-to-left mark'."""
    return f"U+{ord(letter):04X} {unicodedata.name(letter, '').lower()}".strip()


def has_right_to_left(text: str) -> bool:
    """Whether a terminal may turn this text, and its neighbours with it, around."""
    return any(unicodedata.bidirectional(letter) in {"R", "AL", "AN"} for letter in text)


def isolate_right_to_left(text: str) -> str:
    """Text between left-to-right marks if it needs them, so that it stays in its cell."""
    return f"{LTR_MARK}{text}{LTR_MARK}" if has_right_to_left(text) else text


def render_terminal(
    map: AttentionMap, width: int = 80, colour: bool = True, encoding: str | None = None
) -> str:
    """The map as lines of at most `width` columns, ready to print.

    A source that is too long for one line is continued in bands below each other. `encoding`
    is the screen's (that of standard output if None): what it cannot write is written in
    letters that it can.
    """
    check_map(map)
    screen = TerminalScreen(encoding or getattr(sys.stdout, "encoding", None) or "utf-8", colour)
    rows, cut_rows = side_labels(map.rows, screen, width)
    margin = max(display_width(row) for row in rows) + 1
    room = max(width - margin, 4)
    columns = [screen.text(visible_text(piece)) for piece in map.columns]
    layout, cut_columns = truncate_header(arrange_header(columns, room), map.columns, screen)
    bands = split_bands(layout.widths, room)
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
                + screen.blocks(weights / scale_limit(map.weights), part)
            )
    if len(bands) == 1:
        append_strongest(lines, map, columns, width)
    lines.append(screen.scale(scale_limit(map.weights)))
    notes = (
        explain_invisible(map.columns, "column")
        + explain_invisible(map.rows, "row")
        + cut_columns
        + cut_rows
    )
    return "\n".join([*lines, *(screen.text(note) for note in notes)])


class TerminalScreen(NamedTuple):
    """What a screen can show."""

    encoding: str
    colour: bool

    def can_encode(self, text: str) -> bool:
        """Whether the screen's encoding has these letters."""
        try:
            text.encode(self.encoding)
        except UnicodeError:
            return False
        return True

    def text(self, text: str) -> str:
        r"""The text itself, or with numbers such as \u5e74 where the encoding lacks a letter."""
        if self.can_encode(text):
            return text
        text = (
            text.replace("␣", "_").replace("⍽", "_").replace(INVISIBLE_SIGN, "0").replace("…", "~")
        )
        return text.encode(self.encoding, "backslashreplace").decode(self.encoding)

    def ellipsis(self) -> str:
        """What stands where text was cut."""
        return "…" if self.can_encode("…") else "~"

    def shades(self) -> str:
        """The signs from no weight to the most."""
        return SHADE_BLOCKS if self.can_encode(SHADE_BLOCKS) else ASCII_SHADES

    def blocks(self, shares: np.ndarray, layout: HeaderLayout) -> str:
        """One line of the grid, from shares of the scale's end."""
        return "".join(self.runs([*zip(shares.tolist(), layout.widths, strict=True)]))

    def runs(self, shares: list[tuple[float, int]]) -> list[str]:
        """Signs or colours; a colour is named once for neighbours that share it."""
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
        """The line that says what the signs mean."""
        steps = len(TERMINAL_COLORS) if self.colour else len(self.shades())
        signs = self.runs([(step / (steps - 1), 1 if self.colour else 2) for step in range(steps)])
        return f"weight 0 {''.join(signs)} {end:g}"


def side_labels(
    pieces: Sequence[str], screen: TerminalScreen, width: int
) -> tuple[list[str], list[str]]:
    """The pieces down the side, and a note for each that had to be cut."""
    limit = min(MAX_SIDE_LABEL_WIDTH, max(width // 4, 1))
    labels, notes = [], []
    for number, piece in enumerate(pieces, 1):
        label = screen.text(visible_text(piece))
        if display_width(label) > limit:
            notes.append(f"row {number}: {visible_text(piece)}")
            label = truncate_to_width(label, limit - 1) + screen.ellipsis()
        labels.append(label)
    return labels, notes


def truncate_to_width(text: str, width: int) -> str:
    """The beginning of a text that takes at most `width` columns, letters kept whole."""
    taken, kept = 0, ""
    for letter in wcwidth.iter_graphemes(text):
        taken += display_width(letter)
        if taken > width:
            break
        kept += letter
    return kept


def arrange_header(labels: list[str], room: int) -> HeaderLayout:
    """The widest setting that fits: flat, then one column a letter, then words downwards."""
    step = 3 if would_merge(labels) else 2
    flat = [step if is_one_letter(label) else display_width(label) + 1 for label in labels]
    if sum(flat) <= room:
        return HeaderLayout(labels, flat, vertical=False)
    if all(display_width(label) == 1 and not has_right_to_left(label) for label in labels):
        return HeaderLayout(labels, [1] * len(labels), vertical=False)
    words = not all(is_one_letter(label) for label in labels)
    return HeaderLayout(labels, [step] * len(labels), vertical=words)


def is_one_letter(label: str) -> bool:
    """Whether a label fits a cell of two columns: one letter, with whatever sits on it."""
    return display_width(label) <= 2 and len(list(wcwidth.iter_graphemes(label))) == 1


def would_merge(labels: list[str]) -> bool:
    """Whether neighbours with no gap would melt into one letter (two halves of a flag)."""
    return any(
        display_width(a + b) != display_width(a) + display_width(b) for a, b in pairwise(labels)
    )


def truncate_header(
    layout: HeaderLayout, pieces: Sequence[str], screen: TerminalScreen
) -> tuple[HeaderLayout, list[str]]:
    """Labels of at most `TALLEST` letters downwards, and a note for each that was cut."""
    if not layout.vertical:
        return layout, []
    labels, notes = [], []
    for number, (label, piece) in enumerate(zip(layout.labels, pieces, strict=True), 1):
        letters = list(wcwidth.iter_graphemes(label))
        if len(letters) > MAX_VERTICAL_LETTERS:
            label = "".join(letters[: MAX_VERTICAL_LETTERS - 1]) + screen.ellipsis()
            notes.append(f"column {number}: {visible_text(piece)}")
        labels.append(label)
    return layout._replace(labels=labels), notes


def split_bands(widths: list[int], room: int) -> list[tuple[int, int]]:
    """Bands of columns that each fit into `room`, as even as they can be."""
    each = max(1, room // max(widths)) if sum(widths) > room else len(widths)
    count = -(-len(widths) // each)
    edges = [len(widths) * band // count for band in range(count + 1)]
    return list(pairwise(edges))


def header_lines(layout: HeaderLayout) -> list[str]:
    """The lines above the grid; pieces written downwards stand on it."""
    if not layout.vertical:
        return [header_line(layout.labels, layout.widths)]
    letters = [list(wcwidth.iter_graphemes(label)) for label in layout.labels]
    tall = max(len(column) for column in letters)
    columns = [[""] * (tall - len(column)) + column for column in letters]
    return [header_line(line, layout.widths) for line in zip(*columns, strict=True)]


def header_line(labels: Sequence[str], widths: list[int]) -> str:
    """Labels, each held in its own columns."""
    pairs = zip(labels, widths, strict=True)
    return "".join(
        isolate_right_to_left(label) + " " * (width - display_width(label))
        for label, width in pairs
    ).rstrip()


def append_strongest(lines: list[str], map: AttentionMap, columns: list[str], width: int) -> None:
    """Beside each row, where there is room: the key looked at most, and its weight."""
    notes = []
    for weights in map.weights:
        best = int(weights.argmax())
        note = f"  {weights[best]:4.0%} {isolate_right_to_left(columns[best])}"
        notes.append(note if weights[best] > 0 else "")
    first = len(lines) - len(notes)
    noted = [line + note for line, note in zip(lines[first:], notes, strict=True)]
    if max(display_width(wcwidth.strip_sequences(line)) for line in noted) <= width:
        lines[first:] = noted
