"""Positions that act inside the attention: rotary, relative, and none."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.nn import (
    Attention,
    AttentionPositions,
    KVCache,
    Mask,
    MultiHeadAttention,
    RelativePositions,
    RotaryPositions,
    ScaledDotScore,
    attend_shared_memory,
    extend_cache,
    make_score,
)
from saccade.nn.positional_encoding import relative_shift

WIDTH, HEADS = 12, 2
KINDS: dict[str, Callable[[], AttentionPositions]] = {
    "none": AttentionPositions,
    "rotary": lambda: RotaryPositions(WIDTH // HEADS),
    "relative": lambda: RelativePositions(WIDTH, HEADS),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
seeds = st.integers(0, 2**31)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def moved(module: nn.Module) -> Any:
    """Return a module in float64 with random u, v and biases instead of zeros."""
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def layer(kind: str, kv_heads: int | None = None, score: str = "scaled_dot") -> MultiHeadAttention:
    own = make_score(score, WIDTH // HEADS)
    return moved(
        MultiHeadAttention(WIDTH, HEADS, score=own, kv_heads=kv_heads, positions=KINDS[kind]())
    )


# rotary


@given(st.integers(0, 500), st.integers(1, 5), st.integers(1, 5).map(lambda n: 2 * n), seeds)
@settings(max_examples=30)
def test_rotary_rotates_each_pair_by_its_angle(start: int, T: int, K: int, seed: int) -> None:
    torch.manual_seed(seed)
    rotary, vectors = RotaryPositions(K).double(), random(2, 3, T, K)
    got = rotary.rotate(vectors, start)
    rates = rotary.angles.rates.tolist()
    for t in range(T):
        for i in range(K // 2):
            assert rates[i] == pytest.approx(10000 ** (-2 * i / K), rel=1e-5)
            angle = (start + t) * rates[i]
            x, y = vectors[:, :, t, 2 * i], vectors[:, :, t, 2 * i + 1]
            expected = [
                x * math.cos(angle) - y * math.sin(angle),
                x * math.sin(angle) + y * math.cos(angle),
            ]
            torch.testing.assert_close(got[:, :, t, 2 * i : 2 * i + 2], torch.stack(expected, -1))


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "cosine", "gaussian"])
@given(st.integers(0, 90), st.integers(0, 90), st.integers(0, 400), seeds)
@settings(max_examples=20)
def test_rotary_score_depends_on_offset_alone(
    name: str, at: int, other: int, shift: int, seed: int
) -> None:
    torch.manual_seed(seed)
    rotary, score = RotaryPositions(6).double(), make_score(name, 6).double()
    query, key = random(1, 1, 1, 6), random(1, 1, 1, 6)

    def meet(i: int, j: int) -> Tensor:
        return score(rotary.rotate(query, i), rotary.rotate(key, j)).detach()

    torch.testing.assert_close(meet(at, other), meet(at + shift, other + shift))


def test_rotary_score_depends_on_offset() -> None:
    rotary, query, key = RotaryPositions(6).double(), random(1, 1, 1, 6), random(1, 1, 1, 6)
    here = ScaledDotScore()(rotary.rotate(query, 5), rotary.rotate(key, 5))
    torch.testing.assert_close(here, ScaledDotScore()(query, key))
    there = ScaledDotScore()(rotary.rotate(query, 6), rotary.rotate(key, 5))
    assert float((here - there).abs()) > 1e-3


def test_rotary_matches_hugging_face() -> None:
    gptj = pytest.importorskip("transformers.models.gptj.modeling_gptj")
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    B, H, T, K, start = 2, 3, 5, 8, 4
    vectors, rotary = torch.randn(B, H, T, K), RotaryPositions(K)
    got = rotary.rotate(vectors, start)

    codes = gptj.create_sinusoidal_positions(start + T, K)[start:].expand(B, T, K)
    sine, cosine = codes.chunk(2, dim=-1)
    theirs = gptj.apply_rotary_pos_emb(vectors.transpose(1, 2), sine, cosine).transpose(1, 2)
    torch.testing.assert_close(got, theirs)

    config = llama.LlamaConfig(hidden_size=H * K, num_attention_heads=H)
    position_ids = torch.arange(start, start + T).expand(B, T)
    cosine, sine = llama.LlamaRotaryEmbedding(config)(vectors, position_ids)
    halves = torch.cat([torch.arange(0, K, 2), torch.arange(1, K, 2)])  # they pair the halves
    theirs, _ = llama.apply_rotary_pos_emb(vectors[..., halves], vectors, cosine, sine)
    torch.testing.assert_close(got[..., halves], theirs)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_rotary_with_grouped_heads_matches_llama(kv_heads: int) -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    heads, K, T = 4, 6, 5
    width = heads * K
    config = llama.LlamaConfig(
        hidden_size=width,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        attention_bias=True,
        attn_implementation="eager",
    )
    theirs = llama.LlamaAttention(config, 0).double().eval()
    ours = moved(MultiHeadAttention(width, heads, kv_heads=kv_heads, positions=RotaryPositions(K)))
    halves = torch.cat([torch.arange(0, K, 2), torch.arange(1, K, 2)])

    def reordered(rows: Tensor) -> Tensor:
        return rows.unflatten(0, (-1, K))[:, halves].flatten(0, 1)

    with torch.no_grad():
        for name in ("weight", "bias"):
            keys, values = getattr(ours.key_value, name).chunk(2)
            getattr(theirs.q_proj, name).copy_(reordered(getattr(ours.query, name)))
            getattr(theirs.k_proj, name).copy_(reordered(keys))
            getattr(theirs.v_proj, name).copy_(values)
            getattr(theirs.o_proj, name).copy_(getattr(ours.out, name))
    x = random(2, T, width)
    future = torch.full((T, T), -math.inf, dtype=torch.float64).triu(1)[None, None]
    codes = llama.LlamaRotaryEmbedding(config)(x, torch.arange(T)[None])
    expected, _ = theirs(x, codes, future)
    got = ours(x, ours.project_kv(x), Mask.causal())
    # their angles and ours are of float32, and differ in its last digit
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


# relative


@given(st.integers(1, 5), st.integers(0, 4), st.integers(0, 3), seeds)
@settings(max_examples=15)
def test_relative_scores_match_equation(T: int, past: int, ahead: int, seed: int) -> None:
    """((q + u)ᵀ k + (q + v)ᵀ W_r p_{i-j}) / √K, pair by pair."""
    torch.manual_seed(seed)
    positions, K = moved(RelativePositions(WIDTH, HEADS)), WIDTH // HEADS
    S = T + past + ahead
    query, keys = random(2, HEADS, T, K), random(2, HEADS, S, K)
    with torch.no_grad():
        got = ScaledDotScore()(positions.add_content_bias(query), keys) + positions.bias(
            query, S, past
        )
    rates, W_r = positions.codes.rates.tolist(), positions.project.weight.detach()
    for i in range(T):
        for j in range(S):
            offset = past + i - j
            code = [f(offset * rate) for rate in rates for f in (math.sin, math.cos)]
            distance = (W_r @ torch.tensor(code, dtype=torch.float64)).view(HEADS, K)
            for b in range(2):
                for h in range(HEADS):
                    q, u, v = query[b, h, i], positions.content[h, 0], positions.distance[h, 0]
                    expected = (q + u) @ keys[b, h, j] + (q + v) @ distance[h]
                    expected = expected.detach() / math.sqrt(K)
                    torch.testing.assert_close(got[b, h, i, j], expected)


@given(st.integers(1, 6), st.integers(0, 5))
@settings(max_examples=30)
def test_relative_shift_matches_equation_without_copy(T: int, past: int) -> None:
    S = T + past
    table = random(2, 3, T, T + S)
    got = relative_shift(table, S)
    for i in range(T):
        assert torch.equal(got[:, :, i], table[:, :, i, T - i : T - i + S])
    assert got.untyped_storage().data_ptr() == table.untyped_storage().data_ptr()


@given(st.integers(1, 6), st.integers(0, 5))
@settings(max_examples=30)
def test_relative_shift_matches_xlnet(T: int, past: int) -> None:
    xlnet = pytest.importorskip("transformers.models.xlnet.modeling_xlnet")
    S = T + past
    table = random(2, 3, T, T + S)
    theirs = xlnet.XLNetRelativeAttention.rel_shift_bnij(table, klen=S)
    assert torch.equal(relative_shift(table, S), theirs)


def test_relative_attention_matches_xlnet() -> None:
    """XLNet's attention core: scores with both biases, shift, softmax and values."""
    xlnet = pytest.importorskip("transformers.models.xlnet.modeling_xlnet")
    B, T, S, K = 2, 4, 7, WIDTH // HEADS
    config = xlnet.XLNetConfig(d_model=WIDTH, n_head=HEADS, n_layer=1, d_inner=8, dropout=0)
    theirs = xlnet.XLNetRelativeAttention(config).double().eval()
    positions = moved(RelativePositions(WIDTH, HEADS))
    query, keys, values = random(B, HEADS, T, K), random(B, HEADS, S, K), random(B, HEADS, S, K)
    rates = positions.codes.rates
    codes = xlnet.XLNetModel.positional_embedding(torch.arange(S, -T, -1).double(), rates)[:, 0]
    # they have all sines first, we take turns
    order = torch.cat([torch.arange(0, WIDTH, 2), torch.arange(1, WIDTH, 2)])
    distances = codes @ positions.project.weight.detach()[:, order].T
    with torch.no_grad():
        theirs.r_w_bias.copy_(positions.content[:, 0])
        theirs.r_r_bias.copy_(positions.distance[:, 0])
        expected = theirs.rel_attn_core(
            *(x.permute(2, 0, 1, 3) for x in (query, keys, values)),
            distances.view(T + S, 1, HEADS, K).expand(-1, B, -1, -1),
        )
        got = Attention(ScaledDotScore(), positions)(query, keys, values, Mask())
    torch.testing.assert_close(got, expected.permute(1, 2, 0, 3))


