"""Pictures of an episode: an animation with the values next to it, lines, or text."""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from saccade.inspection.episode import EpisodeRecord
from saccade.io.atomic import write_atomically
from saccade.io.staging import check_output_path
from saccade.plots.lines import save_line_panels
from saccade.plots.style import LINE_COLORS, MUTED_COLOR, TEXT_COLOR

MAX_FRAMES = 300  # of an animation; of a longer episode every second or third step is drawn
FRAME_MILLISECONDS = 50
PICTURE_HEIGHT = 240  # pixels
PANEL_WIDTH = 200
ROW_HEIGHT = 26  # of an action in the panel
MAX_ROWS = 6
BAR_CELLS = 20  # characters of a bar in a terminal


def save_episode(record: EpisodeRecord, path: Path) -> list[str]:
    """Save a GIF with the values next to each picture, or lines as PNG, SVG or PDF."""
    if path.suffix.lower() != ".gif":
        return save_line_panels(record.panels(), path)
    if not record.frames:
        raise ValueError(
            f"got {path} for {record.world}, which draws no pictures (render mode rgb_array); "
            f"expected lines; try {path.with_suffix('.png')}."
        )
    if not check_output_path(path, "--save").parent.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent.parent}; create it first.")
    every = -(-len(record.frames) // MAX_FRAMES)
    images = [_draw(record, step) for step in range(0, len(record.frames), every)]
    content = io.BytesIO()
    images[0].save(
        content,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=FRAME_MILLISECONDS * every,
        loop=0,
    )
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, content.getvalue())
    return []


def _draw(record: EpisodeRecord, step: int) -> Image.Image:
    """Return the picture before a step, with a bar for the number of each action."""
    picture = Image.fromarray(np.ascontiguousarray(record.frames[step])).convert("RGB")
    width = max(1, round(picture.width * PICTURE_HEIGHT / picture.height))
    image = Image.new("RGB", (width + PANEL_WIDTH, PICTURE_HEIGHT), "white")
    image.paste(picture.resize((width, PICTURE_HEIGHT)), (0, 0))
    draw = ImageDraw.Draw(image)
    left = width + 12
    so_far = float(record.rewards[:step].sum())
    draw.text((left, 8), f"step {step + 1}   return {so_far:.4g}", fill=TEXT_COLOR)
    draw.text((left, 28), f"{record.quantity} of each action", fill=MUTED_COLOR)
    low, high = _limits(record)
    for row in range(min(len(record.names), MAX_ROWS)):
        top = 50 + row * ROW_HEIGHT
        number = float(record.numbers[step, row])
        taken = record.actions.ndim == 1 and int(record.actions[step]) == row
        label = f"{'> ' if taken else ''}{record.names[row]}  {number:.3g}"
        draw.text((left, top), label, fill=TEXT_COLOR if taken else MUTED_COLOR)
        zero = left + round((PANEL_WIDTH - 24) * (min(max(0.0, low), high) - low) / (high - low))
        end = left + round((PANEL_WIDTH - 24) * (number - low) / (high - low))
        box = (min(zero, end), top + 13, max(zero, end) + 1, top + 19)
        draw.rectangle(box, fill=LINE_COLORS[1 if taken else 0])
    if record.predicted is not None:
        bottom = PICTURE_HEIGHT - 20
        draw.text((left, bottom), f"value {float(record.predicted[step]):.4g}", fill=TEXT_COLOR)
    return image


def _limits(record: EpisodeRecord) -> tuple[float, float]:
    """Return the ends of the bars; 0 is between them, unless values differ by less than it."""
    low, high = float(record.numbers.min()), float(record.numbers.max())
    if record.quantity != "value":
        low, high = min(0.0, low), max(0.0, high)
    return (low, high) if high > low else (low, low + 1.0)


def render_episode(record: EpisodeRecord, width: int = 80) -> str:
    """Return an episode as text: the environment's own, or a line with bars for each step."""
    low, high = _limits(record)
    lines = []
    for step, reward in enumerate(record.rewards.tolist()):
        if record.texts:
            lines.append(record.texts[step].rstrip())
        cells = [
            _cell(record, step, row, low, high) for row in range(min(len(record.names), MAX_ROWS))
        ]
        lines.append(f"{step + 1:4d}  {'  '.join(cells)}  reward {reward:.3g}"[: max(width, 40)])
    end = "cut off by the time limit" if record.is_cut_off else "ended by the environment"
    lines.append(f"return {record.total:.4g} in {len(record.rewards):,} steps, {end}")
    return "\n".join(lines)


def _cell(record: EpisodeRecord, step: int, row: int, low: float, high: float) -> str:
    number = float(record.numbers[step, row])
    taken = record.actions.ndim == 1 and int(record.actions[step]) == row
    size = max(4, BAR_CELLS // len(record.names))
    bar = "█" * round(size * (number - low) / (high - low))
    return f"{'>' if taken else ' '}{record.names[row]} {number:8.3g} {bar:<{size}}"
