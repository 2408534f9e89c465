import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.nn import (
    ATTENTION_SCORES,
    Attention,
    AttentionLayer,
    KVCache,
    Mask,
    MultiHeadAttention,
    ScaledDotScore,
    attend_shared_memory,
    attention_weights,
    make_score,
)

FORMATS = [torch.float32, torch.float64]
MASKS = [
    "none",
    "causal",
    "lengths",
    "query_lengths",
    "window",
    "causal_window",
    "segments",
    "blind",
]
sizes = st.integers(1, 6)
seeds = st.integers(0, 2**31)


def mask_of(kind: str, B: int, T: int, S: int) -> Mask:
    """Return a mask for T queries at the end of S positions; `blind` hides all keys of some."""
    ids = torch.randint(2, (B, S))
    return {
        "none": Mask(),
        "causal": Mask.causal(),
        "lengths": Mask.lengths(torch.randint(1, S + 1, (B,))),
        "query_lengths": Mask.lengths(torch.randint(0, S + 1, (B, T))),
        "window": Mask.window(1, 2),
        "causal_window": Mask.causal_window(2),
        "segments": Mask.segments(ids[:, S - T :], ids),
        "blind": Mask.lengths(torch.randint(0, 2, (B,))),
    }[kind]


def random(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


class Ways(NamedTuple):
    """The same attention by the fused path and by the reference, with all gradients."""

    fused: tuple[Tensor, ...]
    reference: tuple[Tensor, ...]


def both_ways(query: Tensor, keys: Tensor, values: Tensor, mask: Mask) -> Ways:
    attention = Attention(ScaledDotScore())
    slope = torch.randn(*query.shape[:-1], values.shape[-1], dtype=query.dtype)
    ways = []
    for path in (attention, attention.reference):
        out = path(query, keys, values, mask)
        slopes = torch.autograd.grad(out, (query, keys, values), slope)
        ways.append((out.detach(), *slopes))
    return Ways(*ways)


@settings(max_examples=60)
@given(
    st.integers(1, 3),
    st.integers(1, 2),
    sizes,
    st.integers(0, 4),
    sizes,
    st.lists(st.sampled_from(MASKS), min_size=1, max_size=3),
    st.sampled_from(FORMATS),
    seeds,
)
def test_attention_fused_matches_reference(
    B: int, H: int, T: int, past: int, K: int, kinds: list[str], dtype: torch.dtype, seed: int
) -> None:
    torch.manual_seed(seed)
    S = T + past
    query, keys, values = (random(B, H, n, K, dtype=dtype) for n in (T, S, S))
    mask = Mask()
    for kind in kinds:
        mask = mask & mask_of(kind, B, T, S)
    rtol, atol = (1e-4, 1e-5) if dtype == torch.float32 else (1e-9, 1e-12)
    for fused, reference in zip(*both_ways(query, keys, values, mask), strict=True):
        torch.testing.assert_close(fused, reference, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("past", [0, 560])
def test_attention_fused_matches_reference_with_empty_kernel_blocks(
    dtype: torch.dtype, past: int
) -> None:
    T, S = 40, 40 + past  # the kernel reads keys 512 at a time
    query, keys, values = (random(2, 1, n, 4, dtype=dtype) for n in (T, S, S))
    mask = Mask.window(3) & Mask.lengths(torch.tensor([S, S - 20]))
    for fused, reference in zip(*both_ways(query, keys, values, mask), strict=True):
        torch.testing.assert_close(fused, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("width", [1, 8])
def test_attention_without_allowed_keys_has_zero_output_and_finite_gradients(
    dtype: torch.dtype, width: int
) -> None:
    query, keys, values = (random(3, 2, n, width, dtype=dtype) for n in (4, 5, 5))
    ids = torch.tensor([[0, 0, 0, 9], [1, 1, 1, 9], [9, 9, 9, 9]])
    mask = Mask.lengths(torch.tensor([5, 0, 3])) & Mask.segments(
        ids, torch.tensor([[0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [2, 2, 2, 2, 9]])
    )
    blind = torch.tensor([[0, 0, 0, 1], [1, 1, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)
    for out, to_query, to_keys, to_values in both_ways(query, keys, values, mask):
        rows = out.transpose(1, 2)
        assert bool((rows[blind] == 0).all()) and bool((rows[~blind] != 0).any(-1).all())
        assert all(bool(g.isfinite().all()) for g in (to_query, to_keys, to_values))
        assert bool((to_query.transpose(1, 2)[blind] == 0).all())
        assert bool((to_keys[1:] == 0).all()) and bool((to_values[1:] == 0).all())
    table = Attention(ScaledDotScore()).weights(query, keys, mask)
    assert bool((table.transpose(1, 2)[blind] == 0).all())


@given(
    st.sampled_from(ATTENTION_SCORES),
    st.sampled_from(MASKS),
    st.integers(1, 3),
    sizes,
    sizes,
    seeds,
)
def test_attention_weights_sum_to_one_over_allowed_keys(
    name: str, kind: str, B: int, T: int, past: int, seed: int
) -> None:
    torch.manual_seed(seed)
    S = T + past
    mask, score = mask_of(kind, B, T, S), make_score(name, 3).double()
    query, keys = random(B, 2, T, 3), random(B, 2, S, 3)
    table = Attention(score).weights(query, score.prepare(keys), mask).detach()
    may_see = mask.may_see(T, S)
    seen = torch.ones(B, 1, T, S, dtype=torch.bool) if may_see is None else may_see
    assert bool((table >= 0).all())
    assert bool((table[~seen.expand_as(table)] == 0).all())
    sums = seen.any(-1).expand(B, 2, T).double()  # 1, or 0 for a query that may see nothing
    torch.testing.assert_close(table.sum(-1), sums)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_weights_match_masked_softmax(masked: bool) -> None:
    scores = 3 * random(2, 3, 4, 5).detach()
    may_see = torch.rand(2, 1, 4, 5) < 0.6 if masked else None
    got = attention_weights(scores, may_see)
    for b in range(2):
        for h in range(3):
            for t in range(4):
                row = scores[b, h, t].tolist()
                seen = [True] * 5 if may_see is None else may_see[b, 0, t].tolist()
                total = sum(math.exp(s) for s, may in zip(row, seen, strict=True) if may)
                expected = [
                    math.exp(s) / total if may else 0.0 for s, may in zip(row, seen, strict=True)
                ]
                assert got[b, h, t].tolist() == pytest.approx(expected, abs=1e-12)


def test_attention_weights_gradcheck_with_a_row_without_keys() -> None:
    scores = random(1, 2, 3, 4)
    may_see = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]], dtype=torch.bool)[None, None]
    assert torch.autograd.gradcheck(lambda s: attention_weights(s, may_see), (scores,))


@pytest.mark.parametrize("name", ATTENTION_SCORES)
@pytest.mark.parametrize("kind", MASKS)
def test_attention_gradcheck(name: str, kind: str) -> None:
    score = make_score(name, 2).double()
    mask = mask_of(kind, 2, 3, 4)
    inputs = random(2, 1, 3, 2), random(2, 1, 4, 2), random(2, 1, 4, 2)

    def run(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return Attention(score)(query, score.prepare(keys), values, mask)

    assert torch.autograd.gradcheck(run, inputs)


@given(
    st.sampled_from(ATTENTION_SCORES),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 3),
    sizes,
    seeds,
)
def test_attend_shared_memory_matches_repeated_memory(
    name: str, B: int, G: int, T: int, S: int, seed: int
) -> None:
    torch.manual_seed(seed)
    score = make_score(name, 3).double()
    attention = Attention(score)
    query = random(B * G, T, 2, 3).transpose(1, 2)  # as a module hands it in: not contiguous
    keys, values = score.prepare(random(B, 2, S, 3)), random(B, 2, S, 3)
    lengths = torch.randint(1, S + 1, (B,))
    roomy = KVCache(torch.cat([keys, keys], dim=2), torch.cat([values, values], dim=2), S)
    repeated = [x.repeat_interleave(G, 0) for x in (keys, values)]
    expected = attention(query, *repeated, Mask.lengths(lengths.repeat_interleave(G)))
    for memory in (KVCache(keys, values, S), roomy):
        got = attend_shared_memory(attention, query, memory, Mask.lengths(lengths))
        torch.testing.assert_close(got, expected)


def theirs(ours: MultiHeadAttention, width: int, kv_width: int) -> nn.MultiheadAttention:
    """Return torch's module with our weights."""
    other = nn.MultiheadAttention(
        width, ours.heads, kdim=kv_width, vdim=kv_width, batch_first=True
    ).double()
    keys, values = ours.key_value.weight.chunk(2)
    with torch.no_grad():
        if other.in_proj_weight is not None:
            other.in_proj_weight.copy_(torch.cat([ours.query.weight, keys, values]))
        else:
            other.q_proj_weight.copy_(ours.query.weight)
            other.k_proj_weight.copy_(keys)
            other.v_proj_weight.copy_(values)
        other.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    other.out_proj.load_state_dict(ours.out.state_dict())
    return other


def with_biases(module: nn.Module) -> nn.Module:
    """Set the biases, which are initialised at zero, to random numbers."""
    for parameter in module.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)
    return module


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("kv_width", [None, 8, 6])
@pytest.mark.parametrize("kind", ["none", "causal", "lengths", "causal and lengths"])
def test_multi_head_attention_matches_torch(heads: int, kv_width: int | None, kind: str) -> None:
    B, T, S = 3, 5, 5 if "causal" in kind else 7
    ours = MultiHeadAttention(8, heads, kv_width).double()
    with_biases(ours)
    other = theirs(ours, 8, kv_width or 8)
    x, memory = random(B, T, 8), random(B, S, kv_width or 8)
    lengths = torch.tensor([S, 2, 1])
    mask, settings_of_theirs = Mask(), {}
    if "causal" in kind:
        mask = mask & Mask.causal()
        settings_of_theirs["attn_mask"] = torch.ones(T, S, dtype=torch.bool).triu(1)
    if "lengths" in kind:
        mask = mask & Mask.lengths(lengths)
        settings_of_theirs["key_padding_mask"] = torch.arange(S) >= lengths[:, None]
    remembered = ours.project_kv(memory)
    got = ours(x, remembered, mask)
    expected, table = other(x, memory, memory, average_attn_weights=False, **settings_of_theirs)
    torch.testing.assert_close(got, expected)
    query = ours.query(x).view(B, T, heads, -1).transpose(1, 2)
    torch.testing.assert_close(ours.attention.weights(query, remembered.keys, mask), table)
    slope = torch.randn_like(got)
    mine = torch.autograd.grad(got, (x, memory, ours.query.weight), slope)
    others = other.in_proj_weight if other.q_proj_weight is None else other.q_proj_weight
    x_slope, memory_slope, weight = torch.autograd.grad(expected, (x, memory, others), slope)
    for one, two in zip(mine, (x_slope, memory_slope, weight[:8]), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("name", ATTENTION_SCORES)
def test_multi_head_attention_matches_equation_for_every_score(name: str) -> None:
    width, heads, K = 6, 2, 3
    module = MultiHeadAttention(width, heads, score=make_score(name, K)).double()
    with_biases(module)
    x, memory = random(2, 3, width), random(2, 4, width)
    mask = Mask.lengths(torch.tensor([4, 2]))
    W_k, W_v = module.key_value.weight.chunk(2)
    b_k, b_v = module.key_value.bias.chunk(2)
    found = []
    for h in range(heads):
        part = slice(h * K, (h + 1) * K)
        query = x @ module.query.weight[part].T + module.query.bias[part]
        keys = memory @ W_k[part].T + b_k[part]
        values = memory @ W_v[part].T + b_v[part]
        scores = module.attention.score(query, keys)
        padding = torch.arange(4) >= torch.tensor([4, 2])[:, None, None]
        scores = scores.masked_fill(padding, -math.inf)
        found.append(scores.softmax(-1) @ values)
    expected = torch.cat(found, dim=-1) @ module.out.weight.T + module.out.bias
    torch.testing.assert_close(module(x, module.project_kv(memory), mask), expected)


@pytest.mark.parametrize("name", ATTENTION_SCORES)
def test_multi_head_attention_gradcheck(name: str) -> None:
    module = MultiHeadAttention(4, 2, score=make_score(name, 2)).double()
    mask = Mask.causal() & Mask.lengths(torch.tensor([3, 1]))

    def run(x: Tensor) -> Tensor:
        return module(x, module.project_kv(x), mask)

    assert torch.autograd.gradcheck(run, (random(2, 3, 4),))


def test_multi_head_attention_initialises_each_matrix_separately() -> None:
    module = MultiHeadAttention(64, 4, kv_width=32)
    keys, values = module.key_value.weight.chunk(2)
    for matrix in (module.query.weight, keys, values, module.out.weight):
        bound = math.sqrt(6 / sum(matrix.shape))  # Glorot's, of this matrix alone
        assert 0.98 * bound < float(matrix.detach().abs().max()) <= bound
    assert not any(bool(linear.bias.any()) for linear in (module.query, module.key_value))


def test_multi_head_attention_refuses_indivisible_width() -> None:
    with pytest.raises(ValueError, match=r"got width 10 for 4 heads; .*; try 8 or 12\."):
        MultiHeadAttention(10, 4)
    with pytest.raises(ValueError, match=r"got width 3 for 8 heads; .*; try 8\."):
        MultiHeadAttention(3, 8)


@pytest.mark.parametrize("name", ATTENTION_SCORES)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_heads_match_repeated_keys_and_values(name: str, kv_heads: int) -> None:
    width, heads, K, B, S = 12, 4, 3, 2, 5
    grouped = MultiHeadAttention(
        width, heads, score=make_score(name, K), kv_heads=kv_heads
    ).double()
    with_biases(grouped)
    plain = MultiHeadAttention(width, heads, score=grouped.attention.score).double()
    plain.query, plain.out = grouped.query, grouped.out
    with torch.no_grad():
        for mine, theirs in (
            (grouped.key_value.weight, plain.key_value.weight),
            (grouped.key_value.bias, plain.key_value.bias),
        ):
            each = mine.unflatten(0, (2, kv_heads, K)).repeat_interleave(heads // kv_heads, dim=1)
            theirs.copy_(each.flatten(0, 2))
    x = random(B, S, width)
    slope = torch.randn_like(x)
    for mask in (Mask(), Mask.causal(), Mask.lengths(torch.tensor([5, 2])), Mask.window(1)):
        memory = grouped.project_kv(x)
        assert memory.keys.shape[:3] == memory.values.shape[:3] == (B, kv_heads, S)
        got, expected = grouped(x, memory, mask), plain(x, plain.project_kv(x), mask)
        torch.testing.assert_close(got, expected)
        ours, theirs = (torch.autograd.grad(out, x, slope)[0] for out in (got, expected))
        torch.testing.assert_close(ours, theirs)
        query = grouped.query(x).view(B, S, heads, K).transpose(1, 2)
        tables = [
            module.attention.weights(query, module.project_kv(x).keys, mask)
            for module in (grouped, plain)
        ]
        torch.testing.assert_close(*tables)


def test_grouped_heads_with_one_query_head_each_are_bit_equal_to_plain() -> None:
    x = random(2, 5, 8).float()
    found = []
    for kv_heads in (None, 4):
        torch.manual_seed(1)
        module = MultiHeadAttention(8, 4, kv_heads=kv_heads)
        found.append(module(x, module.project_kv(x), Mask.causal()))
    assert torch.equal(*found)


@settings(max_examples=30)
@given(st.sampled_from(MASKS), sizes, st.integers(0, 4), st.integers(1, 3), seeds)
def test_grouped_heads_fused_matches_reference(
    kind: str, T: int, past: int, times: int, seed: int
) -> None:
    torch.manual_seed(seed)
    S = T + past
    query, keys, values = random(2, 2 * times, T, 3), random(2, 2, S, 3), random(2, 2, S, 3)
    for fused, reference in zip(
        *both_ways(query, keys, values, mask_of(kind, 2, T, S)), strict=True
    ):
        torch.testing.assert_close(fused, reference, rtol=1e-9, atol=1e-12)


def test_grouped_heads_refuse_indivisible_kv_heads() -> None:
    for kv_heads in (0, 4, 12):
        with pytest.raises(ValueError, match=f"got {kv_heads} kv_heads for 6 heads; expected"):
            MultiHeadAttention(12, 6, kv_heads=kv_heads)
    with pytest.raises(ValueError, match=r"try 1, 2, 3, 6\."):
        MultiHeadAttention(12, 6, kv_heads=5)


@pytest.mark.parametrize("name", ATTENTION_SCORES)
def test_attention_layer_matches_equation(name: str) -> None:
    layer = AttentionLayer(3, 5, 4, make_score(name, 4)).double()
    x, memory = random(2, 3, 3).detach(), random(2, 6, 5).detach()
    lengths = [6, 2]
    got = layer(x, memory, Mask.lengths(torch.tensor(lengths)))
    W_q, W_k, W_v = layer.query.weight, layer.key.weight, layer.value.weight
    for b, length in enumerate(lengths):
        for t in range(3):
            query = W_q @ x[b, t]
            scores = [
                layer.attention.score(query[None], (W_k @ memory[b, s])[None])[0, 0]
                for s in range(length)
            ]
            shares = torch.stack(scores).softmax(0)
            expected = sum(shares[s] * (W_v @ memory[b, s]) for s in range(length))
            torch.testing.assert_close(got[b, t], expected)


@given(sizes, sizes, st.booleans(), seeds)
def test_attention_layer_is_permutation_equivariant(T: int, S: int, own: bool, seed: int) -> None:
    """The order of keys and values has no effect, that of queries is the order of the result."""
    torch.manual_seed(seed)
    layer = AttentionLayer(3, 5, 4, value_width=2).double()
    x, memory, values = random(2, T, 3), random(2, S, 5), random(2, S, 2)
    lengths = torch.randint(1, S + 1, (2, T)) if own else None
    expected = layer(x, memory, lengths, values)
    queries, keys = torch.randperm(T), torch.randperm(S)
    if own:  # each query keeps its length, and the keys their positions
        lengths, keys = None if lengths is None else lengths[:, queries], torch.arange(S)
    got = layer(x[:, queries], memory[:, keys], lengths, values[:, keys])
    torch.testing.assert_close(got, expected[:, queries])


def test_attention_layer_takes_keys_and_values_from_two_inputs() -> None:
    layer = AttentionLayer(3, 5, 4, value_width=2).double()
    x, memory, values = random(2, 3, 3), random(2, 6, 5), random(2, 6, 2)
    got = layer(x, memory, [6, 2], values)
    W_q, W_k, W_v = layer.query.weight, layer.key.weight, layer.value.weight
    for b, length in enumerate([6, 2]):
        for t in range(3):
            scores = [(W_q @ x[b, t]) @ (W_k @ memory[b, s]) / 2 for s in range(length)]
            shares = torch.stack(scores).softmax(0)
            expected = sum(shares[s] * (W_v @ values[b, s]) for s in range(length))
            torch.testing.assert_close(got[b, t], expected)
    with pytest.raises(ValueError, match=r"values of \(2, 5\) .* memory of \(2, 6\); expected a"):
        layer(x, memory, None, values[:, :5])
    with pytest.raises(ValueError, match="got values of width 5; expected 2; try nn.Linear"):
        layer(x, memory)
    with pytest.raises(ValueError, match="got memory of width 3; expected 5"):
        layer(x)


def test_attention_layer_without_memory_is_self_attention() -> None:
    layer, x = AttentionLayer(4, 4, 6).double(), random(2, 5, 4)
    for mask in (None, Mask.causal()):
        torch.testing.assert_close(layer(x, mask=mask), layer(x, x, mask))
    assert torch.autograd.gradcheck(layer, (random(1, 3, 4), random(1, 2, 4)))


def test_multi_head_attention_with_one_head_is_attention_layer_and_projection() -> None:
    layer, module = AttentionLayer(6, 5, 6).double(), MultiHeadAttention(6, 1, 5).double()
    with torch.no_grad():
        layer.query.weight.copy_(module.query.weight)
        layer.key.weight.copy_(module.key_value.weight[:6])
        layer.value.weight.copy_(module.key_value.weight[6:])
    x, memory, mask = random(2, 3, 6), random(2, 4, 5), Mask.lengths(torch.tensor([4, 1]))
    torch.testing.assert_close(
        module(x, module.project_kv(memory), mask), module.out(layer(x, memory, mask))
    )


# --- dropout of the weights -----------------------------------------------------------------------


def test_attention_dropout_changes_training_only() -> None:
    plain = MultiHeadAttention(8, 2)
    dropped = MultiHeadAttention(8, 2, dropout=0.5)
    dropped.load_state_dict(plain.state_dict())
    x = torch.randn(3, 5, 8)
    assert not torch.equal(dropped(x, mask=Mask.causal()), plain(x, mask=Mask.causal()))
    dropped.eval()
    assert torch.equal(dropped(x, mask=Mask.causal()), plain(x, mask=Mask.causal()))


@pytest.mark.parametrize("kind", MASKS)
def test_attention_dropout_drops_and_scales_single_weights(kind: str) -> None:
    """With values of the identity the output is the table of weights itself."""
    p, S, T = 0.25, 6, 4
    attention = Attention(ScaledDotScore(), dropout=p).double()
    query, keys = random(2, 3, T, 5), random(2, 3, S, 5)
    values = torch.eye(S, dtype=torch.float64).expand(2, 3, S, S)
    mask = mask_of(kind, 2, T, S)
    whole = attention.weights(query, keys, mask)
    found = attention(query, keys, values, mask)
    kept = found != 0
    torch.testing.assert_close(found[kept], (whole / (1 - p))[kept])
    visible = whole != 0
    assert not (kept & ~visible).any()
    if visible.sum() > 60:
        assert 0 < (visible & ~kept).sum() < visible.sum()


def test_attention_dropout_keeps_the_expected_output() -> None:
    attention = Attention(ScaledDotScore(), dropout=0.3).double()
    query, keys, values = (torch.randn(1, 1, n, 4, dtype=torch.float64) for n in (2, 5, 5))
    draws = torch.stack([attention(query, keys, values, Mask()) for _ in range(4000)])
    error = draws.std(0) / len(draws) ** 0.5
    assert (
        (draws.mean(0) - attention.reference(query, keys, values, Mask())).abs() < 5 * error
    ).all()
