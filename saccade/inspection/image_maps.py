r"""Which regions of an image led to its class: Grad-CAM, occlusion, attention over a grid.

Grad-CAM (Selvaraju et al. 2017), with A_k the k-th channel of the last grid of features, Z its
number of cells and y_c the logit of the class:

    α_k = (1 / Z) Σ_ij ∂y_c / ∂A_k,ij          L = ReLU(Σ_k α_k A_k)

Occlusion (Zeiler and Fergus 2014) is the drop of the class's probability when a square is replaced
by the mean colour; a pixel has the mean over the squares that cover it.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from saccade.types.shapes import Images

OCCLUSION_BATCH = 64  # occluded images computed together

Grid = Float[Tensor, "B D Y2 X2"]
Map = Float[Tensor, "Y X"]


def grad_cam(
    feature_grid: Callable[[Images], Grid],
    classify_grid: Callable[[Grid], Float[Tensor, "B V"]],
    image: Float[Tensor, "C Y X"],
    output: int,
) -> Float[Tensor, "Y2 X2"]:
    """Return L of one image for one class, on the grid of the features."""
    with torch.no_grad():
        grid = feature_grid(image[None])
    grid = grid.detach().requires_grad_()
    with torch.enable_grad():
        [gradients] = torch.autograd.grad(classify_grid(grid)[0, output], grid)
    weights = gradients.mean((2, 3), keepdim=True)
    return F.relu((weights * grid.detach()).sum(1))[0]


def enlarge_map(values: Float[Tensor, "Y2 X2"], size: tuple[int, int]) -> Map:
    """Return a map of the grid at the size of the image, interpolated bilinearly."""
    return F.interpolate(values[None, None], size, mode="bilinear", align_corners=False)[0, 0]


@torch.no_grad()
def occlusion_map(
    value: Callable[[Images], Float[Tensor, " B"]],
    image: Float[Tensor, "C Y X"],
    side: int,
    stride: int,
    fill: float = 0.0,
) -> Map:
    """Return the mean drop of `value` over the squares that cover each pixel.

    Squares of `side` pixels start at every `stride`-th pixel, and at the last one that fits.
    """
    height, width = image.shape[1:]
    side = min(side, height, width)
    starts = [
        sorted({*range(0, length - side + 1, stride), length - side}) for length in (height, width)
    ]
    squares = [(y, x) for y in starts[0] for x in starts[1]]
    before = value(image[None])[0]
    drops, covered = torch.zeros(2, height, width, dtype=torch.float64)
    for first in range(0, len(squares), OCCLUSION_BATCH):
        some = squares[first : first + OCCLUSION_BATCH]
        occluded = image.expand(len(some), -1, -1, -1).clone()
        for row, (y, x) in enumerate(some):
            occluded[row, :, y : y + side, x : x + side] = fill
        found = (before - value(occluded)).double().cpu()
        for drop, (y, x) in zip(found, some, strict=True):
            drops[y : y + side, x : x + side] += drop
            covered[y : y + side, x : x + side] += 1
    return drops / covered


def attention_grid(weights: Float[Tensor, "H T S"]) -> Float[Tensor, "Y2 X2"] | None:
    """Return the weight that each cell of a square grid receives, a mean over heads and queries.

    With one key more than cells, the first is a class token, whose attention is returned. None if
    the keys are no square grid.
    """
    keys = weights.shape[-1]
    for is_class_token in (False, True):
        side = math.isqrt(keys - is_class_token)
        if side > 0 and side * side == keys - is_class_token:
            queries = weights[:, :1, 1:] if is_class_token else weights
            return queries.mean((0, 1)).reshape(side, side)
    return None
