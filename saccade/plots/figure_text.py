"""Heat maps and trees as text for a terminal. Imports neither matplotlib nor torch."""

import sys

import numpy as np

from saccade.inspection.figures import HeatMap, Tree, check_heat_map
from saccade.plots.attribution_text import LOWERING_BACKGROUNDS, RAISING_BACKGROUNDS
from saccade.plots.terminal import (
    TERMINAL_COLORS,
    HeaderLayout,
    TerminalScreen,
    arrange_header,
    display_width,
    header_lines,
    isolate_right_to_left,
    side_labels,
    split_bands,
    truncate_header,
    visible_text,
)

MAX_HEAT_ROWS, MAX_HEAT_COLUMNS = 24, 60  # of a map in a terminal


def render_heat_map(
    map: HeatMap, width: int = 80, colour: bool = True, encoding: str | None = None
) -> str:
    """Return the map as lines of at most `width` terminal columns.

    A map with more rows than a screen has shows those with the largest variance. Without colours a
    signed value is its sign and its tenths of the scale, any other a block.
    """
    check_heat_map(map)
    screen = TerminalScreen(encoding or getattr(sys.stdout, "encoding", None) or "utf-8", colour)
    map, notes = _crop(map)
    names = list(map.rows)
    rows, _ = side_labels(names, screen, width)
    margin = max(display_width(row) for row in rows) + 1
    columns = [screen.text(visible_text(token)) for token in map.columns]
    if map.cells:
        return "\n".join([screen.text(map.title), *_text_table(map, rows, columns), *notes])
    low, high = map.scale
    step = 3 if low < 0 and not colour else 2
    layout = arrange_header(columns, max(width - margin, 4))
    layout = layout._replace(widths=[max(step, size) for size in layout.widths])
    layout, _ = truncate_header(layout, map.columns, screen)
    bands = split_bands(layout.widths, max(width - margin, 4))
    lines = [screen.text(map.title)]
    for start, end in bands:
        part = HeaderLayout(layout.labels[start:end], layout.widths[start:end], layout.vertical)
        if len(bands) > 1:
            lines.append(f"columns {start + 1} to {end} of {len(columns)}")
        lines += [" " * margin + line for line in header_lines(part)]
        for label, values in zip(rows, map.values[:, start:end], strict=True):
            gap = " " * (margin - 1 - display_width(label))
            cells = _cells(values, (low, high), part.widths, screen)
            lines.append(f"{gap}{isolate_right_to_left(label)} {cells}".rstrip())
    return "\n".join([*lines, f"scale {low:.3g} to {high:.3g}", *notes])


def _crop(map: HeatMap) -> tuple[HeatMap, list[str]]:
    notes = []
    values = map.values
    rows = np.arange(len(values))
    if len(rows) > MAX_HEAT_ROWS:
        spread = np.nan_to_num(values).var(axis=1)
        rows = np.sort(np.argsort(-spread, kind="stable")[:MAX_HEAT_ROWS])
        notes.append(f"{len(rows)} of {len(values)} rows: those that vary most")
    columns = slice(None)
    if len(map.columns) > MAX_HEAT_COLUMNS:
        columns = slice(len(map.columns) - MAX_HEAT_COLUMNS, None)
        notes.append(f"the last {MAX_HEAT_COLUMNS} of {len(map.columns)} columns")
    labels = [map.rows[row] if map.rows else str(row + 1) for row in rows.tolist()]
    cells = [list(map.cells[row])[columns] for row in rows.tolist()] if map.cells else ()
    cropped = map._replace(
        values=values[rows][:, columns],
        rows=labels,
        columns=list(map.columns)[columns],
        cells=cells,
        limits=map.scale,
    )
    return cropped, notes


def _text_table(map: HeatMap, rows: list[str], columns: list[str]) -> list[str]:
    table = [["", *columns], *([row, *cells] for row, cells in zip(rows, map.cells, strict=True))]
    widths = [max(display_width(line[at]) for line in table) for at in range(len(table[0]))]
    return [
        "  ".join(
            isolate_right_to_left(cell) + " " * (size - display_width(cell))
            for cell, size in zip(line, widths, strict=True)
        ).rstrip()
        for line in table
    ]


def _cells(
    values: np.ndarray, scale: tuple[float, float], widths: list[int], screen: TerminalScreen
) -> str:
    low, high = scale
    if low >= 0:
        shares = np.clip((np.nan_to_num(values) - low) / ((high - low) or 1.0), 0.0, 1.0)
        return "".join(screen.runs([*zip(shares.tolist(), widths, strict=True)]))
    pieces = []
    for value, width in zip((np.nan_to_num(values) / high).tolist(), widths, strict=True):
        tenths = min(round(9 * abs(value)), 9)
        sign = "+" if value > 0 else "-"
        if not screen.colour:
            pieces.append((f"{sign}{tenths}" if tenths else "·").ljust(width))
            continue
        backgrounds = RAISING_BACKGROUNDS if value > 0 else LOWERING_BACKGROUNDS
        level = backgrounds[min(tenths // 3, 3)] if tenths else TERMINAL_COLORS[0]
        pieces.append(f"\x1b[48;5;{level}m{' ' * width}\x1b[0m")
    return "".join(pieces)


def render_tree(tree: Tree, encoding: str | None = None) -> str:
    """Return the tree as indented lines with branches; pruned nodes have a ×."""
    screen = TerminalScreen(encoding or getattr(sys.stdout, "encoding", None) or "utf-8", False)
    children = tree.children()
    lines = [tree.title] if tree.title else []
    pending = [(0, "", "", "")]
    while pending:
        index, lead, branch, below = pending.pop()
        node = tree.nodes[index]
        note = f"  {node.note}" if node.note else ""
        pruned = "" if node.kept else "  ×"
        label = isolate_right_to_left(visible_text(node.label))
        lines.append(f"{lead}{branch}{label}{note}{pruned}")
        for number, child in enumerate(reversed(children[index])):
            last = number == 0
            pending.append((child, lead + below, "└ " if last else "├ ", "  " if last else "│ "))
    if screen.can_encode("└├│×"):
        return "\n".join(screen.text(line) for line in lines)
    plain = str.maketrans({"└": "`", "├": "|", "│": "|", "×": "x"})
    return "\n".join(screen.text(line.translate(plain)) for line in lines)
