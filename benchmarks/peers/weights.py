"""Copy our Transformer's weights to layers with one matrix per projection."""

from typing import Any

import torch
from torch import Tensor, nn

from saccade.models.transformer import Transformer
from saccade.nn.transformer import MultiHeadAttention

MAX_POSITIONS = 512  # rows of the peers' position tables


@torch.no_grad()
def put(linear: nn.Module, weight: Tensor, bias: Tensor) -> None:
    """Copy weight and bias to a linear layer or a norm."""
    linear.weight.copy_(weight)  # type: ignore[operator]
    linear.bias.copy_(bias)  # type: ignore[operator]


def put_same(theirs: nn.Module, ours: nn.Module) -> None:
    """Copy a layer that has the same form in both models."""
    put(theirs, ours.weight, ours.bias)  # type: ignore[arg-type]


def put_attention(
    ours: MultiHeadAttention,
    query: nn.Module,
    key: nn.Module,
    value: nn.Module,
    out: nn.Module,
) -> None:
    """Copy an attention layer; our keys and values are one matrix, theirs are two."""
    put_same(query, ours.query)
    weights, biases = ours.key_value.weight.chunk(2), ours.key_value.bias.chunk(2)
    put(key, weights[0], biases[0])
    put(value, weights[1], biases[1])
    put_same(out, ours.out)


def norms(block: Any) -> list[nn.Module]:
    """Return the norms of one of our blocks, in the order of computation."""
    names = ("around_attention", "around_source", "around_feed_forward")
    return [getattr(block, name).norm for name in names if hasattr(block, name)]


def positions(ours: Transformer) -> Tensor:
    """Return the sinusoidal encodings of the first positions, interleaved."""
    table = ours.target.positions
    assert table is not None
    return table(0, MAX_POSITIONS)