def test_relative_scores_gradcheck() -> None:
    positions = moved(RelativePositions(4, 2))
    names, values = zip(*positions.named_parameters(), strict=True)
    assert sorted(names) == ["content", "distance", "project.weight"]
    query, keys = random(1, 2, 3, 2).requires_grad_(), random(1, 2, 4, 2).requires_grad_()
    attention = Attention(ScaledDotScore(), positions)

    def run(q: Tensor, k: Tensor, *weights: Tensor) -> Tensor:
        own = {f"positions.{name}": w for name, w in zip(names, weights, strict=True)}
        return torch.func.functional_call(attention, own, (q, k, k, Mask.causal()))

    assert torch.autograd.gradcheck(run, (query, keys, *values))


# all of them


@every_kind
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
@given(cuts=st.lists(st.integers(1, 3), min_size=1, max_size=4), seed=seeds, grad=st.booleans())
@settings(max_examples=10)
def test_attention_positions_steps_with_cache_match_whole_sequence(
    kind: str, score: str, cuts: list[int], seed: int, grad: bool
) -> None:
    torch.manual_seed(seed)
    module, x = layer(kind, kv_heads=1, score=score), random(2, sum(cuts), WIDTH)
    with torch.set_grad_enabled(grad):
        for mask in (Mask.causal(), Mask.causal_window(2)):
            whole = module(x, module.project_kv(x), mask)
            past: KVCache | None = None
            parts = []
            for part in x.split(cuts, dim=1):
                past = extend_cache(past, module.project_kv(part, past.length if past else 0))
                parts.append(module(part, past, mask))
            torch.testing.assert_close(torch.cat(parts, dim=1), whole)


