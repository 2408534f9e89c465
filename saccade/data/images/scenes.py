"""Generated scenes: two or three handwritten digits on a dark canvas, with their captions.

    a seven left of a two                       a seven above a two
    a seven left of a two left of a five        a seven above a two above a five
    a seven left of a two both above a five

A scene is a function of its number alone. Positions decide the caption: digits do not overlap, and
of two that are left of or above each other the distance in that direction is at least 9 pixels and
more than twice that in the other; a digit below both is at least 9 pixels below each of them, and
at least as far below as to one side. The first `HELD_OUT_SCENES` numbers are test, as many after
them dev, all others train; held-out scenes are made of digits that no training scene has. The
digits of training scenes are varied a little (`vary_digit`), since there are only 1,797 of them.
"""

from typing import NamedTuple

import numpy as np

from saccade.data.images.digits import Digits, load_digits
from saccade.seeding import generator
from saccade.types.arrays import ByteArray, IntArray

CANVAS = 32  # pixels of a side
DIGIT_SIDE = 8
MIN_GAP = 9  # pixels between the corners of digits that are compared
HELD_OUT_SCENES = 500
SCENE_SEED = 1
DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MAX_TURN = 0.2  # radians
MAX_RESIZE = 0.15
MAX_SHIFT = 0.5  # pixels
MAX_DARKER = 0.2
TEST_DIGITS, DEV_DIGITS = (0,), (1,)  # last figures of the row numbers of held-out digits


class Region(NamedTuple):
    """A square of an image, and the word of the caption that names its content."""

    word: str
    y: int
    x: int
    side: int


class Scene(NamedTuple):
    """An image (Y, X), its caption, and the region of each digit in the order of the caption."""

    pixels: ByteArray
    caption: str
    regions: tuple[Region, ...]


def scene_split(number: int) -> str:
    """Return the split of a scene by its number."""
    return ("test", "dev", "train")[min(number // HELD_OUT_SCENES, 2)]


def make_scene(number: int) -> Scene:
    """Return the scene of a number."""
    random = generator(SCENE_SEED, "scene", number)
    digits = load_digits()
    layout = SCENE_LAYOUTS[int(random.integers(len(SCENE_LAYOUTS)))]
    corners = _draw_corners(layout, random)
    rows = random.choice(_digit_rows(digits, scene_split(number)), len(corners))
    canvas = np.zeros((CANVAS, CANVAS), np.uint8)
    regions = []
    for (y, x), row in zip(corners, rows.tolist(), strict=True):
        pixels = digits.pixels[row]
        if scene_split(number) == "train":
            pixels = vary_digit(pixels, random)
        canvas[y : y + DIGIT_SIDE, x : x + DIGIT_SIDE] = pixels
        regions.append(Region(DIGIT_WORDS[int(digits.classes[row])], y, x, DIGIT_SIDE))
    caption = layout.caption.format(*(_with_article(region.word) for region in regions))
    return Scene(canvas, caption, tuple(regions))


def vary_digit(pixels: ByteArray, random: np.random.Generator) -> ByteArray:
    """Return a digit turned, resized, moved and darkened a little, resampled bilinearly."""
    turn = random.uniform(-MAX_TURN, MAX_TURN)
    scale = random.uniform(1 - MAX_RESIZE, 1 + MAX_RESIZE)
    shift = random.uniform(-MAX_SHIFT, MAX_SHIFT, 2)
    middle = (DIGIT_SIDE - 1) / 2
    grid = np.mgrid[:DIGIT_SIDE, :DIGIT_SIDE].reshape(2, -1) - middle
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) / scale
    y, x = rotation @ grid + (middle + shift)[:, None] + 1  # of the padded digit
    padded = np.pad(pixels.astype(np.float64), 2)
    low_y, low_x = (np.clip(np.floor(v), 0, DIGIT_SIDE + 1).astype(np.int64) for v in (y, x))
    part_y, part_x = np.clip(y - low_y, 0, 1), np.clip(x - low_x, 0, 1)
    upper = padded[low_y + 1, low_x + 1] * (1 - part_x) + padded[low_y + 1, low_x + 2] * part_x
    lower = padded[low_y + 2, low_x + 1] * (1 - part_x) + padded[low_y + 2, low_x + 2] * part_x
    found = upper * (1 - part_y) + lower * part_y
    darker = random.uniform(1 - MAX_DARKER, 1)
    return np.floor(darker * found + 0.5).astype(np.uint8).reshape(pixels.shape)


def _with_article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" and word != "one" else f"a {word}"


def _digit_rows(digits: Digits, split: str) -> IntArray:
    """Return the digits that the scenes of a split are made of."""
    last = np.arange(len(digits.classes)) % 10
    is_test, is_dev = np.isin(last, TEST_DIGITS), np.isin(last, DEV_DIGITS)
    of_split = {"test": is_test, "dev": is_dev, "train": ~is_test & ~is_dev}
    return np.flatnonzero(of_split[split])


class SceneLayout(NamedTuple):
    """A caption with a gap for each digit, and which pairs of digits it compares."""

    caption: str
    left: tuple[tuple[int, int], ...] = ()  # (a, b): a is left of b
    above: tuple[tuple[int, int], ...] = ()
    loosely_above: tuple[tuple[int, int], ...] = ()  # a may be to one side of b as well


SCENE_LAYOUTS = (
    SceneLayout("{} left of {}", left=((0, 1),)),
    SceneLayout("{} above {}", above=((0, 1),)),
    SceneLayout("{} left of {} left of {}", left=((0, 1), (1, 2))),
    SceneLayout("{} above {} above {}", above=((0, 1), (1, 2))),
    SceneLayout("{} left of {} both above {}", left=((0, 1),), loosely_above=((0, 2), (1, 2))),
)


def _draw_corners(layout: SceneLayout, random: np.random.Generator) -> list[tuple[int, int]]:
    """Return the upper left corner of each digit, drawn until the layout is met."""
    count = layout.caption.count("{}")
    while True:
        corners = random.integers(0, CANVAS - DIGIT_SIDE + 1, (64, count, 2))
        for drawn in corners.tolist():
            if _is_met(layout, drawn):
                return [(y, x) for y, x in drawn]


def _is_met(layout: SceneLayout, corners: list[list[int]]) -> bool:
    for axis, pairs in ((1, layout.left), (0, layout.above)):
        for a, b in pairs:
            along = corners[b][axis] - corners[a][axis]
            across = abs(corners[b][1 - axis] - corners[a][1 - axis])
            if along < MIN_GAP or along <= 2 * across:
                return False
    for a, b in layout.loosely_above:
        down, across = corners[b][0] - corners[a][0], abs(corners[b][1] - corners[a][1])
        if down < max(MIN_GAP, across):
            return False
    return True
