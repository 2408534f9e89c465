import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade.nn import SCORES, Additive, Dot, ScaledDot, Score, score_named

sizes = st.integers(1, 5)
leading = st.lists(st.integers(1, 3), max_size=2)  # none, a batch, or a batch and heads
seeds = st.integers(0, 2**31)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def by_loops(query: Tensor, key: Tensor, a: Callable[[list[float], list[float]], float]) -> Tensor:
    """a(q, k) for each pair by itself, whatever axes stand before them."""
    T, S = query.shape[-2], key.shape[-2]
    queries, keys = query.reshape(-1, T, query.shape[-1]), key.reshape(-1, S, key.shape[-1])
    rows = [
        [[a(q.tolist(), k.tolist()) for k in keys[n]] for q in queries[n]]
        for n in range(queries.shape[0])
    ]
    return torch.tensor(rows, dtype=torch.float64).view(*query.shape[:-1], S)


@given(leading, sizes, sizes, sizes, seeds)
def test_dot_and_scaled_dot_are_their_equations(
    first: list[int], T: int, S: int, K: int, seed: int
) -> None:
    torch.manual_seed(seed)
    query, key = random(*first, T, K), random(*first, S, K)

    def dot(q: list[float], k: list[float]) -> float:
        return sum(a * b for a, b in zip(q, k, strict=True))

    torch.testing.assert_close(Dot()(query, key), by_loops(query, key, dot))
    torch.testing.assert_close(
        ScaledDot()(query, key), by_loops(query, key, lambda q, k: dot(q, k) / math.sqrt(K))
    )


@given(leading, sizes, sizes, sizes, sizes, sizes, seeds)
def test_additive_is_its_equation(
    first: list[int], T: int, S: int, Q: int, K: int, hidden: int, seed: int
) -> None:
    torch.manual_seed(seed)
    score = Additive(Q, K, hidden).double()
    query, key = random(*first, T, Q), random(*first, S, K)
    W_q, W_k = score.query.weight.tolist(), score.key.weight.tolist()
    w = score.weight.tolist()

    def a(q: list[float], k: list[float]) -> float:
        total = 0.0
        for f in range(hidden):
            inside = sum(W_q[f][i] * q[i] for i in range(Q))
            inside += sum(W_k[f][j] * k[j] for j in range(K))
            total += w[f] * math.tanh(inside)
        return total

    torch.testing.assert_close(score(query, key).detach(), by_loops(query, key, a))


@pytest.mark.parametrize("name", SCORES)
def test_a_prepared_key_scores_the_same(name: str) -> None:
    score = score_named(name, 4).double()
    assert isinstance(score, Score)
    query, key = random(2, 3, 5, 4), random(2, 3, 6, 4)
    assert score(query, key).shape == (2, 3, 5, 6)
    assert torch.equal(score(query, key), score.compare(query, score.prepare(key)))


@pytest.mark.parametrize("name", SCORES)
def test_gradients_of_query_key_and_weights(name: str) -> None:
    score = score_named(name, 3).double()
    query, key = random(2, 2, 3).requires_grad_(), random(2, 4, 3).requires_grad_()
    names, values = zip(*score.named_parameters(), strict=True) if name == "additive" else ((), ())

    def run(q: Tensor, k: Tensor, *weights: Tensor) -> Tensor:
        parameters = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(score, parameters, (q, k))

    assert torch.autograd.gradcheck(run, (query, key, *values))


def test_what_the_additive_score_prepares_does_not_depend_on_the_query() -> None:
    score = Additive(3, 5, 4).double()
    key = random(2, 6, 5)
    torch.testing.assert_close(score.prepare(key), key @ score.key.weight.T)
    assert sorted(name for name, _ in score.named_parameters()) == [  # as in the paper: no bias
        "key.weight",
        "query.weight",
        "weight",
    ]


@pytest.mark.parametrize("width", [4, 64, 1024])
def test_only_the_scaled_score_keeps_its_size_as_the_width_grows(width: int) -> None:
    query, key = random(100, width), random(100, width)
    assert 0.9 < ScaledDot()(query, key).std() < 1.1
    assert 0.9 < Dot()(query, key).std() / math.sqrt(width) < 1.1


def test_names() -> None:
    kinds = {"dot": Dot, "scaled_dot": ScaledDot, "additive": Additive}
    assert sorted(kinds) == sorted(SCORES)
    for name, kind in kinds.items():
        assert type(score_named(name, 4)) is kind
    with pytest.raises(ValueError, match="no score 'cosine'; there are dot, scaled_dot, additive"):
        score_named("cosine", 4)
