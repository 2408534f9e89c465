"""Sliding-window attention in blocks against masked attention."""

from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.nn import (
    ATTENTION_SCORES,
    Attention,
    AttentionPositions,
    Mask,
    RelativePositions,
    ScaledDotScore,
    make_score,
)
from saccade.nn.functional import attend_dense
from saccade.nn.kernels import sliding_window as windows_file
from saccade.nn.kernels.sliding_window import block_size, blocked_window_attention
from saccade.nn.masks import WindowSize


class Case(NamedTuple):
    """A window over T queries at the end of S positions, with other conditions."""

    query: Tensor
    keys: Tensor
    values: Tensor
    mask: Mask
    block: int

    @property
    def window_size(self) -> WindowSize:
        window_size = self.mask.window_size
        assert window_size is not None
        return window_size


class Plan(NamedTuple):
    """The sizes of a case."""

    rows: int
    kv_heads: int
    times: int  # heads of queries to a group
    steps: int
    past: int
    window: tuple[int, int]
    causal: bool
    lengths: list[float] | None  # as fractions of S
    segments: bool
    block: int
    seed: int


plans = st.builds(
    Plan,
    rows=st.integers(1, 3),
    kv_heads=st.integers(1, 2),
    times=st.integers(1, 2),
    steps=st.integers(1, 17),
    past=st.integers(0, 9),
    window=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    causal=st.booleans(),
    lengths=st.none() | st.lists(st.floats(0, 1), min_size=3, max_size=3),
    segments=st.booleans(),
    block=st.integers(1, 6),
    seed=st.integers(0, 2**31),
)


def made(plan: Plan) -> Case:
    torch.manual_seed(plan.seed)
    B, G, T = plan.rows, plan.kv_heads, plan.steps
    S = T + plan.past
    mask = Mask.window(*plan.window)
    if plan.causal:
        mask = Mask.causal() & mask
    if plan.lengths is not None:
        mask = mask & Mask.lengths((torch.tensor(plan.lengths[:B]) * S).round().long())
    if plan.segments:
        ids = torch.randint(2, (B, S))
        mask = Mask.segments(ids[:, S - T :], ids) & mask
    query, keys, values = (
        torch.randn(B, heads, n, 4, dtype=torch.float64, requires_grad=True)
        for heads, n in ((plan.times * G, T), (G, S), (G, S))
    )
    return Case(query, keys, values, mask, plan.block)


def relative(heads: int) -> RelativePositions:
    positions = RelativePositions(4 * heads, heads).double()
    for parameter in positions.parameters():
        nn.init.normal_(parameter)
    return positions


@pytest.mark.parametrize("kind", [*ATTENTION_SCORES, "relative"])
@given(plan=plans)
@settings(max_examples=15)
def test_blocked_window_attention_matches_masked_attention(kind: str, plan: Plan) -> None:
    """Compare values and all gradients."""
    case = made(plan)
    query, keys, values, mask, block = case
    positions: AttentionPositions = (
        relative(query.shape[1]) if kind == "relative" else AttentionPositions()
    )
    score = ScaledDotScore() if kind == "relative" else make_score(kind, 4).double()
    attention = Attention(score, positions)
    leaves = [query, keys, values, *attention.parameters()]
    slope = torch.randn_like(query)

    def slopes(out: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(out, leaves, slope, retain_graph=True, materialize_grads=True)

    prepared = score.prepare(keys)
    blocks = blocked_window_attention(
        partial(attend_dense, score=score, positions=positions),
        query,
        prepared,
        values,
        mask,
        case.window_size,
        block,
    )
    dense = attention.reference(query, prepared, values, mask)
    torch.testing.assert_close(blocks, dense, rtol=1e-9, atol=1e-12)
    for one, other in zip(slopes(blocks), slopes(dense), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)
    with torch.no_grad():  # relative positions are fused only here
        again = blocked_window_attention(
            partial(attend_dense, score=score, positions=positions),
            query,
            prepared,
            values,
            mask,
            case.window_size,
            block,
        )
    torch.testing.assert_close(again, dense.detach(), rtol=1e-9, atol=1e-12)


@given(plans)
@settings(max_examples=40)
def test_attention_uses_window_blocks(plan: Plan) -> None:
    query, keys, values, mask, _ = made(plan)
    attention = Attention(ScaledDotScore())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows_file, "MIN_WINDOW_BLOCK", 1)
        patch.setattr(windows_file, "MIN_WINDOW_GAIN", 1)
        got = attention(query, keys, values, mask)
    torch.testing.assert_close(got, attention.reference(query, keys, values, mask))


class Seen(NamedTuple):
    """The arguments of the kernel."""

    query: torch.Size
    keys: torch.Size
    table: Tensor | None


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[Seen]:
    calls: list[Seen] = []
    real = F.scaled_dot_product_attention

    def noted(query: Tensor, keys: Tensor, values: Tensor, **more: Any) -> Tensor:
        calls.append(Seen(query.shape, keys.shape, more.get("attn_mask")))
        return real(query, keys, values, **more)

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    return calls


@pytest.mark.parametrize("length", [512, 2048])
@pytest.mark.parametrize("mask", [Mask.window(40), Mask.causal_window(40)])
def test_sliding_window_cost_is_linear_in_length(
    length: int, mask: Mask, kernel: list[Seen]
) -> None:
    x = torch.randn(1, 2, length, 8)
    Attention(ScaledDotScore())(x, x, x, mask)
    (seen,) = kernel
    each = seen.query[0] * seen.query[2] * seen.keys[2]  # of all blocks
    assert each <= (length + 40) * 3 * 40


def test_sliding_window_with_cache_reads_window_only(kernel: list[Seen]) -> None:
    query, memory = torch.randn(2, 2, 1, 8), torch.randn(2, 2, 300, 8)
    attention = Attention(ScaledDotScore())
    got = attention(query, memory, memory, Mask.causal_window(7))
    torch.testing.assert_close(
        got, attention.reference(query, memory, memory, Mask.causal_window(7))
    )
    assert kernel[0].keys == (2, 2, 8, 8) and kernel[0].table is None
    several = torch.randn(2, 2, 3, 8)
    attention(several, memory, memory, Mask.causal_window(7))
    assert kernel[1].keys == (2, 2, 10, 8)


def test_sliding_window_short_sequence_is_dense(kernel: list[Seen]) -> None:
    x = torch.randn(1, 2, 60, 8)
    Attention(ScaledDotScore())(x, x, x, Mask.window(20))
    assert kernel[0].query == kernel[0].keys == x.shape
    assert block_size(WindowSize(20, 20), 60, 60) is None
    assert block_size(WindowSize(20, 20), 400, 400) == 32
    assert block_size(WindowSize(100, 0), 1000, 1000) == 100
    assert block_size(WindowSize(100, 0), 50, 1000) is None  # one block of queries


def test_sliding_window_weights_are_those_of_dense_attention() -> None:
    x = torch.randn(1, 2, 400, 8, dtype=torch.float64)
    attention, mask = Attention(ScaledDotScore()), Mask.window(10, 5)
    table = attention.weights(x, x, mask)
    assert table.shape == (1, 2, 400, 400)
    offsets = torch.arange(400) - torch.arange(400)[:, None]
    assert not table[..., (offsets < -10) | (offsets > 5)].any()
    torch.testing.assert_close(attention(x, x, x, mask), table @ x)
