r"""3 × 3 convolution with a quarter of the multiplications, on a CPU: Winograd's F(4 × 4, 3 × 3).

    y = Aᵀ [(G w Gᵀ) ∘ (Bᵀ x B)] A      4 × 4 outputs of a tile x of 6 × 6 inputs

Lavin and Gray 2016. The elementwise product ∘ is summed over the input channels, so that for all
tiles it is one matrix product for each of the 36 numbers of a tile: 36 multiplications instead of
the 144 of the definition. A, B and G evaluate and interpolate polynomials at the points 0, ±√½, ±√2
and ∞, where rounding errors are half of those at the usual 0, ±1, ±2 and ∞, and about six times
those of the definition. Tiles are transformed and multiplied some images at a time, while they are
in the cache of the CPU (`benchmarks/kernels.py` has the times). It is used on CPUs with vectors of
256 bits (AVX2); with those of 512 bits (AVX-512), torch's convolution is the faster one.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from saccade.types.shapes import Images

ItemT = TypeVar("ItemT")
Kernel3 = Float[Tensor, "D C 3 3"]

OUTPUTS = 4  # of a side of a tile
INPUTS = OUTPUTS + 2
POINT = 0.5**0.5  # √½; √2 is twice that
CHUNK_TILES = 256  # transformed and multiplied at a time
MAX_IMAGE_TILES = 512  # of one image
# smallest sizes for which the multiplications saved take longer than the transforms
MIN_CHANNELS = 64
MIN_CHANNEL_ROWS = 1024  # channels times rows
MIN_CHANNEL_TILES = 1 << 14  # channels times tiles: the kernel is transformed once for all tiles


def winograd_reference(x: Images, kernel: Kernel3) -> Float[Tensor, "B D Y X"]:
    """Compute the formula by its matrices, all tiles together; sides are multiples of 4."""
    of_kernel, of_inputs, of_products = _matrices(x)
    tiles = F.pad(x, (1, 1, 1, 1)).unfold(2, INPUTS, OUTPUTS).unfold(3, INPUTS, OUTPUTS)
    transformed = of_inputs @ tiles @ of_inputs.T  # (B, C, Y / 4, X / 4, 6, 6)
    products = torch.einsum("bcyxij,dcij->bdyxij", transformed, of_kernel @ kernel @ of_kernel.T)
    y = of_products @ products @ of_products.T
    return y.permute(0, 1, 2, 4, 3, 5).reshape(len(x), len(kernel), *x.shape[2:])


def _matrices(like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return G (6, 3), Bᵀ (6, 6) and Aᵀ (4, 6)."""
    a, b = POINT, 2 * POINT
    of_kernel = [
        [1, 0, 0],
        [-1 / 3, -a / 3, -1 / 6],
        [-1 / 3, a / 3, -1 / 6],
        [1 / 6, b / 6, 1 / 3],
        [1 / 6, -b / 6, 1 / 3],
        [0, 0, 1],
    ]
    of_inputs = [
        [1, 0, -2.5, 0, 1, 0],
        [0, -b, -2, a, 1, 0],
        [0, b, -2, -a, 1, 0],
        [0, -a, -0.5, b, 1, 0],
        [0, a, -0.5, -b, 1, 0],
        [0, 1, 0, -2.5, 0, 1],
    ]
    of_products = [
        [1, 2, 2, 1, 1, 0],
        [0, b, -b, b, -b, 0],
        [0, 1, 1, 2, 2, 0],
        [0, a, -a, 2 * b, -2 * b, 1],
    ]
    return like.new_tensor(of_kernel), like.new_tensor(of_inputs), like.new_tensor(of_products)


def is_winograd_faster(x: Tensor, kernel: Tensor) -> bool:
    """Return True where `winograd_convolution` is faster than torch's convolution."""
    if x.dim() != 4 or x.device.type != "cpu" or not x.dtype == kernel.dtype == torch.float32:
        return False
    if not has_short_vectors():
        return False
    height, width = x.shape[2:]
    tiles, channels = _count_tiles(height) * _count_tiles(width), min(kernel.shape[:2])
    return (
        not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and channels >= MIN_CHANNELS
        and channels * min(height, width) >= MIN_CHANNEL_ROWS
        and channels * tiles * len(x) >= MIN_CHANNEL_TILES
        and tiles <= MAX_IMAGE_TILES
        # the tiles may extend beyond the image; at least half of the multiplications are saved
        and 2 * INPUTS**2 * tiles <= 9 * height * width
    )


def has_short_vectors() -> bool:
    """Return True on CPUs with vectors of 256 bits, where multiplications are the bottleneck."""
    return torch.backends.cpu.get_cpu_capability() == "AVX2"


