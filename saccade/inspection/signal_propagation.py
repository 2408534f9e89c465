r"""Propagation of signals and gradients through a deep stack of untrained layers.

    h_l = f(norm(W_l h_{l-1}))                norm before the activation (Ioffe and Szegedy 2015)
    h_l = h_{l-1} + W_l f(norm(h_{l-1}))      pre-activation residual (He et al. 2016)

from h_0 ~ N(0, 1), and back from a random ∂L/∂h_L ~ N(0, 1) (Glorot and Bengio 2010). The
eigenvalues and singular values of W_l … W_1 bound how much a vector grows or shrinks in a linear
stack without norms.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from saccade.inspection.figures import (
    ProductSpectrum,
    SignalPropagation,
    StackConfig,
)
from saccade.nn.activations import make_activation
from saccade.nn.init import init_weight
from saccade.nn.norm import NORMS
from saccade.registry import lookup
from saccade.seeding import seed_for
from saccade.types.arrays import FloatArray

PROPAGATION_INPUTS = 256  # random inputs
MIN_RELATIVE_EIGENVALUE = 1e-13  # smaller ones, relative to the matrix norm, are rounding errors
STABLE_FACTOR, EXTREME_FACTOR = 3.0, 100.0  # total growth or shrinkage over the whole stack
MAX_STACK_WEIGHTS = 1 << 27  # of all layers together: 1 GB in float64


def propagate(stack: StackConfig) -> SignalPropagation:
    """Measure signals of a forward pass, gradients of a backward pass, and weight spectra."""
    weights, x, back = random_stack(stack)
    h = [x.requires_grad_()]
    for weight in weights:
        h.append(_layer(h[-1], weight, stack))
    gradients = torch.autograd.grad((h[-1] * back).sum(), h)
    return SignalPropagation(
        stack,
        _to_array([hidden.square().mean() for hidden in h]),
        _to_array([hidden.var(dim=0, correction=0).mean() for hidden in h]),
        _to_array([gradient.square().mean() for gradient in gradients]),
        product_spectra([weight.numpy() for weight in weights]),
    )


def random_stack(stack: StackConfig) -> tuple[list[Tensor], Tensor, Tensor]:
    """Return random weights, inputs, and the gradient at the output."""
    _check(stack)
    generator = torch.Generator().manual_seed(seed_for(stack.seed, "depth"))
    D = stack.width
    weights = [
        init_weight(
            torch.empty(D, D, dtype=torch.float64),
            stack.init,
            activation=stack.activation,
            alpha=stack.alpha,
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
            f"got {stack.layers} layers of width {stack.width}; expected at least 1 layer of width "
            "2."
        )
    if stack.layers * stack.width**2 > MAX_STACK_WEIGHTS:
        raise ValueError(
            f"{stack.layers} layers of width {stack.width} would take "
            f"{8e-9 * stack.layers * stack.width**2:.1f} GB; expected at most 1 GB: at this width "
            f"up to {MAX_STACK_WEIGHTS // stack.width**2} layers."
        )


def _layer(h: Tensor, weight: Tensor, stack: StackConfig) -> Tensor:
    f = make_activation(stack.activation, stack.alpha)
    norm = lookup(NORMS, stack.norm, "norm")(stack.width).double()
    if stack.residual:
        return h + f(norm(h)) @ weight.T
    return f(norm(h @ weight.T))


def _to_array(values: list[Tensor]) -> FloatArray:
    return torch.stack(values).detach().numpy()


# --- spectra of the weights -----------------------------------------------------------------------


def product_spectra(weights: list[FloatArray]) -> list[ProductSpectrum]:
    """Return the spectra of W_l … W_1 for log-spaced l.

    The product is kept at norm 1 and its true norm as a logarithm, so that it cannot overflow.
    """
    depths = set(log_spaced_layers(len(weights)))
    product, log_norm = np.eye(len(weights[0])), 0.0
    spectra = []
    for depth, weight in enumerate(weights, 1):
        product = weight @ product
        norm = float(np.linalg.norm(product))
        if norm > 0:
            product, log_norm = product / norm, log_norm + math.log10(norm)
        if depth in depths:
            moduli = np.sort(np.abs(np.linalg.eigvals(product)))[::-1]
            singular = np.linalg.svd(product, compute_uv=False).astype(np.float64)
            spectra.append(
                ProductSpectrum(depth, _log10(moduli, log_norm), _log10(singular, log_norm))
            )
    return spectra


def _log10(values: FloatArray, log_norm: float) -> FloatArray:
    """Return log10 of the values above rounding, of a matrix scaled by 10^-log_norm."""
    return np.log10(values[values > MIN_RELATIVE_EIGENVALUE]) + log_norm


def log_spaced_layers(layers: int) -> list[int]:
    """Return 1, 2, 5, 10, 20, 50, … and the last layer."""
    steps = [n * 10**power for power in range(len(str(layers))) for n in (1, 2, 5)]
    return sorted({*(step for step in steps if step <= layers), layers})


# --- growth of norms ------------------------------------------------------------------------------


class NormGrowth(NamedTuple):
    """Growth of the root mean square from layer to layer."""

    word: str  # vanishes, fades, holds, grows, explodes
    factor: float  # per layer
    total: float  # over the stack, or up to the last layer with a finite, positive value
    layers: int  # layers that `total` covers


def norm_growths(propagation: SignalPropagation) -> dict[str, NormGrowth]:
    """Return the growth of signals and differences forward, and of gradients backward."""
    return {
        "signals": norm_growth(propagation.signals),
        "differences": norm_growth(propagation.differences),
        "gradients": norm_growth(propagation.gradients[::-1]),
    }


def norm_growth(squares: FloatArray) -> NormGrowth:
    """Return the growth of mean squares, given in the order of propagation."""
    norms = np.sqrt(squares)
    valid = np.isfinite(norms) & (norms > 0)
    last = len(norms) - 1 if valid.all() else int(np.argmin(valid)) - 1
    total = float(norms[last] / norms[0])
    factor = total ** (1 / last) if last else 0.0
    if last < len(norms) - 1:
        return NormGrowth("vanishes" if norms[last + 1] == 0 else "explodes", factor, total, last)
    return NormGrowth(_word(total), factor, total, last)


def _word(total: float) -> str:
    if 1 / STABLE_FACTOR <= total <= STABLE_FACTOR:
        return "holds"
    if total < 1:
        return "fades" if total >= 1 / EXTREME_FACTOR else "vanishes"
    return "grows" if total <= EXTREME_FACTOR else "explodes"


def describe_propagation(propagation: SignalPropagation) -> list[str]:
    """Describe the growth of signals, differences and gradients in a sentence each."""
    subjects = {
        "signals": "The norm of signals",
        "differences": "The difference between inputs",
        "gradients": "The norm of gradients (backward)",
    }
    layers = propagation.stack.layers
    return [
        _growth_sentence(subjects[name], growth, layers)
        for name, growth in norm_growths(propagation).items()
    ]


def _growth_sentence(subject: str, growth: NormGrowth, layers: int) -> str:
    start = f"{subject} {growth.word}: "
    if growth.layers == 0:
        return start + "0 after the first layer."
    factor = f"×{growth.factor:.3g} per layer, "
    if growth.layers < layers:
        end = "0" if growth.word == "vanishes" else "overflows"
        return start + factor + f"{end} after {growth.layers + 1} of {layers} layers."
    return start + factor + f"×{growth.total:.3g} after {layers} layers."
