r"""One-dimensional convolution over sequences, whose length it leaves as it is.

    y_t = b + Σ_k W_k x_{t - before + k · dilation},   k = 0 … kernel - 1

`before` is (kernel - 1) · dilation when causal, so that the last tap lies on place t (WaveNet, van
den Oord et al. 2016), else half of that, rounded down. Where the kernel lies beyond either end of
a row, or on its padding, it reads zeros, so that padding never changes an answer.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.dropout import Dropout
from saccade.types.shapes import Hidden, Lengths


class ConvState(NamedTuple):
    """The last (kernel - 1) · dilation inputs: all of the past that a later step depends on."""

    inputs: Float[Tensor, "B S D"]


def convolve(
    x: Float[Tensor, "B S D"],
    weight: Float[Tensor, "E D W"],
    bias: Float[Tensor, " E"],
    dilation: int = 1,
) -> Float[Tensor, "B T E"]:
    r"""y_t = b + Σ_k W_k x_{t + k · dilation}, for the T = S - (W - 1) · dilation places that fit.

    What the kernel lies on is put side by side, and then it is one matrix product: kernel copies
    of x, but on the CPU quicker forward and backward than the framework's convolution.
    """
    E, D, taps = weight.shape
    T = x.shape[1] - (taps - 1) * dilation
    beside = torch.cat([x[:, k * dilation : k * dilation + T] for k in range(taps)], dim=-1)
    return nn.functional.linear(beside, weight.transpose(1, 2).reshape(E, taps * D), bias)


class Convolution(nn.Module):
    """One layer, all steps at once or, if causal, some steps after those that were."""

    def __init__(
        self,
        in_width: int,
        out_width: int,
        kernel_size: int,
        dilation: int = 1,
        causal: bool = False,
    ):
        super().__init__()
        _at_least_one(kernel_size=kernel_size, dilation=dilation)
        self.dilation, self.causal = dilation, causal
        self.kernel_span = (kernel_size - 1) * dilation
        self.weight = nn.Parameter(torch.empty(out_width, in_width, kernel_size))
        self.bias = nn.Parameter(torch.zeros(out_width))
        nn.init.normal_(self.weight, std=(in_width * kernel_size) ** -0.5)

    def forward(self, x: Hidden, lengths: Lengths | None = None) -> Float[Tensor, "B T E"]:
        """Every place of every row; what comes out at padded places is not meant to be used."""
        x = mask_padding(x, lengths)
        before = self.kernel_span if self.causal else self.kernel_span // 2
        around = nn.functional.pad(x, (0, 0, before, self.kernel_span - before))
        return convolve(around, self.weight, self.bias, self.dilation)

    def init_state(self, rows: int) -> ConvState:
        """The state before the first step: as in `forward`, zeros stand before a row."""
        self._check_causal()
        return ConvState(self.weight.new_zeros(rows, self.kernel_span, self.weight.shape[1]))

    def step(self, x: Hidden, state: ConvState) -> tuple[Float[Tensor, "B T E"], ConvState]:
        """T more steps after those that the state remembers."""
        self._check_causal()
        seen = torch.cat([state.inputs, x], dim=1)
        now = ConvState(seen[:, x.shape[1] :])
        return convolve(seen, self.weight, self.bias, self.dilation), now

    def _check_causal(self) -> None:
        if not self.causal:
            raise ValueError(
                "this convolution sees the future, so it cannot go step by step; "
                "make it with causal=True."
            )


class GatedConvolution(nn.Module):
    r"""√½ · (x + a ∘ σ(b)) with [a; b] = convolution(dropout(x)).

    The gated linear unit (Dauphin et al. 2017) inside a residual connection, as in ConvS2S
    (Gehring et al. 2017, section 3.2); WaveNet has tanh(a) in the place of a. The factor √½ and
    the weights' start, deviation √(3 (1 - dropout) / (kernel · width)), keep a variance of 1 from
    layer to layer: E[(√3 u σ(√3 v))²] = 1.007 for u, v ~ N(0, 1). Differs from theirs in that 3,
    which is 4 in section 3.5, right for the small variance of their embeddings (with variance 1,
    16 layers would multiply the deviation by ten), and in having no weight normalisation.
    """

    def __init__(
        self,
        width: int,
        kernel_size: int,
        dilation: int = 1,
        causal: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.convolution = Convolution(width, 2 * width, kernel_size, dilation, causal)
        deviation = (3 * (1 - dropout) / (kernel_size * width)) ** 0.5
        nn.init.normal_(self.convolution.weight, std=deviation)

    def forward(self, x: Hidden, lengths: Lengths | None = None) -> Hidden:
        """Every place at once."""
        return self._around(x, self.convolution(self.dropout(x), lengths))

    def step(self, x: Hidden, state: ConvState) -> tuple[Hidden, ConvState]:
        """T more steps after those that the state remembers."""
        y, state = self.convolution.step(self.dropout(x), state)
        return self._around(x, y), state

    def _around(self, x: Tensor, y: Tensor) -> Tensor:
        return 0.5**0.5 * (x + nn.functional.glu(y, dim=-1))


class ConvolutionStack(nn.Module):
    r"""`Gated` layers one on the other: an encoder, or with `causal` what a language model needs.

    Layer l has dilation growthˡ: with growth 1 the receptive field grows by kernel - 1 a layer
    (Gehring et al. 2017), with growth = kernel by a factor of kernel, and nothing is left out
    between the taps; WaveNet has kernel 2 and growth 2. Every step is computed at once, so
    a path between two places is as long as the layers it takes to span them, not as the distance.
    """

    def __init__(
        self,
        width: int,
        depth: int,
        kernel_size: int,
        causal: bool = False,
        dropout: float = 0.0,
        dilation_growth: int = 1,
    ):
        super().__init__()
        _at_least_one(depth=depth, dilation_growth=dilation_growth)
        dilations = [dilation_growth**layer for layer in range(depth)]
        self.receptive_field = receptive_field([kernel_size] * depth, dilations)
        self.layers = nn.ModuleList(
            GatedConvolution(width, kernel_size, dilation, causal, dropout)
            for dilation in dilations
        )

    def forward(self, x: Hidden, lengths: Lengths | None = None) -> Hidden:
        """Every place of every row; what comes out at padded places is not meant to be used."""
        for layer in self.layers:
            x = layer(x, lengths)
        return x

    def init_state(self, rows: int) -> tuple[ConvState, ...]:
        """The state before the first step, layer by layer."""
        layers: Any = self.layers
        return tuple(layer.convolution.init_state(rows) for layer in layers)

    def step(self, x: Hidden, state: tuple[ConvState, ...]) -> tuple[Hidden, tuple[ConvState, ...]]:
        """T more steps after those that the state remembers."""
        after = []
        layer: Any
        for layer, before in zip(self.layers, state, strict=True):
            x, now = layer.step(x, before)
            after.append(now)
        return x, tuple(after)


def receptive_field(kernels: Sequence[int], dilations: Sequence[int]) -> int:
    r"""1 + Σ_l (kernel_l - 1) · dilation_l: from the first to the last input that one output sees.

    All in between are seen too if no dilation is larger than the field of the layers below it.
    """
    return 1 + sum((k - 1) * d for k, d in zip(kernels, dilations, strict=True))


def mask_padding(x: Hidden, lengths: Lengths | None) -> Hidden:
    """Zeros at and after each row's length, whatever stood there; None: no row is padded."""
    if lengths is None:
        return x
    padded = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
    return x.masked_fill(padded[:, :, None], 0.0)


def _at_least_one(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1.")
