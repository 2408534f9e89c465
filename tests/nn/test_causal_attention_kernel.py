"""Blockwise causal attention against the equation and torch's kernel."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade.nn import functional as attention_module
from saccade.nn.attention_scores import ScaledDotScore
from saccade.nn.functional import Attention
from saccade.nn.kernels import causal_attention
from saccade.nn.masks import Mask


def by_loops(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Compute causal attention by loops."""
    found = torch.zeros(*query.shape[:-1], values.shape[-1], dtype=query.dtype)
    B, H, T, Q = query.shape
    for b in range(B):
        for h in range(H):
            for t in range(T):
                scores = [
                    float(query[b, h, t] @ keys[b, h, s]) / math.sqrt(Q) for s in range(t + 1)
                ]
                maximum = max(scores)
                exps = [math.exp(score - maximum) for score in scores]
                for s, each in enumerate(exps):
                    found[b, h, t] += each / sum(exps) * values[b, h, s]
    return found


def some(rows: int, heads: int, steps: int, width: int, wide: int) -> tuple[Tensor, ...]:
    """Return queries, keys and values of different widths in float64."""
    generator = torch.Generator().manual_seed(steps)
    widths = (width, width, wide)
    return tuple(
        torch.randn(rows, steps, heads, w, dtype=torch.float64, generator=generator)
        .transpose(1, 2)
        .requires_grad_()
        for w in widths
    )


@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 13), st.integers(1, 5), st.integers(1, 9)
)
def test_blockwise_causal_attention_matches_reference(
    rows: int, heads: int, steps: int, width: int, block: int
) -> None:
    query, keys, values = some(rows, heads, steps, width, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(causal_attention, "QUERY_BLOCK", block)
        found = causal_attention.blockwise_causal_attention(query, keys, values)
    with torch.no_grad():
        assert torch.allclose(found, by_loops(query, keys, values), atol=1e-12)


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 6, 11])
def test_blockwise_causal_attention_gradcheck(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal_attention, "QUERY_BLOCK", 4)
    assert torch.autograd.gradcheck(
        causal_attention.blockwise_causal_attention, some(2, 2, steps, 3, 2)
    )


@pytest.mark.parametrize("steps", [1, 63, 64, 65, 96, 97, 130, 200])
def test_blockwise_causal_attention_gradients_match_sdpa(steps: int) -> None:
    inputs = some(2, 3, steps, 5, 5)
    onto = torch.randn(2, 3, steps, 5, dtype=torch.float64)
    fused = torch.autograd.grad(
        F.scaled_dot_product_attention(*inputs, is_causal=True), inputs, onto
    )
    blocks = torch.autograd.grad(causal_attention.blockwise_causal_attention(*inputs), inputs, onto)
    for one, other in zip(fused, blocks, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_blockwise_causal_attention_blocks_cover_all_queries() -> None:
    for steps in range(1, 400):
        blocks = causal_attention._blocks(steps)
        assert [start for start, _ in blocks[1:]] == [end for _, end in blocks[:-1]]
        assert blocks[0][0] == 0 and blocks[-1][1] == steps
        assert (
            all(end - start > causal_attention.QUERY_BLOCK // 2 for start, end in blocks)
            or len(blocks) == 1
        )


def test_attention_in_training_uses_blockwise_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query, keys, values = some(2, 4, 70, 8, 8)
    attention = Attention(ScaledDotScore())
    taken: list[int] = []
    by_blocks = attention_module.blockwise_causal_attention
    monkeypatch.setattr(
        attention_module, "blockwise_causal_attention", lambda *a: taken.append(1) or by_blocks(*a)
    )
    monkeypatch.setattr(causal_attention, "MIN_BLOCKWISE_LENGTH", 70)
    fused = attention(query, keys, values, Mask.causal())
    assert not taken  # as many as the fused kernel is quicker for
    monkeypatch.setattr(causal_attention, "MIN_BLOCKWISE_LENGTH", 69)
    learning = attention(query, keys, values, Mask.causal())
    assert torch.allclose(learning, fused, atol=1e-12)
    with torch.no_grad():
        answering = attention(query, keys, values, Mask.causal())
    assert len(taken) == 1
    assert torch.allclose(learning, answering, atol=1e-12)
    assert torch.allclose(
        learning, attention.reference(query, keys, values, Mask.causal()), atol=1e-12
    )
    attention(query, keys[:, :2], values[:, :2], Mask.causal())  # fewer heads of keys: the kernel
    assert len(taken) == 1
