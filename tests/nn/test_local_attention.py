import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from saccade.nn.attention_scores import ATTENTION_SCORES, DotScore, make_score
from saccade.nn.functional import Attention, attend_shared_memory
from saccade.nn.kv_cache import KVCache
from saccade.nn.local_attention import (
    MIN_LOCAL_GAIN,
    CentrePredictor,
    LocalAttention,
    gaussian_window,
    local_weights,
    predict_centre,
    window_mask,
    with_centre,
)
from saccade.nn.masks import Mask

windows = st.sampled_from([1, 2, 3, 10])
seeds = st.integers(0, 2**31)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def by_loops(
    scores: list[float], centre: float, window: int, gaussian: bool, length: int
) -> list[float]:
    """Compute the weights of one query by loops."""
    inside = [s for s in range(length) if centre - window <= s <= centre + window]
    total = sum(math.exp(scores[s]) for s in inside)
    row = [0.0] * len(scores)
    for s in inside:
        row[s] = math.exp(scores[s]) / total
        if gaussian:
            sigma = window / 2
            row[s] *= math.exp(-((s - centre) ** 2) / (2 * sigma**2))
    return row


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
    st.integers(1, 5),
    windows,
    st.booleans(),
    seeds,
)
def test_local_weights_match_equation(
    lengths: list[int], T: int, window: int, gaussian: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    B, S = len(lengths), max(lengths)
    scores, centre = 2 * random(B, 2, T, S), (S + 4) * torch.rand(B, 2, T).double() - 2
    may_see = (torch.arange(S) < torch.tensor(lengths)[:, None])[:, None, None]
    got = local_weights(scores, centre, window, gaussian, may_see)
    for b, length in enumerate(lengths):
        for h in range(2):
            for t in range(T):
                expected = by_loops(
                    scores[b, h, t].tolist(), float(centre[b, h, t]), window, gaussian, length
                )
                assert got[b, h, t].tolist() == pytest.approx(expected, abs=1e-12)


def test_local_attention_window_includes_edges_and_gaussian_height() -> None:
    centre = torch.tensor([[[3.0]]]).double()
    seen = window_mask(centre, 8, 2)[0, 0, 0]
    assert seen.tolist() == [False, True, True, True, True, True, False, False]
    heights = gaussian_window(centre, 8, 2)[0, 0, 0].tolist()
    # σ = 1: one position off is one σ, the edge is two
    assert heights[1:6] == pytest.approx([math.exp(-h) for h in (2, 0.5, 0, 0.5, 2)])


@settings(max_examples=30)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(1, 4), seeds)
def test_predict_centre_matches_equation_and_lies_in_row(
    lengths: list[int], T: int, seed: int
) -> None:
    torch.manual_seed(seed)
    predictor = CentrePredictor(3, 2).double()
    hidden = 3 * random(len(lengths), T, 3)
    got = predictor(hidden, torch.tensor(lengths)).detach()
    inner, outer = predictor.inner.tolist(), predictor.outer.tolist()
    for b, length in enumerate(lengths):
        for t in range(T):
            h = hidden[b, t].tolist()
            total = sum(
                v * math.tanh(sum(w * x for w, x in zip(row, h, strict=True)))
                for v, row in zip(outer, inner, strict=True)
            )
            expected = length / (1 + math.exp(-total))
            assert float(got[b, t]) == pytest.approx(expected, abs=1e-12)
            assert 0 < float(got[b, t]) < length
            # so that a window of 1 or more has a position in it
            assert bool(window_mask(got[b, t][None, None, None], length, 1).any())


def local_and_global(window: int, gaussian: bool, name: str = "dot") -> tuple[Tensor, Tensor]:
    """Return the results of both for the same inputs; three rows of different lengths."""
    torch.manual_seed(7)
    score, mask = make_score(name, 4).double(), Mask.lengths(torch.tensor([6, 3, 1]))
    query, keys, values = random(3, 1, 5, 4), score.prepare(random(3, 1, 6, 4)), random(3, 1, 6, 2)
    centre = torch.rand(3, 5).double() * torch.tensor([[6.0], [3.0], [1.0]])
    if not gaussian:
        centre = torch.arange(5).double().expand(3, -1)
    local = LocalAttention(score, window, gaussian)
    return (
        local(with_centre(query, centre), keys, values, mask).detach(),
        Attention(score).reference(query, keys, values, mask).detach(),
    )


