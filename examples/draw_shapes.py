"""Draw a folder of small images, an example of your own photos: one sub-folder per class.

python examples/draw_shapes.py photos
saccade train photos
"""

import sys
from pathlib import Path
from random import Random

from PIL import Image, ImageDraw

SIZE, IMAGES = 24, 40  # pixels of a side, images of a class


def draw(shape: str, random: Random) -> Image.Image:
    """Return a shape of random size, position and colour on a random dark background."""
    image = Image.new("RGB", (SIZE, SIZE), tuple(random.randrange(60) for _ in range(3)))
    side = random.randrange(8, 15)
    x, y = (random.randrange(1, SIZE - side - 1) for _ in range(2))
    colour = tuple(random.randrange(120, 256) for _ in range(3))
    corners = {
        "circle": lambda pen: pen.ellipse((x, y, x + side, y + side), colour),
        "square": lambda pen: pen.rectangle((x, y, x + side, y + side), colour),
        "triangle": lambda pen: pen.polygon(
            [(x, y + side), (x + side, y + side), (x + side // 2, y)], colour
        ),
    }
    corners[shape](ImageDraw.Draw(image))
    return image


if __name__ == "__main__":
    folder, random = Path(sys.argv[1]), Random(1)
    for shape in ("circle", "square", "triangle"):
        (folder / shape).mkdir(parents=True, exist_ok=True)
        for number in range(1, IMAGES + 1):
            draw(shape, random).save(folder / shape / f"{number}.png")
    print(f"{3 * IMAGES} images written to {folder}")