def winograd_convolution(x: Images, kernel: Kernel3) -> Float[Tensor, "B D Y X"]:
    """Compute `winograd_reference` for images of any size; the result is channels last."""
    result: Tensor = _Winograd.apply(x, kernel)
    return result


class _Winograd(torch.autograd.Function):
    r"""With the gradient g of the outputs, tile by tile:

    ∂w = Gᵀ [Σ (A g Aᵀ) ∘ (Bᵀ x B)] G; ∂x is the convolution of g with the flipped kernel.

    The tiles of x are transformed again in the backward pass, so that only x is kept in memory.
    There is no second derivative.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Tensor) -> Tensor:
        """Keep the inputs, not their tiles."""
        ctx.save_for_backward(x, kernel)
        return _convolve(x, _transform_kernel(kernel).transpose(1, 2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of the images and the kernel, those that are needed."""
        x, kernel = ctx.saved_tensors
        to_x, to_kernel = ctx.needs_input_grad
        return (
            _convolve(gradient, _transform_kernel(kernel, is_flipped=True)) if to_x else None,
            _kernel_gradient(gradient, x) if to_kernel else None,
        )


def _convolve(x: Tensor, weight: Tensor) -> Tensor:
    """Convolve images with the transformed kernel (36, C, D), some images at a time."""
    shape = (len(x), weight.shape[2], *x.shape[2:])
    y = torch.empty(shape, dtype=x.dtype, memory_format=torch.channels_last)
    pixels, outputs = x.permute(0, 2, 3, 1), y.permute(0, 2, 3, 1)

    def convolve_some(some: slice) -> None:
        _multiply(_transform_inputs(pixels[some]), weight, outputs[some])

    _run_in_threads(convolve_some, _chunks(x))
    return y


