import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from saccade.nn import (
    ATTENTION_SCORES,
    AdditiveScore,
    ConcatScore,
    CosineScore,
    DotScore,
    GaussianScore,
    GeneralScore,
    ScaledDotScore,
    ScaledGeneralScore,
    Score,
    make_score,
)

sizes = st.integers(1, 5)
leading = st.lists(st.integers(1, 3), max_size=2)  # none, a batch, or a batch and heads
seeds = st.integers(0, 2**31)
WEIGHTED = ("additive", "general", "scaled_general", "concat", "gaussian")


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def by_loops(query: Tensor, key: Tensor, a: Callable[[list[float], list[float]], float]) -> Tensor:
    """Return a(q, k) of each pair, for any leading axes."""
    T, S = query.shape[-2], key.shape[-2]
    queries, keys = query.reshape(-1, T, query.shape[-1]), key.reshape(-1, S, key.shape[-1])
    rows = [
        [[a(q.tolist(), k.tolist()) for k in keys[n]] for q in queries[n]]
        for n in range(queries.shape[0])
    ]
    return torch.tensor(rows, dtype=torch.float64).view(*query.shape[:-1], S)


@given(leading, sizes, sizes, sizes, seeds)
def test_dot_and_scaled_dot_scores_match_equations(
    first: list[int], T: int, S: int, K: int, seed: int
) -> None:
    torch.manual_seed(seed)
    query, key = random(*first, T, K), random(*first, S, K)

    def dot(q: list[float], k: list[float]) -> float:
        return sum(a * b for a, b in zip(q, k, strict=True))

    torch.testing.assert_close(DotScore()(query, key), by_loops(query, key, dot))
    torch.testing.assert_close(
        ScaledDotScore()(query, key), by_loops(query, key, lambda q, k: dot(q, k) / math.sqrt(K))
    )


@given(leading, sizes, sizes, sizes, sizes, sizes, seeds)
def test_additive_score_matches_equation(
    first: list[int], T: int, S: int, Q: int, K: int, hidden: int, seed: int
) -> None:
    torch.manual_seed(seed)
    score = AdditiveScore(Q, K, hidden).double()
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


@given(leading, sizes, sizes, sizes, sizes, seeds)
def test_general_score_matches_equation(
    first: list[int], T: int, S: int, Q: int, K: int, seed: int
) -> None:
    torch.manual_seed(seed)
    score = GeneralScore(Q, K).double()
    query, key = random(*first, T, Q), random(*first, S, K)
    W = score.key.weight.tolist()

    def a(q: list[float], k: list[float]) -> float:
        return sum(q[i] * W[i][j] * k[j] for i in range(Q) for j in range(K))

    torch.testing.assert_close(score(query, key).detach(), by_loops(query, key, a))


@given(leading, sizes, sizes, sizes, sizes, sizes, seeds)
def test_concat_score_matches_equation(
    first: list[int], T: int, S: int, Q: int, K: int, hidden: int, seed: int
) -> None:
    torch.manual_seed(seed)
    score = ConcatScore(Q, K, hidden).double()
    query, key = random(*first, T, Q), random(*first, S, K)
    W, w = score.both.weight.tolist(), score.weight.tolist()

    def a(q: list[float], k: list[float]) -> float:
        both = q + k  # [q; k]
        inside = [sum(x * y for x, y in zip(row, both, strict=True)) for row in W]
        return sum(w[f] * math.tanh(inside[f]) for f in range(hidden))

    torch.testing.assert_close(score(query, key).detach(), by_loops(query, key, a))


@given(leading, sizes, sizes, sizes, st.floats(0.1, 10), seeds)
def test_cosine_and_gaussian_scores_match_equations(
    first: list[int], T: int, S: int, K: int, sigma: float, seed: int
) -> None:
    torch.manual_seed(seed)
    query, key = random(*first, T, K), random(*first, S, K)

    def cosine(q: list[float], k: list[float]) -> float:
        product = sum(a * b for a, b in zip(q, k, strict=True))
        return product / math.hypot(*q) / math.hypot(*k)

    def gaussian(q: list[float], k: list[float]) -> float:
        return -sum((a - b) ** 2 for a, b in zip(q, k, strict=True)) / (2 * sigma**2)

    torch.testing.assert_close(CosineScore()(query, key), by_loops(query, key, cosine))
    expected = by_loops(query, key, gaussian)
    torch.testing.assert_close(GaussianScore(sigma)(query, key), expected)
    learned = GaussianScore(sigma, learned=True).double()  # log σ was rounded to float32
    torch.testing.assert_close(learned(query, key).detach(), expected, rtol=1e-5, atol=1e-7)


