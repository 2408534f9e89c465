"""Learn the kernel of an edge detector from images and their edges.

python examples/edge_kernel.py edges.png
"""

import sys

import torch
from torch import Tensor

from saccade.inspection.figures import HeatMap, HeatMapGrid
from saccade.nn import cross_correlate
from saccade.plots.render import save_figure


def main(path: str) -> None:
    """Fit a kernel by gradient descent, and draw an image, its edges and the kernels."""
    torch.manual_seed(1)
    images = random_rectangles(32)
    true_kernel = torch.tensor([[[[1.0, -1.0]]]])  # differs from 0 at vertical edges
    edges = cross_correlate(images, true_kernel)

    kernel = torch.zeros(1, 1, 1, 2, requires_grad=True)
    for step in range(1, 101):
        loss = (cross_correlate(images, kernel) - edges).square().mean()
        (gradient,) = torch.autograd.grad(loss, kernel)
        with torch.no_grad():
            kernel -= 2.0 * gradient
        if step in (1, 10, 100):
            learned = [round(value, 3) for value in kernel.flatten().tolist()]
            print(f"step {step:3}: loss {loss.item():.6f}, kernel {learned}")

    found = cross_correlate(images[:1], kernel.detach())
    panels = {"image": images, "edges": edges, "edges found": found, "kernel": kernel.detach()}
    save_figure(HeatMapGrid([as_map(title, panel[0, 0]) for title, panel in panels.items()]), path)
    print(f"saved {path}")


def random_rectangles(count: int, size: int = 16) -> Tensor:
    """Return images (count, 1, size, size) of one white rectangle each, on black."""
    images = torch.zeros(count, 1, size, size)
    for image in images:
        top, left = torch.randint(1, size // 2, (2,)).tolist()
        height, width = torch.randint(3, size // 2, (2,)).tolist()
        image[0, top : top + height, left : left + width] = 1.0
    return images


def as_map(title: str, pixels: Tensor) -> HeatMap:
    """Return pixels as a heat map with the numbers of its rows and columns."""
    rows, columns = ([str(index) for index in range(size)] for size in pixels.shape)
    return HeatMap(pixels.numpy(), rows, columns, title)


if __name__ == "__main__":
    main(sys.argv[1])
