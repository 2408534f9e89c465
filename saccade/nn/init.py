r"""Weight initialisation: the distributions of the literature.

With W of shape (out, in, …), a layer of `in` inputs and weights of variance v multiplies the
variance of its inputs by in · v, and that of the gradients by out · v. To keep either constant, v
is 1/in or 1/out, times a correction for the activation (`gain`). `saccade plot signal` plots the
effect over many layers.

Equal weights stay equal: the units of a layer then have the same output and the same gradient. So
`zero` and `constant` are for biases, and here for comparison.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from saccade.nn.activations import make_activation
from saccade.registry import lookup

OptionalGenerator = torch.Generator | None
TORCH_GAINS = (
    "leaky_relu",
    "linear",
    "relu",
    "selu",
    "sigmoid",
    "tanh",
)  # the gains that torch defines
LEAKY_RELU_SLOPE = 0.01  # that of `activations.leaky_relu`


class Fans(NamedTuple):
    """The number of inputs of a unit, and of units that an input feeds."""

    fan_in: int
    fan_out: int


def fans(weight: Tensor) -> Fans:
    """Return the fans of a weight (out, in, …); further axes are the positions of a kernel."""
    if weight.dim() < 2:
        raise ValueError(
            f"got a weight of shape {tuple(weight.shape)}; expected two axes or more, (out, in, …)."
        )
    kernel_size = weight[0, 0].numel()
    return Fans(weight.shape[1] * kernel_size, weight.shape[0] * kernel_size)


def gain(activation: str, alpha: float | None = None) -> float:
    r"""Return g such that weights of variance g²/in compensate for the activation.

    Torch's where it has one (√2 for relu, 5/3 for tanh, 1 for sigmoid and linear, 3/4 for selu,
    which is to be used with `lecun`); for the others the condition that gives relu its √2
    (He et al. 2015, eq. 7-10): g^{-2} = E[f(z)²], z ~ N(0, 1). `alpha` is that of elu or
    leaky_relu.
    """
    f = make_activation(activation, alpha)
    if activation in TORCH_GAINS:
        named: Any = activation  # one of its own list of names
        return float(nn.init.calculate_gain(named, LEAKY_RELU_SLOPE if alpha is None else alpha))
    if activation == "softmax":
        raise ValueError(
            "softmax has no gain: got an activation that is not element-wise; expected another; "
            "try an init without a gain (xavier, lecun, normal)."
        )
    z = torch.linspace(-12, 12, 24_001, dtype=torch.float64)
    density = torch.exp(-(z**2) / 2) / (2 * torch.pi) ** 0.5
    return float(torch.trapezoid(f(z) ** 2 * density, z)) ** -0.5


# --- methods --------------------------------------------------------------------------------------


def zero(weight: Tensor) -> Tensor:
    r"""W = 0: the output and the gradient of the input are 0."""
    return nn.init.zeros_(weight)


def constant(weight: Tensor, value: float = 0.1) -> Tensor:
    r"""W = c: all units of a layer are equal, and stay equal."""
    return nn.init.constant_(weight, value)


def normal(weight: Tensor, std: float = 1.0, generator: OptionalGenerator = None) -> Tensor:
    r"""W ~ N(0, std²), for every width; GPT's std is 0.02 (Radford et al. 2018)."""
    return nn.init.normal_(weight, 0.0, std, generator)


def xavier(weight: Tensor, generator: OptionalGenerator = None) -> Tensor:
    r"""W ~ U(-a, a), a = √(6 / (in + out)): of variance 2 / (in + out).

    Glorot and Bengio 2010, eq. 16: a compromise between forward and backward pass, for activations
    that are nearly linear around 0 (tanh).
    """
    return nn.init.xavier_uniform_(weight, generator=generator)


def xavier_normal(weight: Tensor, generator: OptionalGenerator = None) -> Tensor:
    r"""W ~ N(0, 2 / (in + out)) (Glorot and Bengio 2010, eq. 12)."""
    return nn.init.xavier_normal_(weight, generator=generator)


def lecun(weight: Tensor, generator: OptionalGenerator = None) -> Tensor:
    r"""W ~ N(0, 1/in) (LeCun et al. 1998, eq. 16), for selu (Klambauer et al. 2017)."""
    return nn.init.normal_(weight, 0.0, fans(weight).fan_in ** -0.5, generator)


def kaiming(
    weight: Tensor,
    activation: str = "relu",
    fan: Literal["in", "out"] = "in",
    generator: OptionalGenerator = None,
) -> Tensor:
    r"""W ~ N(0, g²/fan), g the activation's `gain`: 2/in for relu.

    He et al. 2015, eq. 10; fan="out" keeps the size of the gradients, eq. 14.
    """
    return nn.init.normal_(weight, 0.0, _deviation(weight, activation, fan), generator)


def kaiming_uniform(
    weight: Tensor,
    activation: str = "relu",
    fan: Literal["in", "out"] = "in",
    generator: OptionalGenerator = None,
) -> Tensor:
    r"""W ~ U(-a, a), a = g √(3/fan), of the variance of `kaiming`."""
    bound = 3**0.5 * _deviation(weight, activation, fan)
    return nn.init.uniform_(weight, -bound, bound, generator)


def _deviation(weight: Tensor, activation: str, fan: Literal["in", "out"]) -> float:
    fan_in, fan_out = fans(weight)
    return gain(activation) / (fan_in if fan == "in" else fan_out) ** 0.5


def orthogonal(weight: Tensor, generator: OptionalGenerator = None) -> Tensor:
    r"""W Wᵀ = I (or WᵀW, if it is taller than wide), uniformly distributed.

    Saxe et al. 2014: every singular value is 1, also of products of such matrices.
    """
    return nn.init.orthogonal_(weight, generator=generator)


def depth_scaled(weight: Tensor, layers: int) -> Tensor:
    r"""W / √N in place, of an initialised weight, with N residual layers.

    Radford et al. 2019, section 2.3: the sum of N branches is then as large as one branch.
    """
    if layers < 1:
        raise ValueError(f"got {layers} residual layers; expected 1 or more.")
    with torch.no_grad():
        return weight.div_(layers**0.5)


# --- registry -------------------------------------------------------------------------------------

INITS_WITH_GAIN = ("depth_scaled", "kaiming", "kaiming_out", "kaiming_uniform")
# (weight, activation, residual layers, generator) -> weight
Initializer = Callable[[Tensor, str, int, OptionalGenerator], Tensor]
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
    alpha: float | None = None,
    layers: int = 1,
    generator: OptionalGenerator = None,
) -> Tensor:
    """Initialise a weight in place by the name of a method.

    Args:
        weight: of shape (out, in, …).
        name: one of `INITS`. `depth_scaled` is `kaiming`, scaled.
        activation: follows the layer; used by `kaiming` and `depth_scaled`.
        alpha: that of elu or leaky_relu, if it is not the default.
        layers: number of residual layers; used by `depth_scaled`.
        generator: of the random numbers.
    """
    initialised = lookup(INITS, name, "init")(weight, activation, layers, generator)
    if alpha is None or name not in INITS_WITH_GAIN:
        return initialised
    with torch.no_grad():
        return initialised.mul_(gain(activation, alpha) / gain(activation))