def test_concat_score_is_additive_score_with_concatenated_matrices() -> None:
    concat, additive = ConcatScore(3, 5, 4).double(), AdditiveScore(3, 5, 4).double()
    with torch.no_grad():
        concat.both.weight.copy_(torch.cat([additive.query.weight, additive.key.weight], dim=1))
        concat.weight.copy_(additive.weight)
    query, key = random(2, 6, 3), random(2, 7, 5)
    torch.testing.assert_close(concat(query, key), additive(query, key))
    torch.testing.assert_close(concat.prepare(key), additive.prepare(key))


def test_general_and_cosine_scores_match_torch() -> None:
    general = GeneralScore(3, 5).double()
    query, key = random(2, 6, 3), random(2, 7, 5)
    pairs = query[:, :, None].expand(2, 6, 7, 3), key[:, None].expand(2, 6, 7, 5)
    expected = F.bilinear(pairs[0].contiguous(), pairs[1].contiguous(), general.key.weight[None])
    torch.testing.assert_close(general(query, key), expected[..., 0])
    scaled = ScaledGeneralScore(3, 5).double()
    scaled.load_state_dict(general.state_dict())
    torch.testing.assert_close(scaled(query, key), expected[..., 0] / math.sqrt(3))
    others = random(2, 7, 3)
    expected = F.cosine_similarity(query[:, :, None], others[:, None], dim=-1)
    torch.testing.assert_close(CosineScore()(query, others), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_cosine_score_of_zeros_is_zero_in_every_dtype(dtype: torch.dtype) -> None:
    key = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=dtype)
    assert CosineScore()(key, key)[0].tolist() == CosineScore()(key, key)[:, 0].tolist() == [0, 0]
    assert float(CosineScore()(key, key)[1, 1]) == pytest.approx(1, abs=0.01)
    assert GaussianScore().to(dtype)(key, key).dtype == dtype


def test_gaussian_score_learned_sigma_stays_positive() -> None:
    assert not list(GaussianScore(2.0).parameters()) and not GaussianScore(2.0).state_dict()
    score = GaussianScore(2.0, learned=True)
    assert score.log_sigma is not None
    assert list(score.state_dict()) == ["log_sigma"]
    assert score.log_sigma.exp().item() == pytest.approx(2.0)
    far, here = torch.ones(1, 1), torch.zeros(1, 1)
    score(far, here).sum().backward()
    assert score.log_sigma.grad is not None
    assert float(score.log_sigma.grad) == pytest.approx(1 / 4)  # d(-d²/2σ²)/d log σ = d²/σ²
    with torch.no_grad():
        score.log_sigma.sub_(50)
        assert score.sigma > 0


def test_gaussian_score_has_no_cancellation_far_from_zero() -> None:
    points = torch.tensor([[1000.0], [1000.25]])
    assert GaussianScore()(points, points)[0].tolist() == [0, -(0.25**2) / 2]


def test_gaussian_score_weights_match_dot_product_with_key_norm_penalty() -> None:
    query, key = random(2, 5, 4), random(2, 6, 4)
    score = GaussianScore(4**0.25)
    other = ScaledDotScore()(query, key) - key.square().sum(-1)[:, None] / 4
    torch.testing.assert_close(score(query, key).softmax(-1), other.softmax(-1))


@pytest.mark.parametrize("name", ATTENTION_SCORES)
def test_scores_with_prepared_keys_match(name: str) -> None:
    score = make_score(name, 4).double()
    assert isinstance(score, Score)
    query, key = random(2, 3, 5, 4), random(2, 3, 6, 4)
    assert score(query, key).shape == (2, 3, 5, 6)
    assert torch.equal(score(query, key), score.compare(query, score.prepare(key)))


