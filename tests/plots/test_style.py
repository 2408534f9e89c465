"""Shared style: a palette for every kind of colour vision, and lines that stay visible."""

from itertools import combinations

import numpy as np
import pytest

from saccade.plots.style import LINE_COLORS, nested_lines

# Machado, Oliveira and Fernandes (2009), complete deficiency, on linear RGB
VISION = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
) / np.array([[0.95047], [1.0], [1.08883]])


def lab(colour: str, vision: np.ndarray) -> np.ndarray:
    """Return CIELAB coordinates of a colour as someone with this vision sees it."""
    rgb = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(vision @ linear, 0, 1)
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
def test_line_colours_differ_for_every_kind_of_colour_vision(vision: str) -> None:
    seen = [lab(colour, VISION[vision]) for colour in LINE_COLORS]
    distances = [float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)]
    assert min(distances) > 15  # 2.3 is just noticeable
    white = lab("#ffffff", VISION[vision])
    assert min(float(np.linalg.norm(colour - white)) for colour in seen) > 30


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_nested_lines_become_thinner(count: int) -> None:
    widths = [width for _, width in nested_lines(count)]
    assert widths == sorted(widths, reverse=True) and len(set(widths)) == count
    assert 1 < min(widths) and max(widths) < 6
    assert {width for _, width in nested_lines(count, 0.0)} == {widths[-1]}