@every_kind
def test_attention_positions_are_invariant_to_padding(kind: str) -> None:
    module, x, lengths = layer(kind), random(2, 5, WIDTH), torch.tensor([5, 3])
    padded = torch.cat([x, 9 * random(2, 4, WIDTH)], dim=1)
    short = module(x, module.project_kv(x), Mask.lengths(lengths))
    long = module(padded, module.project_kv(padded), Mask.lengths(lengths))[:, :5]
    torch.testing.assert_close(long, short)
    alone = module(x[1:, :3], module.project_kv(x[1:, :3]), Mask())
    torch.testing.assert_close(short[1:, :3], alone)


@every_kind
@given(st.integers(1, 3), st.integers(2, 3), st.integers(1, 3), st.integers(0, 4), seeds)
@settings(max_examples=15)
def test_attention_positions_with_shared_memory_use_query_positions(
    kind: str, B: int, N: int, T: int, past: int, seed: int
) -> None:
    torch.manual_seed(seed)
    positions, K, S = KINDS[kind](), WIDTH // HEADS, T + past
    attention = Attention(ScaledDotScore(), moved(positions))
    query = random(B * N, T, HEADS, K).transpose(1, 2)
    keys, values = random(B, 1, S, K), random(B, 1, S, K)
    lengths = torch.randint(1, S + 1, (B,))
    each = torch.arange(B).repeat_interleave(N)
    for mask, repeated in (
        (Mask.causal(), Mask.causal()),
        (Mask.lengths(lengths), Mask.lengths(lengths[each])),
        (
            Mask.causal_window(1) & Mask.lengths(lengths),
            Mask.causal_window(1) & Mask.lengths(lengths[each]),
        ),
    ):
        got = attend_shared_memory(attention, query, KVCache(keys, values, S), mask)
        expected = attention(query, keys[each], values[each], repeated)
        torch.testing.assert_close(got, expected)


