r"""How weights begin: by which numbers, and of which size.

With W of shape (out, in, …), a layer of `in` inputs and a weight of variance v gives sums whose
variance is in · v times that of the inputs, and hands gradients back as if by out · v. To keep
either of one size, v is to be 1/in or 1/out, times what the activation takes away (`gain`). What
becomes of it after many layers is drawn by `saccade look depth`.

Weights that begin alike stay alike: the units of a layer then say the same, get the same gradient
and never part. So `zero` and `constant` are for biases, and here to be looked at.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from saccade.nn.activations import ACTIVATIONS
from saccade.registry import lookup

OptionalGenerator = torch.Generator | None
TORCH_GAINS = ("leaky_relu", "linear", "relu", "selu", "sigmoid", "tanh")  # gains that it states
LEAKY_RELU_SLOPE = 0.01  # of `activations.leaky_relu`


class Fans(NamedTuple):
    """How many inputs a unit has, and to how many units an input goes."""

    fan_in: int
    fan_out: int


def fans(weight: Tensor) -> Fans:
    """Of a weight (out, in, …); what comes after are the places of a kernel, each an input."""
    if weight.dim() < 2:
        raise ValueError(
            f"a weight of shape {tuple(weight.shape)} has no inputs and outputs to count; wanted "
            "two axes or more, (out, in, …)."
        )
    places = weight[0, 0].numel()
    return Fans(weight.shape[1] * places, weight.shape[0] * places)


def gain(activation: str) -> float:
    r"""g for which weights of variance g²/in undo what an activation takes from a signal.

    The framework's where it has one (√2 for relu, 5/3 for tanh, 1 for sigmoid and linear, 3/4 for
    selu, whose own start is `lecun`); for the others the condition that gives relu its √2
    (He et al. 2015, eq. 7-10): g^{-2} = E[f(z)²], z ~ N(0, 1).
    """
    f = lookup(ACTIVATIONS, activation, "activation")
    if activation in TORCH_GAINS:
        named: Any = activation  # one of its own list of names
        return float(nn.init.calculate_gain(named, LEAKY_RELU_SLOPE))
    if activation == "softmax":
        raise ValueError(
            "softmax has no gain: it is not a function of one number; choose an init that asks "
            "for none (xavier, lecun, normal)."
        )
    z = torch.linspace(-12, 12, 24_001, dtype=torch.float64)
    density = torch.exp(-(z**2) / 2) / (2 * torch.pi) ** 0.5
    return float(torch.trapezoid(f(z) ** 2 * density, z)) ** -0.5


# --- one by one -----------------------------------------------------------------------------------


def zero(weight: Tensor) -> Tensor:
    r"""W = 0: nothing goes through, and no gradient comes back."""
    return nn.init.zeros_(weight)


def constant(weight: Tensor, value: float = 0.1) -> Tensor:
    r"""W = c: all units of a layer are one unit, and stay so."""
    return nn.init.constant_(weight, value)


def normal(weight: Tensor, std: float = 1.0, generator: OptionalGenerator = None) -> Tensor:
    r"""W ~ N(0, std²), whatever the layer's width; GPT's std is 0.02 (Radford et al. 2018)."""
    return nn.init.normal_(weight, 0.0, std, generator)


def xavier(weight: Tensor, generator: OptionalGenerator = None) -> Tensor:
    r"""W ~ U(-a, a), a = √(6 / (in + out)): of variance 2 / (in + out).

    Glorot and Bengio 2010, eq. 16: halfway between what signals and what gradients ask for, where
    an activation is nearly linear around 0 (tanh).
    """
    return nn.init.xavier_uniform_(weight, generator=generator)


def xavier_normal(weight: Tensor, generator: OptionalGenerator = None) -> Tensor:
    r"""W ~ N(0, 2 / (in + out)) (Glorot and Bengio 2010, eq. 12)."""
    return nn.init.xavier_normal_(weight, generator=generator)


def lecun(weight: Tensor, generator: OptionalGenerator = None) -> Tensor:
    r"""W ~ N(0, 1/in) (LeCun et al. 1998, eq. 16): what selu asks for (Klambauer et al. 2017)."""
    return nn.init.normal_(weight, 0.0, fans(weight).fan_in ** -0.5, generator)


def kaiming(
    weight: Tensor,
    activation: str = "relu",
    fan: Literal["in", "out"] = "in",
    generator: OptionalGenerator = None,
) -> Tensor:
    r"""W ~ N(0, g²/fan), g the activation's `gain`: 2/in for relu.

    He et al. 2015, eq. 10; with fan="out" it is gradients whose size is kept, eq. 14.
    """
    return nn.init.normal_(weight, 0.0, _deviation(weight, activation, fan), generator)


def kaiming_uniform(
    weight: Tensor,
    activation: str = "relu",
    fan: Literal["in", "out"] = "in",
    generator: OptionalGenerator = None,
) -> Tensor:
    r"""W ~ U(-a, a), a = g √(3/fan): of the variance that `kaiming` has."""
    bound = 3**0.5 * _deviation(weight, activation, fan)
    return nn.init.uniform_(weight, -bound, bound, generator)


def _deviation(weight: Tensor, activation: str, fan: Literal["in", "out"]) -> float:
    counted = fans(weight)
    return gain(activation) / (counted.fan_in if fan == "in" else counted.fan_out) ** 0.5


def orthogonal(weight: Tensor, generator: OptionalGenerator = None) -> Tensor:
    r"""W Wᵀ = I (or WᵀW, if it is taller than wide), drawn evenly among all such.

    Saxe et al. 2014: every singular value is 1, and that of any product of such matrices.
    """
    return nn.init.orthogonal_(weight, generator=generator)


def depth_scaled(weight: Tensor, layers: int) -> Tensor:
    r"""W / √N, of a weight that has begun already, N the number of residual layers.

    Radford et al. 2019, section 2.3: the sum of N branches is then as large as one.
    """
    if layers < 1:
        raise ValueError(f"there are {layers} residual layers; wanted 1 or more.")
    with torch.no_grad():
        return weight.div_(layers**0.5)


# --- by name --------------------------------------------------------------------------------------

Initializer = Callable[
    [Tensor, str, int, OptionalGenerator], Tensor
]  # weight, activation, residual layers, generator
INITS: dict[str, Initializer] = {
    "constant": lambda weight, activation, layers, generator: constant(weight),
    "depth_scaled": lambda weight, activation, layers, generator: depth_scaled(
        kaiming(weight, activation, generator=generator), layers
    ),
    "kaiming": lambda weight, activation, layers, generator: kaiming(
        weight, activation, "in", generator
    ),
    "kaiming_out": lambda weight, activation, layers, generator: kaiming(
        weight, activation, "out", generator
    ),
    "kaiming_uniform": lambda weight, activation, layers, generator: kaiming_uniform(
        weight, activation, "in", generator
    ),
    "lecun": lambda weight, activation, layers, generator: lecun(weight, generator),
    "normal": lambda weight, activation, layers, generator: normal(weight, generator=generator),
    "orthogonal": lambda weight, activation, layers, generator: orthogonal(weight, generator),
    "xavier": lambda weight, activation, layers, generator: xavier(weight, generator),
    "xavier_normal": lambda weight, activation, layers, generator: xavier_normal(weight, generator),
    "zero": lambda weight, activation, layers, generator: zero(weight),
}


def init_weight(
    weight: Tensor,
    name: str,
    *,
    activation: str = "linear",
    layers: int = 1,
    generator: OptionalGenerator = None,
) -> Tensor:
    """Begin a weight, in place, by the name of a method.

    `activation` is what the layer's sums go through, `layers` how many residual layers there are;
    most methods ask for neither. `depth_scaled` by name is `kaiming`, scaled.
    """
    return lookup(INITS, name, "init")(weight, activation, layers, generator)