def _kernel_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of the kernel (D, C, 3, 3) for that of the outputs."""
    gradients, pixels = gradient.permute(0, 2, 3, 1), x.permute(0, 2, 3, 1)
    chunks = _chunks(x)
    parts = min(torch.get_num_threads(), len(chunks))
    totals = x.new_zeros(parts, INPUTS**2, gradient.shape[1], x.shape[1])  # of each thread

    def accumulate(part: int) -> None:
        for some in chunks[part::parts]:
            tiles = _transform_gradients(gradients[some]).transpose(1, 2)
            totals[part].baddbmm_(tiles, _transform_inputs(pixels[some]))

    _run_in_threads(accumulate, range(parts))
    of_kernel = _matrices(x)[0]
    product = torch.kron(of_kernel, of_kernel).T @ totals.sum(0).view(INPUTS**2, -1)
    return product.T.reshape(*totals.shape[2:], 3, 3).contiguous()


def _run_in_threads(function: Callable[[ItemT], None], items: Sequence[ItemT]) -> None:
    """Call a function for each item, in as many threads as torch has.

    If torch divided each of the small operations over its threads, these would wait for each other
    some thousand times in a training step, for long where other processes run.
    """

    def run(item: ItemT) -> None:
        with torch.inference_mode():  # a new thread would record gradients
            function(item)

    threads = min(torch.get_num_threads(), len(items))
    if threads == 1:
        for item in items:
            run(item)
    else:
        with ThreadPoolExecutor(threads, "winograd", torch.set_num_threads, (1,)) as pool:
            list(pool.map(run, items))


def _chunks(x: Tensor) -> list[slice]:
    """Return the images that are transformed together; a chunk or more for each thread."""
    step = max(1, CHUNK_TILES // (_count_tiles(x.shape[2]) * _count_tiles(x.shape[3])))
    step = min(step, -(-len(x) // torch.get_num_threads()))
    return [slice(start, start + step) for start in range(0, len(x), step)]


def _count_tiles(side: int) -> int:
    return -(-side // OUTPUTS)


def _transform_kernel(kernel: Tensor, is_flipped: bool = False) -> Tensor:
    """Return G w Gᵀ as a matrix (D, C) for each number of a tile: (36, D, C)."""
    of_kernel = _matrices(kernel)[0]
    both = torch.kron(of_kernel, of_kernel)  # of rows and columns: (36, 9)
    product = (both.flip(1) if is_flipped else both) @ kernel.reshape(-1, 9).T
    return product.view(-1, *kernel.shape[:2])


def _transform_inputs(pixels: Tensor) -> Tensor:
    """Return Bᵀ x B of the tiles of images (N, Y, X, C): (36, tiles, C)."""
    count, height, width, channels = pixels.shape
    rows, columns = _count_tiles(height), _count_tiles(width)
    padded = pixels.new_zeros(count, OUTPUTS * rows + 2, OUTPUTS * columns + 2, channels)
    padded[:, 1 : height + 1, 1 : width + 1] = pixels
    by_rows = pixels.new_empty(INPUTS, count, rows, padded.shape[2], channels)
    _of_inputs(_every_fourth(padded, 1, INPUTS), by_rows.unbind(0))
    tiles = pixels.new_empty(INPUTS, INPUTS, count, rows, columns, channels)
    _of_inputs(_every_fourth(by_rows, 3, INPUTS), tiles.unbind(1))
    return tiles.view(INPUTS**2, -1, channels)


def _transform_gradients(gradients: Tensor) -> Tensor:
    """Return A g Aᵀ of the tiles of gradients (N, Y, X, D): (36, tiles, D)."""
    count, height, width, channels = gradients.shape
    rows, columns = _count_tiles(height), _count_tiles(width)
    beyond = (OUTPUTS * columns - width, OUTPUTS * rows - height)
    if any(beyond):
        gradients = F.pad(gradients, (0, 0, 0, beyond[0], 0, beyond[1]))
    by_rows = gradients.new_empty(INPUTS, count, rows, OUTPUTS * columns, channels)
    _of_gradients(_every_fourth(gradients, 1, OUTPUTS), by_rows.unbind(0))
    tiles = gradients.new_empty(INPUTS, INPUTS, count, rows, columns, channels)
    _of_gradients(_every_fourth(by_rows, 3, OUTPUTS), tiles.unbind(1))
    return tiles.view(INPUTS**2, -1, channels)


def _multiply(tiles: Tensor, weight: Tensor, y: Tensor) -> None:
    """Write Aᵀ [weight ∘ tiles] A to y (N, Y, X, D), for weights (36, C, D)."""
    count, height, width, channels = y.shape
    rows, columns = _count_tiles(height), _count_tiles(width)
    products = torch.bmm(tiles, weight).view(INPUTS, INPUTS, count, rows, columns, channels)
    by_rows = y.new_empty(INPUTS, count, rows, OUTPUTS * columns, channels)
    _of_products(products.unbind(1), _every_fourth(by_rows, 3, OUTPUTS))
    if (height, width) == (OUTPUTS * rows, OUTPUTS * columns):
        _of_products(by_rows.unbind(0), _every_fourth(y, 1, OUTPUTS))
    else:
        whole = y.new_empty(count, OUTPUTS * rows, OUTPUTS * columns, channels)
        _of_products(by_rows.unbind(0), _every_fourth(whole, 1, OUTPUTS))
        y.copy_(whole[:, :height, :width])


# --- transforms of one axis, row by row -----------------------------------------------------------


def _every_fourth(x: Tensor, axis: int, count: int) -> list[Tensor]:
    """Return x[k], x[k + 4], x[k + 8] … along an axis for each k < count: one of each tile."""
    span = x.shape[axis] // OUTPUTS * OUTPUTS - OUTPUTS + 1
    return [x[(slice(None),) * axis + (slice(k, k + span, OUTPUTS),)] for k in range(count)]


def _of_inputs(x: Sequence[Tensor], out: Sequence[Tensor]) -> None:
    """Apply Bᵀ to six rows."""
    torch.sub(x[0], x[2], alpha=2.5, out=out[0]).add_(x[4])
    torch.sub(x[1], x[3], alpha=2.5, out=out[5]).add_(x[5])
    for first, point, factor in ((1, POINT, 2), (3, 2 * POINT, 0.5)):
        odd = torch.sub(x[3], x[1], alpha=factor)
        even = torch.sub(x[4], x[2], alpha=factor, out=out[first])
        torch.sub(even, odd, alpha=point, out=out[first + 1])
        even.add_(odd, alpha=point)


def _of_products(x: Sequence[Tensor], out: Sequence[Tensor]) -> None:
    """Apply Aᵀ to six rows."""
    even, odd = (x[1] + x[2], x[3] + x[4]), (x[1] - x[2], x[3] - x[4])
    torch.add(x[0], even[0], alpha=2, out=out[0]).add_(even[1])
    torch.add(odd[0], odd[1], out=out[1]).mul_(2 * POINT)
    torch.add(even[0], even[1], alpha=2, out=out[2])
    torch.add(odd[0], odd[1], alpha=4, out=out[3])
    torch.add(x[5], out[3], alpha=POINT, out=out[3])


def _of_gradients(x: Sequence[Tensor], out: Sequence[Tensor]) -> None:
    """Apply A to four rows."""
    out[0].copy_(x[0])
    out[5].copy_(x[3])
    torch.add(x[2], x[0], alpha=2, out=out[1])
    torch.add(x[0], x[2], alpha=2, out=out[3])
    for first, odd in ((1, torch.add(x[3], x[1], alpha=2)), (3, torch.add(x[1], x[3], alpha=2))):
        point = POINT if first == 1 else 2 * POINT
        torch.sub(out[first], odd, alpha=point, out=out[first + 1])
        out[first].add_(odd, alpha=point)