@given(st.permutations(range(6)), seeds)
@settings(max_examples=20)
def test_self_attention_without_positions_is_permutation_equivariant(
    order: list[int], seed: int
) -> None:
    torch.manual_seed(seed)
    x = random(2, 6, WIDTH)
    module = layer("none")
    got = module(x[:, order], module.project_kv(x[:, order]), Mask())
    torch.testing.assert_close(got, module(x, module.project_kv(x), Mask())[:, order])


@pytest.mark.parametrize("kind", ["rotary", "relative"])
def test_self_attention_with_positions_is_not_permutation_equivariant(kind: str) -> None:
    module, x = layer(kind), random(2, 6, WIDTH)
    order = [1, 0, 2, 3, 4, 5]
    got = module(x[:, order], module.project_kv(x[:, order]), Mask())
    difference = (got - module(x, module.project_kv(x), Mask())[:, order]).detach().abs().max()
    assert float(difference) > 1e-3


@pytest.mark.parametrize("kind", ["rotary", "relative"])
@given(st.integers(0, 200), seeds)
@settings(max_examples=10)
def test_attention_positions_depend_on_distance_only(kind: str, start: int, seed: int) -> None:
    """Compare the same tokens later in the sequence, with all earlier keys hidden."""
    torch.manual_seed(seed)
    module, x = layer(kind), random(1, 4, WIDTH)
    before = random(1, start, WIDTH)
    ids = torch.tensor([[0] * start + [1] * 4])
    memory = module.project_kv(torch.cat([before, x], dim=1))
    got = module(x, memory, Mask.causal() & Mask.segments(ids[:, start:], ids))
    torch.testing.assert_close(got, module(x, module.project_kv(x), Mask.causal()))


@every_kind
@pytest.mark.parametrize("mask", [Mask(), Mask.causal(), Mask.lengths(torch.tensor([0, 3]))])
def test_attention_positions_fused_matches_reference_where_possible(
    kind: str, mask: Mask, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, x = layer(kind, kv_heads=1), random(2, 5, WIDTH)
    calls = []
    real = F.scaled_dot_product_attention

    def noted(*inputs: Any, **more: Any) -> Tensor:
        calls.append(more)
        return real(*inputs, **more)

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    trained = module(x, module.project_kv(x), mask)
    assert len(calls) == (0 if kind == "relative" else 1)
    with torch.no_grad():
        calls.clear()
        fused = module(x, module.project_kv(x), mask)
        assert len(calls) == 1
        monkeypatch.setattr(module.attention, "forward", module.attention.reference)
        reference = module(x, module.project_kv(x), mask)
    torch.testing.assert_close(fused, reference)
    torch.testing.assert_close(trained, reference)
    assert bool(fused.isfinite().all())


@every_kind
def test_attention_positions_under_autocast(kind: str) -> None:
    module, x = layer(kind).float(), torch.randn(2, 5, WIDTH)
    for mode in (torch.enable_grad, torch.no_grad):
        with mode(), torch.autocast("cpu", torch.bfloat16):
            rough = module(x, module.project_kv(x), Mask.causal())
        exact = module(x, module.project_kv(x), Mask.causal())
        torch.testing.assert_close(rough.float(), exact, rtol=0.1, atol=0.1)


def test_attention_positions_error_messages() -> None:
    with pytest.raises(
        ValueError, match="got a head width of 3; expected an even one, .* try another number of"
    ):
        RotaryPositions(3)
    assert not RotaryPositions(4).state_dict()  # nothing to be learned, nothing to be kept
