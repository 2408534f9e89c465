r"""Initialisation of a whole model: one method of `saccade.nn.init` for all its layers.

    initialised  W of affine and convolutional layers, W and U of recurrent layers, by the method;
                 the biases of all these, at 0
    unchanged    embeddings, and an output that is the embedding (tied); learned positions; norms;
                 the vectors inside a score

A row of an embedding is looked up and not summed with others, so it has no fan-in that its size
should depend on. Matrices that share one weight are initialised separately: the gates of a
recurrent layer, keys and values, the two halves of a gated convolution.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from saccade.nn.conv1d import Convolution, GatedConvolution
from saccade.nn.init import OptionalGenerator, init_weight
from saccade.nn.rnn_cells import RNNCell
from saccade.nn.transformer import (
    CausalBlock,
    DecoderBlock,
    EncoderBlock,
    MultiHeadAttention,
    residual_projections,
)


class LayerParameters(NamedTuple):
    """The parameters of a layer that are initialised."""

    weights: list[nn.Parameter]
    biases: list[nn.Parameter]


@torch.no_grad()
def init_model(
    model: nn.Module,
    name: str,
    *,
    activation: str = "linear",
    alpha: float | None = None,
    generator: OptionalGenerator = None,
) -> int:
    """Initialise the layers of a model in place; return the number of weights.

    `activation` is used for all layers, as is common, though not all are followed by one.
    `depth_scaled` scales the last layer of each residual branch of a Transformer block (Radford et
    al. 2019) by the number of branches in its stack; elsewhere it is `kaiming`.
    """
    rows, branches = _rows(model), _branches(model)
    initialised = 0
    for layer in _layers(model):
        for weight in layer.weights:
            for matrix in weight.split(rows.get(id(weight), len(weight))):
                layers = branches.get(id(weight), 1)
                init_weight(
                    matrix,
                    name,
                    activation=activation,
                    alpha=alpha,
                    layers=layers,
                    generator=generator,
                )
            initialised += 1
        for bias in layer.biases:
            nn.init.zeros_(bias)
    return initialised


def _layers(model: nn.Module) -> Iterator[LayerParameters]:
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | Convolution | nn.RNNBase):
            own = dict(module.named_parameters(recurse=False))
            weights = [own[key] for key in own if key.startswith("weight")]
            biases = [own[key] for key in own if key.startswith("bias")]
            if not tables & {id(weight) for weight in weights}:
                yield LayerParameters(weights, biases)


def _rows(model: nn.Module) -> dict[int, int]:
    """Return the rows of one matrix, for weights that hold several."""
    rows = {}
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            rows[id(module.key_value.weight)] = module.key_value.out_features // 2
        elif isinstance(module, GatedConvolution):
            rows[id(module.convolution.weight)] = len(module.convolution.weight) // 2
        elif isinstance(module, RNNCell):
            rows |= {id(part.weight): module.hidden for part in (module.inputs, module.recurrence)}
        elif isinstance(module, nn.RNNBase):
            rows |= {id(weight): module.hidden_size for weight in module.parameters()}
    return rows


def _branches(model: nn.Module) -> dict[int, int]:
    """Return the number of residual branches in the stack, for weights that end one."""
    branches: dict[int, int] = {}
    for stack in model.modules():
        if isinstance(stack, nn.ModuleList):
            blocks = [b for b in stack if isinstance(b, EncoderBlock | DecoderBlock | CausalBlock)]
            ends = [end for block in blocks for end in residual_projections(block)]
            branches |= {id(end.weight): len(ends) for end in ends}
    return branches
