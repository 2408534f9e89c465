r"""What becomes of signals and gradients on their way through many layers that have not learned.

    h_l = f(norm(W_l h_{l-1}))                the norm where Ioffe and Szegedy 2015 have it
    h_l = h_{l-1} + W_l f(norm(h_{l-1}))      with a way around, He et al. 2016 (identity mappings)

from h_0 ~ N(0, 1), and back from a random ∂L/∂h_L ~ N(0, 1) (Glorot and Bengio 2010). Beside them
stand the eigenvalues and singular values of W_l … W_1: where f and the norm are left out, they say
how much a vector can grow or shrink on its way.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from saccade.nn.activations import ACTIVATIONS
from saccade.nn.init import init_weight
from saccade.nn.norm import NORMS
from saccade.registry import lookup
from saccade.seeding import seed_for

FloatArray = NDArray[np.float64]
PROPAGATION_INPUTS = 256  # inputs that go through together
MIN_RELATIVE_EIGENVALUE = (
    1e-13  # an eigenvalue this much smaller than the matrix is rounding, and left out
)
STABLE_FACTOR, EXTREME_FACTOR = 3.0, 100.0  # times as large or as small, from one end to the other
MAX_STACK_WEIGHTS = 1 << 27  # weights in all: a gigabyte


class StackConfig(NamedTuple):
    """Layers, one upon the other, all of one kind."""

    activation: str = "tanh"
    init: str = "xavier"
    layers: int = 50
    width: int = 256
    norm: str = "none"
    residual: bool = False
    seed: int = 0


class ProductSpectrum(NamedTuple):
    """The values of W_depth … W_1, largest first, as log10: they may be beyond any number."""

    depth: int
    moduli: FloatArray  # of the eigenvalues
    singular: FloatArray


class SignalPropagation(NamedTuple):
    """What was seen, layer by layer from the input (0) on."""

    stack: StackConfig
    signals: FloatArray  # the mean of h²
    differences: FloatArray  # the variance of h over the inputs: by how much they are told apart
    gradients: FloatArray  # the mean of (∂L/∂h)²
    spectra: list[ProductSpectrum]

    @property
    def norm_growths(self) -> "dict[str, NormGrowth]":
        """What becomes of each, the gradients from the end to the beginning."""
        return {
            "signals": norm_growth(self.signals),
            "differences": norm_growth(self.differences),
            "gradients": norm_growth(self.gradients[::-1]),
        }


def propagate(stack: StackConfig) -> SignalPropagation:
    """Send numbers through the layers, and gradients back."""
    weights, x, back = random_stack(stack)
    h = [x.requires_grad_()]
    for weight in weights:
        h.append(_layer(h[-1], weight, stack))
    gradients = torch.autograd.grad((h[-1] * back).sum(), h)
    return SignalPropagation(
        stack,
        _each([one.square().mean() for one in h]),
        _each([one.var(dim=0, correction=0).mean() for one in h]),
        _each([one.square().mean() for one in gradients]),
        product_spectra([weight.numpy() for weight in weights]),
    )


def random_stack(stack: StackConfig) -> tuple[list[Tensor], Tensor, Tensor]:
    """The weights, the inputs, and the gradient that comes in at the end."""
    _check(stack)
    generator = torch.Generator().manual_seed(seed_for(stack.seed, "depth"))
    D = stack.width
    weights = [
        init_weight(
            torch.empty(D, D, dtype=torch.float64),
            stack.init,
            activation=stack.activation,
            layers=stack.layers,
            generator=generator,
        )
        for _ in range(stack.layers)
    ]
    x, back = torch.randn(2, PROPAGATION_INPUTS, D, dtype=torch.float64, generator=generator)
    return weights, x, back


def _check(stack: StackConfig) -> None:
    if stack.layers < 1 or stack.width < 2:
        raise ValueError(
            f"got {stack.layers} layers of width {stack.width}; wanted 1 layer or more, of width "
            "2 or more."
        )
    if stack.layers * stack.width**2 > MAX_STACK_WEIGHTS:
        raise ValueError(
            f"{stack.layers} layers of width {stack.width} would take "
            f"{8e-9 * stack.layers * stack.width**2:.1f} GB; wanted 1 GB or less: at this width up "
            f"to {MAX_STACK_WEIGHTS // stack.width**2} layers."
        )


def _layer(h: Tensor, weight: Tensor, stack: StackConfig) -> Tensor:
    f = lookup(ACTIVATIONS, stack.activation, "activation")
    norm = lookup(NORMS, stack.norm, "norm")(stack.width).double()
    if stack.residual:
        return h + f(norm(h)) @ weight.T
    return f(norm(h @ weight.T))


def _each(values: list[Tensor]) -> FloatArray:
    return torch.stack(values).detach().numpy()


# --- the matrices themselves ----------------------------------------------------------------------


def product_spectra(weights: list[FloatArray]) -> list[ProductSpectrum]:
    """Of W_l … W_1 for some l; the product is kept at size 1, its true size as a logarithm."""
    shown = set(log_spaced_layers(len(weights)))
    product, size = np.eye(len(weights[0])), 0.0
    found = []
    for depth, weight in enumerate(weights, 1):
        product = weight @ product
        norm = float(np.linalg.norm(product))
        if norm > 0:
            product, size = product / norm, size + math.log10(norm)
        if depth in shown:
            moduli = np.sort(np.abs(np.linalg.eigvals(product)))[::-1]
            singular = np.linalg.svd(product, compute_uv=False).astype(np.float64)
            found.append(ProductSpectrum(depth, _logs(moduli, size), _logs(singular, size)))
    return found


def _logs(values: FloatArray, size: float) -> FloatArray:
    """log10 of those that are more than rounding, of a matrix of norm 1."""
    return np.log10(values[values > MIN_RELATIVE_EIGENVALUE]) + size


def log_spaced_layers(layers: int) -> list[int]:
    """1, 2, 5, 10, 20, 50 … and the last."""
    steps = [n * 10**power for power in range(len(str(layers))) for n in (1, 2, 5)]
    return sorted({*(step for step in steps if step <= layers), layers})


# --- in words -------------------------------------------------------------------------------------


class NormGrowth(NamedTuple):
    """What becomes of the size (the root of the mean square) of something from layer to layer."""

    word: str  # vanishes, fades, holds, grows, explodes
    factor: float  # a layer
    total: float  # from one end to the other, or to where it was last a number above 0
    layers: int  # how many that is


def norm_growth(squares: FloatArray) -> NormGrowth:
    """Of mean squares, in the order in which the layers are gone through."""
    sizes = np.sqrt(squares)
    whole = np.isfinite(sizes) & (sizes > 0)
    last = len(sizes) - 1 if whole.all() else int(np.argmin(whole)) - 1
    total = float(sizes[last] / sizes[0])
    factor = total ** (1 / last) if last else 0.0
    if last < len(sizes) - 1:
        return NormGrowth("vanishes" if sizes[last + 1] == 0 else "explodes", factor, total, last)
    return NormGrowth(_word(total), factor, total, last)


def _word(total: float) -> str:
    if 1 / STABLE_FACTOR <= total <= STABLE_FACTOR:
        return "holds"
    if total < 1:
        return "fades" if total >= 1 / EXTREME_FACTOR else "vanishes"
    return "grows" if total <= EXTREME_FACTOR else "explodes"


def describe_propagation(depth: SignalPropagation) -> list[str]:
    """What is seen, a sentence for each."""
    names = {
        "signals": "The size of signals",
        "differences": "What tells one input from another",
        "gradients": "The size of gradients, on their way back,",
    }
    whole = depth.stack.layers
    return [
        _sentence(names[what], norm_growth, whole)
        for what, norm_growth in depth.norm_growths.items()
    ]


def _sentence(what: str, norm_growth: NormGrowth, layers: int) -> str:
    start = f"{what} {norm_growth.word}: "
    if norm_growth.layers == 0:
        return start + "it is 0 after the first layer."
    each = f"{norm_growth.factor:.3g} times as much in each layer, "
    if norm_growth.layers < layers:
        end = "0" if norm_growth.word == "vanishes" else "more than a number can hold"
        return start + each + f"and {end} after {norm_growth.layers + 1} of the {layers}."
    return start + each + f"{norm_growth.total:.3g} times after {layers}."