@pytest.mark.parametrize("name", ATTENTION_SCORES)
def test_local_attention_with_covering_window_is_global(name: str) -> None:
    # the farthest key is 5 positions from the first query
    local, whole = local_and_global(5, False, name)
    torch.testing.assert_close(local, whole, rtol=0, atol=1e-12)
    local, whole = local_and_global(3, False, name)
    assert not torch.allclose(local, whole, atol=1e-3)


def test_local_attention_with_wide_gaussian_tends_to_global() -> None:
    differences = []
    for window in (8, 16, 32, 64, 128, 1024):
        local, whole = local_and_global(window, True)
        differences.append(float((local - whole).abs().max()))
    assert all(
        later < earlier for earlier, later in zip(differences, differences[1:], strict=False)
    )
    # exp(-x²/2σ²) = 1 - x²/2σ² + …: twice as wide is four times as near
    for earlier, later in zip(differences[1:-2], differences[2:-1], strict=True):
        assert later / earlier == pytest.approx(0.25, rel=0.1)
    assert differences[0] > 1e-2 and differences[-1] < 1e-4


def test_local_attention_gaussian_is_not_renormalised() -> None:
    scores, centre = random(2, 1, 3, 6), torch.full((2, 1, 3), 2.3).double()
    sums = local_weights(scores, centre, 2, True).sum(-1)
    assert bool((sums < 1).all()) and bool((sums > 0).all())
    torch.testing.assert_close(local_weights(scores, centre, 2).sum(-1), torch.ones_like(sums))


def test_local_attention_outside_row_has_zero_output_and_finite_gradients() -> None:
    query, keys, values = (random(1, 1, n, 2).requires_grad_() for n in (3, 4, 4))
    centre = torch.tensor([[0.0, 4.0, 9.0]]).double()
    mask = Mask.lengths(torch.tensor([2]))
    out = LocalAttention(DotScore(), 1)(with_centre(query, centre), keys, values, mask)
    assert bool((out[0, 0, 0] != 0).all()) and bool((out[0, 0, 1:] == 0).all())
    slopes = torch.autograd.grad(out.sum(), (query, keys, values))
    assert all(bool(slope.isfinite().all()) for slope in slopes)
    assert bool((slopes[0][0, 0, 1:] == 0).all())


def gathered_and_whole(
    name: str, window: int, gaussian: bool, S: int, mask: Mask, rows: int
) -> list[list[Tensor]]:
    """Return result and gradients by the gathered windows and by the whole table."""
    score = make_score(name, 2).double()
    local, T = LocalAttention(score, window, gaussian), 5
    leaves = [random(rows, 1, n, 2).requires_grad_() for n in (T, S, S)]
    # some centres are integers, at the edges of windows, or far outside
    centre = (torch.randint(-8, 2 * S + 8, (rows, T)).double() / 2).requires_grad_()
    slope = random(rows, 1, T, 2)
    found = []
    for gathers in (True, False):
        path = local if gathers else local.reference
        out = path(with_centre(leaves[0], centre), score.prepare(leaves[1]), leaves[2], mask)
        slopes = torch.autograd.grad(out, (*leaves, centre), slope, allow_unused=True)
        found.append([out.detach(), *(torch.zeros(1) if g is None else g for g in slopes)])
    return found


