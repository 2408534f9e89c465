r"""Augmentation of images as operations on batches, each a function of (seed, step).

Images are (B, C, Y, X) with values in [0, 1]. An operation takes a generator, draws the same number
of random numbers whatever they are, and changes each image of a batch differently. The generator is
made from the seed, the name of the operation and the step, so that a resumed run has the same
images.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, UInt8
from torch import Generator, Tensor
from torch.nn import functional as F

from saccade.data.images.config import AugmentConfig
from saccade.seeding import seed_for
from saccade.types.shapes import Images

LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue (ITU-R BT.601)
MIN_BLUR = 0.1  # smallest standard deviation, in pixels
MAX_ASPECT = 4 / 3  # of a resized crop


def scale_pixels(pixels: UInt8[Tensor, "B Y X C"]) -> Images:
    """Return stored pixels as numbers from 0 to 1, channels first; the memory is channels last."""
    return pixels.permute(0, 3, 1, 2).to(torch.float32) / 255


def normalise_images(
    images: Images, mean: Float[Tensor, " C"], deviation: Float[Tensor, " C"]
) -> Images:
    r"""Return (x - μ_c) / σ_c for each channel c."""
    return (images - mean[:, None, None]) / deviation[:, None, None]


def augment_images(
    images: Images, config: AugmentConfig, mean: Float[Tensor, " C"], seed: int, step: int
) -> Images:
    """Apply the operations of the settings, in a fixed order."""
    operations: dict[str, tuple[bool, Callable[[Tensor, Generator], Tensor]]] = {
        "flip": (config.flip, flip_images),
        "crop": (config.crop > 0, lambda x, g: crop_padded(x, config.crop, g)),
        "resized crop": (config.min_area < 1, lambda x, g: crop_resized(x, config.min_area, g)),
        "jitter": (config.jitter > 0, lambda x, g: jitter_colours(x, config.jitter, g)),
        "blur": (config.blur > 0, lambda x, g: blur_images(x, config.blur, g)),
        "cutout": (config.cutout > 0, lambda x, g: cut_out(x, config.cutout, mean, g)),
    }
    for name, (is_used, change) in operations.items():
        if is_used:
            generator = Generator().manual_seed(seed_for(seed, f"augment {name}", step))
            images = change(images, generator)
    return images


def flip_images(images: Images, generator: Generator) -> Images:
    """Mirror each image with probability ½."""
    is_flipped = torch.rand(len(images), generator=generator) < 0.5
    return torch.where(is_flipped[:, None, None, None], images.flip(-1), images)


def crop_padded(images: Images, padding: int, generator: Generator) -> Images:
    """Shift each image by up to `padding` pixels in both directions; borders are reflected."""
    count, _, height, width = images.shape
    padding = min(padding, height - 1, width - 1)
    padded = F.pad(images, (padding,) * 4, mode="reflect")
    shifts = torch.randint(0, 2 * padding + 1, (2, count), generator=generator)
    crops = padded.unfold(2, height, 1).unfold(3, width, 1)  # all of them, as views
    return crops[torch.arange(count), :, shifts[0], shifts[1]]


def crop_resized(images: Images, min_area: float, generator: Generator) -> Images:
    r"""Resize a random part of each image to the whole (Szegedy et al. 2015), bilinearly.

    Its area is uniform in [min_area, 1], the logarithm of its width/height in ±log(4/3); a part
    that does not fit into the image is cut off.
    """
    draws = torch.rand(4, len(images), generator=generator)
    area = min_area + (1 - min_area) * draws[0]
    aspect = torch.exp((2 * draws[1] - 1) * math.log(MAX_ASPECT))
    width = (area * aspect).sqrt().clamp(max=1)
    height = (area / aspect).sqrt().clamp(max=1)
    zeros = torch.zeros_like(width)
    # positions are in [-1, 1]: the centre of the part moves by at most 1 - its size
    x, y = (1 - width) * (2 * draws[2] - 1), (1 - height) * (2 * draws[3] - 1)
    theta = torch.stack([width, zeros, x, zeros, height, y], 1).reshape(-1, 2, 3).to(images.dtype)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def jitter_colours(images: Images, strength: float, generator: Generator) -> Images:
    r"""Change brightness, contrast and saturation by factors from 1 - s to 1 + s.

        x ← b x,   x ← c x + (1 - c) mean(grey(x)),   x ← a x + (1 - a) grey(x)

    Values are cut off at 0 and 1. Grey images have no saturation.
    """
    factors = 1 + strength * (2 * torch.rand(3, len(images), 1, 1, 1, generator=generator) - 1)
    images = (factors[0] * images).clamp(0, 1)
    average = to_grey(images).mean((1, 2, 3), keepdim=True)
    images = (factors[1] * images + (1 - factors[1]) * average).clamp(0, 1)
    if images.shape[1] == 1:
        return images
    return (factors[2] * images + (1 - factors[2]) * to_grey(images)).clamp(0, 1)


def to_grey(images: Images) -> Float[Tensor, "B 1 Y X"]:
    """Return the luma of colour images; grey images as they are."""
    if images.shape[1] == 1:
        return images
    return (images * images.new_tensor(LUMA)[:, None, None]).sum(1, keepdim=True)


def blur_images(images: Images, max_deviation: float, generator: Generator) -> Images:
    r"""Blur half of the images by a Gaussian with σ uniform in [0.1, max_deviation].

    The kernel exp(-t² / 2σ²) is cut off at 3 max_deviation, and applied to rows and columns.
    """
    count, channels, height, width = images.shape
    draws = torch.rand(2, count, generator=generator)
    deviation = MIN_BLUR + (max(max_deviation, MIN_BLUR) - MIN_BLUR) * draws[0]
    radius = min(math.ceil(3 * max_deviation), height - 1, width - 1)
    offsets = torch.arange(-radius, radius + 1)
    kernel = torch.exp(-0.5 * (offsets / deviation[:, None]) ** 2)
    kernel = (kernel / kernel.sum(1, keepdim=True)).repeat_interleave(channels, 0).to(images.dtype)
    flat = F.pad(images, (radius,) * 4, mode="reflect").reshape(
        1, count * channels, -1, width + 2 * radius
    )
    flat = F.conv2d(flat, kernel[:, None, None, :], groups=count * channels)
    flat = F.conv2d(flat, kernel[:, None, :, None], groups=count * channels)
    is_blurred = draws[1] < 0.5
    return torch.where(is_blurred[:, None, None, None], flat.reshape(images.shape), images)


def cut_out(images: Images, side: int, fill: Float[Tensor, " C"], generator: Generator) -> Images:
    """Replace a square of each image by `fill` (DeVries and Taylor 2017).

    The centre is any pixel, so that a part of the square may be outside of the image.
    """
    count, _, height, width = images.shape
    centres = torch.rand(2, count, generator=generator) * torch.tensor([[height], [width]])
    first = centres.floor() - side // 2
    inside = []
    for start, length in zip(first, (height, width), strict=True):
        positions = torch.arange(length)
        inside.append((positions >= start[:, None]) & (positions < start[:, None] + side))
    hole = inside[0][:, None, :, None] & inside[1][:, None, None, :]
    return torch.where(hole, fill[:, None, None].to(images.dtype), images)
