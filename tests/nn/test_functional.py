"""Every fast path of attention and of the kernels against its reference."""

from functools import partial

import pytest
import torch

from saccade.nn import (
    AttentionPositions,
    Mask,
    OutputLayer,
    ScaledDotScore,
    attend,
    attend_reference,
    linear_cross_entropy,
    make_score,
)
from saccade.nn.functional import attend_dense
from saccade.nn.kernels.causal_attention import (
    blockwise_causal_attention,
    causal_attention_reference,
)
from saccade.nn.kernels.gelu import fused_gelu, gelu_reference
from saccade.nn.kernels.linear_cross_entropy import linear_cross_entropy_reference
from saccade.nn.kernels.sliding_window import (
    sliding_window_attention,
    window_attention_reference,
)

T = 150
MASKS = {
    "none": Mask(),
    "causal": Mask.causal(),
    "window": Mask.window(3),
    "lengths": Mask.lengths([T, 60]),
    "query_lengths": Mask.lengths(torch.arange(2 * T).view(2, T) % (T + 1)),
    "query_lengths_in_window": Mask.lengths([[5] * T, [T] * T]) & Mask.window(3),
    "table": Mask.from_tensor(torch.ones(T, T, dtype=torch.bool).tril(2)),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("score", ["scaled_dot", "cosine"])
@pytest.mark.parametrize("training", [True, False])
def test_attend_matches_reference_in_every_case(name: str, score: str, training: bool) -> None:
    q, k, v = (torch.randn(2, 2, T, 4, dtype=torch.float64) for _ in range(3))
    case = (MASKS[name], make_score(score, 4), AttentionPositions())
    q.requires_grad_(training)
    torch.testing.assert_close(attend(q, k, v, *case), attend_reference(q, k, v, *case))


def test_kernels_match_their_references() -> None:
    q, k, v = (torch.randn(2, 2, T, 4, dtype=torch.float64) for _ in range(3))
    torch.testing.assert_close(
        blockwise_causal_attention(q, k, v), causal_attention_reference(q, k, v)
    )
    dense = partial(attend_dense, score=ScaledDotScore(), positions=AttentionPositions())
    mask = Mask.causal_window(5)
    assert mask.window_size is not None
    torch.testing.assert_close(
        sliding_window_attention(dense, q, k, v, mask, mask.window_size),
        window_attention_reference(dense, q, k, v, mask),
    )
    torch.testing.assert_close(fused_gelu(q), gelu_reference(q))


@pytest.mark.parametrize("weighted", [True, False])
def test_linear_cross_entropy_matches_its_reference(weighted: bool) -> None:
    hidden, target = torch.randn(6, 4).double(), torch.randint(5, (6,))
    output = OutputLayer(torch.randn(5, 4).double(), torch.randn(5).double())
    weights = torch.rand(6).double() if weighted else None
    got = linear_cross_entropy(hidden, output, target, 0.1, weights)
    expected = linear_cross_entropy_reference(hidden, output, target, 0.1, weights)
    torch.testing.assert_close(tuple(got), tuple(expected))