@settings(max_examples=40)
@given(
    st.sampled_from(ATTENTION_SCORES),
    windows,
    st.booleans(),
    st.integers(0, 40),
    st.booleans(),
    seeds,
)
def test_gathered_windows_match_the_whole_table(
    name: str, window: int, gaussian: bool, extra: int, causal: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    S = MIN_LOCAL_GAIN * (2 * window + 2) + 1 + extra  # so that the windows are gathered
    mask = Mask.lengths(torch.randint(0, S + 1, (2,)))
    if causal:  # a table that differs between queries
        mask = Mask.lengths(torch.randint(0, S + 1, (2, 5))) & Mask.causal()
    for got, expected in zip(*gathered_and_whole(name, window, gaussian, S, mask, 2), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11)


def test_gathered_windows_and_whole_table_divide_at_the_same_edge() -> None:
    """A centre just below an integer is rounded to it by s - p, in both."""
    attention, S = LocalAttention(DotScore(), 2), 100
    centre = torch.tensor([[50 - 1e-6, 50 + 1e-6, 50.0, 49.999998, 51 - 4e-6]])
    query = with_centre(torch.zeros(1, 1, 5, 2), centre)
    values = torch.eye(S)[None, None]
    got = attention(query, torch.zeros(1, 1, S, 2), values, Mask())
    torch.testing.assert_close(got, attention.weights(query, torch.zeros(1, 1, S, 2), Mask()))


@pytest.mark.parametrize("name", ["dot", "general"])
def test_work_of_local_attention_grows_with_the_window_not_with_the_source(name: str) -> None:
    """2 operations for each product: of a query with a gathered key, of a weight with a value."""
    T, K, rows = 7, 16, 3

    def count(window: int, S: int) -> int:
        score = make_score(name, K)
        attention = LocalAttention(score, window, gaussian=True)
        query = with_centre(torch.randn(rows, 1, T, K), S * torch.rand(rows, T))
        keys, values = score.prepare(torch.randn(rows, 1, S, K)), torch.randn(rows, 1, S, K)
        with FlopCounterMode(display=False) as counter:
            attention(query, keys, values, Mask())
        return counter.get_total_flops()

    for window in (1, 2, 5, 20):
        assert count(window, 200) == 2 * rows * T * (2 * window + 2) * 2 * K
        assert count(window, 800) == count(window, 200)
    assert count(60, 200) == 2 * rows * T * 200 * 2 * K  # the whole table


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("name", ["dot", "additive"])
@pytest.mark.parametrize("S", [5, 29])
def test_local_attention_gradcheck(S: int, gaussian: bool, name: str) -> None:
    score = make_score(name, 2).double()
    local, mask = LocalAttention(score, 2, gaussian), Mask.lengths(torch.tensor([5, 3]))
    # not near a position ± 2, where one more step would move the window's edge over it
    centre = torch.tensor([[1.4, 3.7, 0.2], [0.6, 2.3, 1.5]]).double().requires_grad_()
    leaves = [random(2, 1, n, 2).requires_grad_() for n in (3, S, S)]  # 29: gathered

    def run(query: Tensor, keys: Tensor, values: Tensor, centre: Tensor) -> Tensor:
        return local(with_centre(query, centre), score.prepare(keys), values, mask)

    assert torch.autograd.gradcheck(run, (*leaves, centre))
    (slope,) = torch.autograd.grad(run(*leaves, centre).sum(), centre)
    assert bool((slope != 0).all()) is gaussian  # the window alone has no gradient


def test_centre_predictor_gradients() -> None:
    leaves = [random(2, 3, 4), random(5, 4), random(5)]
    sizes = torch.tensor([6, 2])
    assert torch.autograd.gradcheck(
        lambda hidden, inner, outer: predict_centre(hidden, sizes, inner, outer),
        [leaf.requires_grad_() for leaf in leaves],
    )


@settings(max_examples=20)
@given(st.integers(1, 3), st.integers(2, 3), st.integers(1, 3), st.booleans(), seeds)
def test_local_attention_with_shared_memory_keeps_centres(
    B: int, G: int, T: int, gaussian: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    local, S = LocalAttention(DotScore(), 2, gaussian), 6 if seed % 2 else 30
    keys, values = random(B, 1, S, 3), random(B, 1, S, 2)
    query = with_centre(random(B * G, 1, T, 3), S * torch.rand(B * G, T).double())
    lengths = torch.randint(1, S + 1, (B,))
    got = attend_shared_memory(local, query, KVCache(keys, values, S), Mask.lengths(lengths))
    repeated: Any = [x.repeat_interleave(G, 0) for x in (keys, values, lengths)]
    expected = local(query, repeated[0], repeated[1], Mask.lengths(repeated[2]))
    torch.testing.assert_close(got, expected)


def test_local_attention_refuses_invalid_window() -> None:
    with pytest.raises(ValueError, match="got a window of 0; expected 1 or more"):
        LocalAttention(DotScore(), 0)
