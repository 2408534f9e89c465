import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.nn import LearnedPositions, SinusoidalPositions, TokenEmbedding


@given(st.integers(1, 3), st.integers(1, 5), st.integers(0, 7), st.booleans())
def test_token_embedding_matches_equation(B: int, T: int, start: int, learned: bool) -> None:
    positions = LearnedPositions(6, 12) if learned else SinusoidalPositions(6)
    embedding = TokenEmbedding(11, 6, positions)
    ids = torch.randint(11, (B, T))
    got = embedding(ids, start)
    codes = positions(0, start + T)
    for b in range(B):
        for t in range(T):
            row = embedding.table.weight[ids[b, t]]
            torch.testing.assert_close(got[b, t], math.sqrt(6) * row + codes[start + t])


def test_token_embedding_without_positions_is_position_independent() -> None:
    embedding = TokenEmbedding(11, 4)
    ids = torch.full((2, 3), 7)
    got = embedding(ids, 5)
    assert torch.equal(got, got[:1, :1].expand_as(got))
    torch.testing.assert_close(got[0, 0], 2 * embedding.table.weight[7])


@pytest.mark.parametrize("width", [16, 256])
def test_token_embedding_initial_variance_is_one(width: int) -> None:
    embedding = TokenEmbedding(2000, width)
    assert 0.95 < embedding(torch.arange(2000)[None]).var() < 1.05
    logits = torch.randn(100, width) @ embedding.table.weight.T
    assert 0.9 < logits.var() < 1.1


def test_token_embedding_gradient_counts_occurrences() -> None:
    embedding = TokenEmbedding(5, 4).double()
    embedding(torch.tensor([[1, 3, 3], [3, 1, 0]])).sum().backward()
    grad = embedding.table.weight.grad
    assert grad is not None
    torch.testing.assert_close(grad[:, 0], 2 * torch.tensor([1.0, 2, 0, 3, 0]).double())


def test_token_embedding_dropout_is_last_and_in_training_only() -> None:
    embedding = TokenEmbedding(11, 4, SinusoidalPositions(4), dropout=0.5)
    ids = torch.randint(11, (8, 20))
    dropped = embedding(ids)
    plain = embedding.eval()(ids)
    gone = dropped == 0
    assert 0.4 < gone.double().mean() < 0.6
    torch.testing.assert_close(dropped[~gone], 2 * plain[~gone])
