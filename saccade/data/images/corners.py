r"""Generated images whose class is a relation between two distant regions.

Two shapes are drawn in opposite corners of a 32 × 32 image, and the class is whether they are the
same shape. The other shapes, between them, are distractors. No region of the image has the class: a
model that adds a score for each region gets at most 3 of 4 images right. For any two shapes a and
b, the scores of the images (a, a) and (b, b) have the same sum as those of (a, b) and (b, a), so
that one threshold separates at most three of the four.
"""

import numpy as np

from saccade.data.images.decode import RawImage
from saccade.data.images.labelled import LabelledImages
from saccade.seeding import generator
from saccade.types.arrays import ByteArray

CORNER_IMAGES = 10_000
CORNER_CLASSES = ("same", "different")
SIDE = 32  # pixels
SHAPES = {
    "square": ("#######", "#.....#", "#.....#", "#.....#", "#.....#", "#.....#", "#######"),
    "plus": ("...#...", "...#...", "...#...", "#######", "...#...", "...#...", "...#..."),
    "cross": ("#.....#", ".#...#.", "..#.#..", "...#...", "..#.#..", ".#...#.", "#.....#"),
    "disc": ("..###..", ".#####.", "#######", "#######", "#######", ".#####.", "..###.."),
}
SHAPE_SIDE = 7
CORNER_SHIFT = 2  # largest distance of a shape from its corner
DISTRACTORS = 1
CENTRE = (11, 15)  # first and last row and column of a distractor: no convolution reaches a corner
MAX_NOISE = 40  # brightness of the background


def load_corner_images(count: int = CORNER_IMAGES) -> LabelledImages:
    """Return images of two classes in turn, each drawn from its number when it is read."""

    def read(row: int) -> RawImage:
        return draw_corners(row)

    names = [f"corners#{row}" for row in range(count)]
    labels = [CORNER_CLASSES[row % 2] for row in range(count)]
    return LabelledImages("corners", names, labels, read)


def draw_corners(row: int) -> ByteArray:
    """Return the pixels (Y, X) of an image; in even rows the shapes are the same."""
    random = generator(0, "corners", row)
    pixels = random.integers(0, MAX_NOISE, (SIDE, SIDE), np.uint8)
    first = int(random.integers(len(SHAPES)))
    step = 0 if row % 2 == 0 else int(random.integers(1, len(SHAPES)))
    is_falling = bool(random.integers(2))  # top left and bottom right, or the others
    shifts = random.integers(0, CORNER_SHIFT + 1, (2, 2))
    far = SIDE - SHAPE_SIDE
    top, bottom = shifts[0, 0], far - shifts[1, 0]
    left, right = shifts[0, 1], far - shifts[1, 1]
    columns = (left, right) if is_falling else (right, left)
    _draw(pixels, first, int(top), int(columns[0]), random)
    _draw(pixels, (first + step) % len(SHAPES), int(bottom), int(columns[1]), random)
    for _ in range(DISTRACTORS):
        y, x = random.integers(CENTRE[0], CENTRE[1] + 1, 2).tolist()
        _draw(pixels, int(random.integers(len(SHAPES))), y, x, random)
    return pixels


def _draw(pixels: ByteArray, shape: int, y: int, x: int, random: np.random.Generator) -> None:
    rows = [*SHAPES.values()][shape]
    mask = np.array([[pixel == "#" for pixel in line] for line in rows])
    brightness = random.integers(160, 256, dtype=np.uint8)
    region = pixels[y : y + SHAPE_SIDE, x : x + SHAPE_SIDE]
    region[mask] = brightness
