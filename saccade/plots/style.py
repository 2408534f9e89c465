"""Shared style of all pictures: colours, fonts, axes, and atomic writing of figure files.

No global state of matplotlib (rcParams, pyplot) is used or changed.
"""

import io
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, NullFormatter

from saccade.io.atomic import write_atomically
from saccade.io.staging import check_output_path

IMAGE_FORMATS = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
# white to dark blue in steps of equal perceived lightness
ATTENTION_COLORMAP = LinearSegmentedColormap.from_list(
    "saccade",
    ["#ffffff", "#d3e0f4", "#a6c1e8", "#78a3da", "#4a84c6", "#2a66a8", "#174a83", "#0a2f5c"],
)
TEXT_COLOR, MUTED_COLOR = "#222222", "#8a8a8a"
# Okabe and Ito (2008): distinguishable with any kind of colour vision
LINE_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


class LabelFont(NamedTuple):
    """Font families that cover the text of a picture, and the characters that none has."""

    families: list[str]
    missing: list[str]

    def apply(self, text: Text, size: float, colour: str = TEXT_COLOR) -> None:
        """Set a text in this font, literally: `$` does not start mathematics."""
        text.set_fontproperties(FontProperties(family=self.families, size=size))
        text.set_color(colour)
        text.set_parse_math(False)


def image_format(path: Path) -> str:
    """Return the image format of a path by its suffix; raise `ValueError` for any other."""
    if check_output_path(path, "--save").is_dir():
        raise ValueError(
            f"got {path}, which is a folder; expected the name of a picture; try "
            f"{path / 'figure.png'}."
        )
    if path.suffix.lower() in IMAGE_FORMATS:
        return IMAGE_FORMATS[path.suffix.lower()]
    raise ValueError(
        f"{path} ends in {path.suffix or 'nothing'!r}; "
        f"a picture can be {', '.join(IMAGE_FORMATS)}: try {path.with_suffix('.png')}."
    )


def write_figure(figure: Figure, path: Path, format: str) -> None:
    """Write a figure atomically; of the folders of `path`, only the last is created."""
    if not path.parent.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent.parent}; create it first.")
    content = io.BytesIO()
    figure.savefig(content, format=format, dpi=150, bbox_inches="tight", pad_inches=0.15)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, content.getvalue())


def cycle_colors(count: int) -> list[str]:
    """Return `count` line colours, repeating the palette if necessary."""
    return [LINE_COLORS[number % len(LINE_COLORS)] for number in range(count)]


def nested_lines(count: int, step: float = 0.9) -> list[tuple[str, float]]:
    """Return a colour and a width for each line; later ones are thinner and drawn on top.

    Lines that coincide then all stay visible. `step` is the difference of two widths, in points.
    """
    step = min(step, 3.6 / max(count - 1, 1))
    widths = [1.5 + step * (count - 1 - number) for number in range(count)]
    return list(zip(cycle_colors(count), widths, strict=True))


def style_axes(axes: Axes, y_label: str, legend: bool = True) -> None:
    """Label the y axis and style the panel: no box, faint grid, small grey ticks, a legend."""
    axes.set_ylabel(y_label, color=MUTED_COLOR, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#cccccc")
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, labelsize=8, labelcolor=MUTED_COLOR)
    if legend:
        axes.legend(frameon=False, fontsize=8, labelcolor=TEXT_COLOR)


def add_legend_below(figure: Figure, axes: Axes, columns: int = 1) -> None:
    """Add the legend of a panel below it, where it covers no line."""
    handles, labels = axes.get_legend_handles_labels()
    legend = figure.legend(
        handles, labels, loc="outside lower left", frameon=False, fontsize=8, ncols=columns
    )
    for text in legend.get_texts():
        text.set_color(TEXT_COLOR)


def use_log_axis(axes: Axes) -> None:
    """Use a log y axis with plain numbers: ticks at 1, 2, 5 of a decade if it spans few."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    steps = (1.0,) if high / low > 1000 else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
    if high / low <= 1e6:
        axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