@pytest.mark.parametrize("name", ATTENTION_SCORES)
def test_scores_gradcheck(name: str) -> None:
    score = make_score(name, 3).double()
    query, key = random(2, 2, 3).requires_grad_(), random(2, 4, 3).requires_grad_()
    names, values = zip(*score.named_parameters(), strict=True) if name in WEIGHTED else ((), ())

    def run(q: Tensor, k: Tensor, *weights: Tensor) -> Tensor:
        parameters = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(score, parameters, (q, k))

    assert torch.autograd.gradcheck(run, (query, key, *values))


def test_additive_score_prepare_is_independent_of_query() -> None:
    score = AdditiveScore(3, 5, 4).double()
    key = random(2, 6, 5)
    torch.testing.assert_close(score.prepare(key), key @ score.key.weight.T)
    assert sorted(name for name, _ in score.named_parameters()) == [  # as in the paper: no bias
        "key.weight",
        "query.weight",
        "weight",
    ]


@pytest.mark.parametrize("width", [4, 64, 1024])
def test_scaled_dot_score_variance_is_independent_of_width(width: int) -> None:
    query, key = random(100, width), random(100, width)
    assert 0.9 < ScaledDotScore()(query, key).std() < 1.1
    assert 0.9 < DotScore()(query, key).std() / math.sqrt(width) < 1.1


@pytest.mark.parametrize("name", ["general", "scaled_general", "additive", "concat"])
def test_scores_with_different_query_and_key_widths(name: str) -> None:
    score = make_score(name, 3, 5).double()
    query, key = random(2, 4, 3).requires_grad_(), random(2, 6, 5).requires_grad_()
    assert score(query, key).shape == (2, 4, 6)
    assert torch.autograd.gradcheck(score, (query, key))


@pytest.mark.parametrize("kind", [GeneralScore, ScaledGeneralScore])
def test_general_score_initial_variance_is_that_of_scaled_dot(kind: type[GeneralScore]) -> None:
    score = kind(64, 16).double()
    assert 0.8 < float(score(random(300, 64), random(300, 16)).detach().std()) < 1.2


@pytest.mark.parametrize("width", [32, 256])
def test_one_adam_step_saturates_the_general_score_and_not_the_scaled_one(width: int) -> None:
    """A step of Adam moves every weight by the learning rate, however small the weight is."""
    torch.manual_seed(0)
    changes = {}
    for name in ("general", "scaled_general", "scaled_dot"):
        score = make_score(name, width)
        project = torch.nn.Linear(width, width, bias=False)  # as a model does for the dot product
        torch.nn.init.normal_(project.weight, std=width**-0.5)
        query, key = torch.randn(1, width), torch.randn(8, width)

        def scores(score: Score = score, project: torch.nn.Linear = project) -> Tensor:
            return score(query, project(key))  # noqa: B023

        before = scores()
        weights = [*score.parameters(), *([project.weight] if name == "scaled_dot" else [])]
        optimizer = torch.optim.Adam(weights, lr=2e-3)
        (-before.log_softmax(-1)[0, 0]).backward()
        optimizer.step()
        changes[name] = float((scores() - before).abs().max().detach())
    assert changes["general"] > 0.7 * width**0.5 * changes["scaled_general"]
    assert changes["scaled_general"] < 2 * changes["scaled_dot"]


def test_make_score_names() -> None:
    kinds = {
        "dot": DotScore,
        "scaled_dot": ScaledDotScore,
        "additive": AdditiveScore,
        "general": GeneralScore,
        "scaled_general": ScaledGeneralScore,
        "concat": ConcatScore,
        "cosine": CosineScore,
        "gaussian": GaussianScore,
    }
    assert sorted(kinds) == sorted(ATTENTION_SCORES)
    for name, kind in kinds.items():
        assert type(make_score(name, 4)) is kind
        weighted = bool(list(make_score(name, 4).parameters()))
        assert weighted == (name in WEIGHTED)
    assert make_score("concat", 4, hidden=7).get_parameter("both.weight").shape == (7, 8)
    with pytest.raises(
        ValueError, match="got score 'cosin'; expected one of dot, scaled_dot, additive"
    ):
        make_score("cosin", 4)


def test_make_score_error_messages() -> None:
    for name in ("dot", "scaled_dot", "cosine", "gaussian"):
        with pytest.raises(
            ValueError, match="queries of width 4 and keys of 5 .* try general, additive or"
        ):
            make_score(name, 4, 5)
    with pytest.raises(ValueError, match="got sigma 0.0; expected .* try 1.0"):
        GaussianScore(0.0)
