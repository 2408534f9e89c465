"""Initialisation of whole models: which weights, and which stay unchanged."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from saccade.models.conv_seq2seq import ConvSourceAttention
from saccade.nn.conv1d import Convolution, ConvolutionStack
from saccade.nn.embedding import TokenEmbedding
from saccade.nn.feedforward import FeedForward
from saccade.nn.init import INITS, init_weight
from saccade.nn.init_model import init_model
from saccade.nn.positional_encoding import LearnedPositions
from saccade.nn.rnn import RNN
from saccade.nn.rnn_cells import CELLS, RNNCell
from saccade.nn.transformer import CausalBlock, DecoderBlock, EncoderBlock, MultiHeadAttention

D = 6


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def parts() -> dict[str, tuple[nn.Module, list[int]]]:
    """Return modules with the number of matrices in each weight, in order of parameters."""
    return {
        "affine": (nn.Linear(D, 4), [1]),
        "attention": (MultiHeadAttention(D, 2), [1, 2, 1]),
        "convolution": (Convolution(D, 4, 3), [1]),
        "gated": (ConvolutionStack(D, 2, 3), [2, 2]),
        "in a picture": (nn.Conv2d(2, 5, 3), [1]),
        **{name: (RNN(name, D, D), [kind.gates] * 2) for name, kind in CELLS.items()},
        "cell": (RNNCell("lstm", D, D), [4, 4]),
        "look at the source": (ConvSourceAttention(D), [1, 1]),
    }


@pytest.mark.parametrize("method", ["kaiming_out", "orthogonal", "xavier"])
@pytest.mark.parametrize("name", parts())
def test_init_model_initialises_each_matrix_separately(name: str, method: str) -> None:
    module, counts = parts()[name]
    weights = [p for p in module.parameters() if p.dim() > 1]
    assert (
        init_model(module, method, activation="relu", generator=seeded())
        == len(weights)
        == len(counts)
    )
    again = seeded()
    for weight, count in zip(weights, counts, strict=True):
        for matrix in weight.detach().chunk(count):
            expected = torch.empty_like(matrix)
            init_weight(expected, method, activation="relu", generator=again)
            assert torch.equal(matrix, expected)
    biases = [p for p in module.parameters() if p.dim() == 1]
    assert biases and not any(bias.any() for bias in biases)
    assert all(p.is_leaf and p.requires_grad for p in module.parameters())


def test_init_model_skips_embeddings_positions_and_norms() -> None:
    block, words = (
        EncoderBlock(MultiHeadAttention(D, 2), FeedForward(D, 8)),
        TokenEmbedding(9, D, LearnedPositions(D, 5)),
    )
    tied = nn.Linear(D, 9, bias=False)
    tied.weight = words.table.weight
    model = nn.ModuleList([block, words, tied])
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    assert (
        init_model(model, "zero") == 5
    )  # of the block: query, keys and values, out, two of the feed-forward network
    now = dict(model.named_parameters())
    alike = {name for name in before if torch.equal(before[name], now[name])}
    assert {"1.table.weight", "1.positions.table", "0.around_attention.norm.weight"} <= alike
    assert not any(now[name].any() for name in now if name.endswith("feed_forward.inner.weight"))


@pytest.mark.parametrize(
    ("made", "ends"),
    [
        (
            lambda: CausalBlock(MultiHeadAttention(D, 2), FeedForward(D, 8)),
            ("self_attention.out", "feed_forward.outer"),
        ),
        (
            lambda: EncoderBlock(MultiHeadAttention(D, 2), FeedForward(D, 8)),
            ("self_attention.out", "feed_forward.outer"),
        ),
        (
            lambda: DecoderBlock(
                MultiHeadAttention(D, 2), MultiHeadAttention(D, 2), FeedForward(D, 8)
            ),
            ("self_attention.out", "source_attention.out", "feed_forward.outer"),
        ),
    ],
    ids=["causal", "encoder", "decoder"],
)
def test_init_model_depth_scaled_scales_residual_projections(
    made: Any, ends: tuple[str, ...]
) -> None:
    plain, scaled = ({}, {})
    weights: dict[str, Tensor]
    for method, weights in (("kaiming", plain), ("depth_scaled", scaled)):
        model = nn.ModuleDict({"stack": nn.ModuleList(made() for _ in range(3))})
        init_model(model, method, activation="gelu", generator=seeded())
        weights |= {n: p.detach() for n, p in model.named_parameters() if p.dim() == 2}
    for name, weight in plain.items():
        is_end = name.removesuffix(".weight").endswith(ends)
        divisor = (3 * len(ends)) ** 0.5 if is_end else 1.0
        torch.testing.assert_close(scaled[name], weight / divisor)


def test_init_model_depth_scaled_without_blocks_is_kaiming() -> None:
    stacks = [ConvolutionStack(D, 2, 3) for _ in range(2)]
    for stack, method in zip(stacks, ("kaiming", "depth_scaled"), strict=True):
        init_model(stack, method, generator=seeded())
    for one, other in zip(*(stack.parameters() for stack in stacks), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("method", sorted(INITS))
def test_init_model_every_method_initialises_a_block(method: str) -> None:
    block = CausalBlock(MultiHeadAttention(D, 2), FeedForward(D, 8))
    assert init_model(block, method, activation="gelu", generator=seeded()) == 5
    assert all(p.isfinite().all() for p in block.parameters())


def test_init_model_without_layers_returns_zero() -> None:
    assert init_model(nn.LayerNorm(4), "xavier") == 0
