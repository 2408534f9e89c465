"""An attribution as text for a terminal: words on colours, and the strongest parts as a list.

Imports neither matplotlib nor torch.
"""

import sys

import numpy as np

from saccade.inspection.attribution import ATTRIBUTION_METHODS, Attribution, check_attribution
from saccade.plots.terminal import (
    TerminalScreen,
    display_width,
    isolate_right_to_left,
    truncate_to_width,
    visible_text,
)

# backgrounds of the 256 xterm colours, from a weak to a strong score
RAISING_BACKGROUNDS = (153, 111, 69, 26)
LOWERING_BACKGROUNDS = (224, 217, 210, 160)
LIGHT_TEXT_LEVEL = 3  # from this strength on the letters are white
MIN_STRENGTH = 0.08  # share of the largest score below which a word has no colour
MAX_LISTED_PARTS = 8
BAR_WIDTH = 16  # columns of the longest bar
MAX_PART_WIDTH = 24  # columns of a listed part


def render_attribution(
    attribution: Attribution, width: int = 80, colour: bool = True, encoding: str | None = None
) -> str:
    """Return the attribution as lines of at most `width` terminal columns.

    The text is printed with coloured words; below it, or for a row instead of it, the strongest
    parts with their scores and bars.
    """
    check_attribution(attribution)
    screen = TerminalScreen(encoding or getattr(sys.stdout, "encoding", None) or "utf-8", colour)
    lines = []
    if attribution.spans and colour:
        lines += [*_coloured_text(attribution, screen, width), ""]
    lines += _strongest_parts(attribution, screen, width)
    return "\n".join(lines)


def strength_level(score: float, limit: float) -> int:
    """Return 0 for no colour, or 1 to 4 from a weak to a strong score."""
    share = abs(score) / limit
    return 0 if share < MIN_STRENGTH else 1 + min(int(share * 4), 3)


def _coloured_text(attribution: Attribution, screen: TerminalScreen, width: int) -> list[str]:
    """Return the text, wrapped between words, with a background for each word."""
    limit = float(np.abs(attribution.scores).max()) or 1.0
    lines, line, used, previous_end = [], "", 0, 0
    for index, (start, end) in enumerate(attribution.spans):
        gap = " " if index and start > previous_end else ""
        word = screen.text(visible_text(attribution.text[start:end]))
        word = truncate_to_width(word, width)
        size = display_width(word)
        if used and used + len(gap) + size > width:
            lines.append(line)
            line, used, gap = "", 0, ""
        line += gap + _coloured(word, float(attribution.scores[index]), limit)
        used += len(gap) + size
        previous_end = end
    return [*lines, line]


def _coloured(word: str, score: float, limit: float) -> str:
    level = strength_level(score, limit)
    if not level:
        return word
    background = (RAISING_BACKGROUNDS if score > 0 else LOWERING_BACKGROUNDS)[level - 1]
    letters = 231 if level > LIGHT_TEXT_LEVEL else 16
    return f"\x1b[48;5;{background};38;5;{letters}m{word}\x1b[0m"


def _strongest_parts(attribution: Attribution, screen: TerminalScreen, width: int) -> list[str]:
    order = [i for i in attribution.strongest(MAX_LISTED_PARTS) if attribution.scores[i] != 0]
    if not order:
        return [screen.text("No part changes the value.")]
    limit = float(np.abs(attribution.scores).max())
    names = [_part_name(attribution, int(index), screen) for index in order]
    margin = max(display_width(name) for name in names)
    block = "█" if screen.can_encode("█") else "#"
    lines = []
    for name, index in zip(names, order, strict=True):
        score = float(attribution.scores[index])
        bar = block * max(1, round(BAR_WIDTH * abs(score) / limit))
        gap = " " * (margin - display_width(name))
        line = f"{isolate_right_to_left(name)}{gap}  {score:+9.3f}  {bar}"
        lines.append(line if display_width(line) <= width else truncate_to_width(line, width))
    method = f"{attribution.unit}: {ATTRIBUTION_METHODS[attribution.method]}"
    if attribution.is_complete:
        method += f"; base {attribution.base:+.3f}, sum {attribution.value:+.3f}"
    method += f"; baseline: {attribution.baseline}"
    return [*lines, screen.text(method)]


def _part_name(attribution: Attribution, index: int, screen: TerminalScreen) -> str:
    name = visible_text(attribution.parts[index])
    if attribution.cells:
        name = f"{name} = {attribution.cells[index]}".replace("␣", " ")
    if display_width(name) > MAX_PART_WIDTH:
        name = truncate_to_width(name, MAX_PART_WIDTH - 1) + screen.ellipsis()
    return screen.text(name)
