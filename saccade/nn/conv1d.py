r"""One-dimensional convolution over sequences that keeps their length.

    y_t = b + Σ_k W_k x_{t - before + k · dilation},   k = 0 … kernel - 1

`before` is (kernel - 1) · dilation when causal, so that the last tap is at position t (WaveNet, van
den Oord et al. 2016), else half of that, rounded down. Beyond either end of a row, and on padding,
the inputs are zeros, so that padding never changes a result.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.nn.dropout import Dropout
from saccade.types.shapes import Hidden, Lengths


class ConvState(NamedTuple):
    """The last (kernel - 1) · dilation inputs, which later steps depend on."""

    inputs: Float[Tensor, "B S D"]


def convolve(
    x: Float[Tensor, "B S D"],
    weight: Float[Tensor, "E D W"],
    bias: Float[Tensor, " E"],
    dilation: int = 1,
) -> Float[Tensor, "B T E"]:
    r"""y_t = b + Σ_k W_k x_{t + k · dilation}, for the T = S - (W - 1) · dilation valid positions.

    The inputs of all taps are concatenated for a single matrix product: this copies x once for each
    tap, but on a CPU it is faster, forward and backward, than torch's convolution.
    """
    E, D, taps = weight.shape
    T = x.shape[1] - (taps - 1) * dilation
    taps_inputs = torch.cat([x[:, k * dilation : k * dilation + T] for k in range(taps)], dim=-1)
    return nn.functional.linear(taps_inputs, weight.transpose(1, 2).reshape(E, taps * D), bias)


class Convolution(nn.Module):
    """One convolution over whole sequences or, if causal, over further steps after a state."""

    def __init__(
        self,
        in_width: int,
        out_width: int,
        kernel_size: int,
        dilation: int = 1,
        causal: bool = False,
    ):
        super().__init__()
        _check_positive(kernel_size=kernel_size, dilation=dilation)
        self.dilation, self.causal = dilation, causal
        self.kernel_span = (kernel_size - 1) * dilation
        self.weight = nn.Parameter(torch.empty(out_width, in_width, kernel_size))
        self.bias = nn.Parameter(torch.zeros(out_width))
        nn.init.normal_(self.weight, std=(in_width * kernel_size) ** -0.5)

    def forward(self, x: Hidden, lengths: Lengths | None = None) -> Float[Tensor, "B T E"]:
        """Convolve all positions; the outputs at padded positions are meaningless."""
        x = mask_padding(x, lengths)
        before = self.kernel_span if self.causal else self.kernel_span // 2
        around = nn.functional.pad(x, (0, 0, before, self.kernel_span - before))
        return convolve(around, self.weight, self.bias, self.dilation)

    def init_state(self, rows: int) -> ConvState:
        """Return the state before the first step: zeros, as before a row in `forward`."""
        self._check_causal()
        return ConvState(self.weight.new_zeros(rows, self.kernel_span, self.weight.shape[1]))

    def step(self, x: Hidden, state: ConvState) -> tuple[Float[Tensor, "B T E"], ConvState]:
        """Convolve T further steps after those of the state."""
        self._check_causal()
        inputs = torch.cat([state.inputs, x], dim=1)
        after = ConvState(inputs[:, x.shape[1] :])
        return convolve(inputs, self.weight, self.bias, self.dilation), after

    def _check_causal(self) -> None:
        if not self.causal:
            raise ValueError(
                "got a step for a convolution that depends on later inputs; expected a causal one; "
                "try causal=True."
            )


class GatedConvolution(nn.Module):
    r"""√½ · (x + a ∘ σ(b)) with [a; b] = convolution(dropout(x)).

    The gated linear unit (Dauphin et al. 2017) inside a residual connection, as in ConvS2S
    (Gehring et al. 2017, section 3.2); WaveNet has tanh(a) instead of a. The factor √½ and the
    initial deviation √(3 (1 - dropout) / (kernel · width)) of the weights keep a variance of 1 from
    layer to layer: E[(√3 u σ(√3 v))²] = 1.007 for u, v ~ N(0, 1). It differs from theirs in that 3,
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
        """Apply the layer to all positions."""
        return self._add_residual(x, self.convolution(self.dropout(x), lengths))

    def step(self, x: Hidden, state: ConvState) -> tuple[Hidden, ConvState]:
        """Convolve T further steps after those of the state."""
        y, state = self.convolution.step(self.dropout(x), state)
        return self._add_residual(x, y), state

    def _add_residual(self, x: Tensor, y: Tensor) -> Tensor:
        return 0.5**0.5 * (x + nn.functional.glu(y, dim=-1))


class ConvolutionStack(nn.Module):
    r"""A stack of `GatedConvolution`s: an encoder or, with `causal`, a language model.

    Layer l has dilation growthˡ: with growth 1 the receptive field grows by kernel - 1 a layer
    (Gehring et al. 2017), with growth = kernel by a factor of kernel, without gaps between the
    taps; WaveNet has kernel 2 and growth 2. All steps are computed in parallel, so a path between
    two positions is as long as the layers it takes to span them, not as the distance.
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
        _check_positive(depth=depth, dilation_growth=dilation_growth)
        dilations = [dilation_growth**layer for layer in range(depth)]
        self.receptive_field = receptive_field([kernel_size] * depth, dilations)
        self.layers = nn.ModuleList(
            GatedConvolution(width, kernel_size, dilation, causal, dropout)
            for dilation in dilations
        )

    def forward(self, x: Hidden, lengths: Lengths | None = None) -> Hidden:
        """Convolve all positions; the outputs at padded positions are meaningless."""
        for layer in self.layers:
            x = layer(x, lengths)
        return x

    def init_state(self, rows: int) -> tuple[ConvState, ...]:
        """Return the state of each layer before the first step."""
        layers: Any = self.layers
        return tuple(layer.convolution.init_state(rows) for layer in layers)

    def step(self, x: Hidden, state: tuple[ConvState, ...]) -> tuple[Hidden, tuple[ConvState, ...]]:
        """Convolve T further steps after those of the state."""
        after = []
        layer: Any
        for layer, layer_state in zip(self.layers, state, strict=True):
            x, layer_state = layer.step(x, layer_state)
            after.append(layer_state)
        return x, tuple(after)


def receptive_field(kernels: Sequence[int], dilations: Sequence[int]) -> int:
    r"""1 + Σ_l (kernel_l - 1) · dilation_l: the span of the inputs of one output.

    It has no gaps if no dilation is larger than the receptive field of the layers below it.
    """
    return 1 + sum((k - 1) * d for k, d in zip(kernels, dilations, strict=True))


def mask_padding(x: Hidden, lengths: Lengths | None) -> Hidden:
    """Set the positions from each row's length on to zero; None: no row is padded."""
    if lengths is None:
        return x
    padded = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
    return x.masked_fill(padded[:, :, None], 0.0)


def _check_positive(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"got {name} {value}; expected 1 or more.")
