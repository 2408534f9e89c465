from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.nn import (
    ATTENTION_SCORES,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    KVCache,
    Mask,
    MultiHeadAttention,
    Residual,
    Score,
    make_score,
)

WIDTH, HEADS, HIDDEN = 8, 2, 12
seeds = st.integers(0, 2**31)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def made(
    kind: type, norm_first: bool, score: Score | None = None, cross_score: Score | None = None
) -> Any:
    """Return a block in float64 whose biases and gains are not the initial zeros and ones."""
    attentions = [MultiHeadAttention(WIDTH, HEADS, score=score)]
    if kind is DecoderBlock:
        attentions.append(MultiHeadAttention(WIDTH, HEADS, score=cross_score))
    block = kind(*attentions, FeedForward(WIDTH, HIDDEN), norm_first=norm_first).double()
    for parameter in block.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter)
    return block


def hand_over(ours: MultiHeadAttention, other: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        other.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        other.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    other.out_proj.load_state_dict(ours.out.state_dict())


def their_encoder(ours: EncoderBlock, norm_first: bool) -> nn.TransformerEncoderLayer:
    """Return torch's layer with our weights; in training mode, so that it takes no fast path."""
    other = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=norm_first
    ).double()
    hand_over(ours.self_attention, other.self_attn)
    other.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    other.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    other.norm1.load_state_dict(ours.around_attention.norm.state_dict())
    other.norm2.load_state_dict(ours.around_feed_forward.norm.state_dict())
    return other.train()


def their_decoder(ours: DecoderBlock, norm_first: bool) -> nn.TransformerDecoderLayer:
    other = nn.TransformerDecoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=norm_first
    ).double()
    hand_over(ours.self_attention, other.self_attn)
    hand_over(ours.source_attention, other.multihead_attn)
    other.linear1.load_state_dict(ours.feed_forward.inner.state_dict())
    other.linear2.load_state_dict(ours.feed_forward.outer.state_dict())
    other.norm1.load_state_dict(ours.around_attention.norm.state_dict())
    other.norm2.load_state_dict(ours.around_source.norm.state_dict())
    other.norm3.load_state_dict(ours.around_feed_forward.norm.state_dict())
    return other.train()


def same_slopes(mine: Tensor, other: Tensor, leaves: list[Tensor]) -> None:
    slope = torch.randn_like(mine)
    for one, two in zip(
        torch.autograd.grad(mine, leaves, slope),
        torch.autograd.grad(other, leaves, slope),
        strict=True,
    ):
        torch.testing.assert_close(one, two)


@settings(max_examples=25)
@given(st.booleans(), st.booleans(), st.integers(1, 3), st.integers(1, 6), seeds)
def test_encoder_block_matches_torch(
    norm_first: bool, causal: bool, B: int, T: int, seed: int
) -> None:
    torch.manual_seed(seed)
    block = made(EncoderBlock, norm_first)
    x, lengths = random(B, T, WIDTH).requires_grad_(), torch.randint(1, T + 1, (B,))
    mask = Mask.lengths(lengths) & (Mask.causal() if causal else Mask())
    expected = their_encoder(block, norm_first)(
        x,
        src_mask=torch.ones(T, T, dtype=torch.bool).triu(1) if causal else None,
        src_key_padding_mask=torch.arange(T) >= lengths[:, None],
    )
    got = block(x, mask)
    torch.testing.assert_close(got, expected)
    same_slopes(got, expected, [x])


@settings(max_examples=25)
@given(st.booleans(), st.integers(1, 3), st.integers(1, 6), st.integers(1, 5), seeds)
def test_decoder_block_matches_torch(norm_first: bool, B: int, T: int, S: int, seed: int) -> None:
    torch.manual_seed(seed)
    block = made(DecoderBlock, norm_first)
    x, source = random(B, T, WIDTH).requires_grad_(), random(B, S, WIDTH).requires_grad_()
    lengths = torch.randint(1, S + 1, (B,))
    expected = their_decoder(block, norm_first)(
        x,
        source,
        tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
        memory_key_padding_mask=torch.arange(S) >= lengths[:, None],
    )
    got = block(x, None, block.source_attention.project_kv(source), Mask.lengths(lengths))
    torch.testing.assert_close(got.x, expected)
    same_slopes(got.x, expected, [x, source])


@settings(max_examples=30)
@given(
    st.booleans(),
    st.sampled_from(ATTENTION_SCORES),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.booleans(),
    seeds,
)
def test_decoder_block_steps_with_cache_match_whole(
    norm_first: bool, name: str, pieces: list[int], with_gradients: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    scores = {part: make_score(name, WIDTH // HEADS) for part in ("score", "cross_score")}
    block = made(DecoderBlock, norm_first, **scores)
    x = random(2, sum(pieces), WIDTH)
    source = block.source_attention.project_kv(random(2, 5, WIDTH))
    mask = Mask.lengths(torch.tensor([5, 2]))
    with torch.set_grad_enabled(with_gradients):
        whole = block(x, None, source, mask)
        cache: KVCache | None = None
        found = []
        for piece in x.split(pieces, dim=1):
            out, cache = block(piece, cache, source, mask)
            found.append(out)
    torch.testing.assert_close(torch.cat(found, dim=1), whole.x)
    assert cache is not None and cache.length == sum(pieces)
    for mine, theirs in zip(cache.filled(), whole.cache.filled(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_decoder_block_hypotheses_share_source() -> None:
    block = made(DecoderBlock, True)
    source, lengths = random(2, 4, WIDTH), torch.tensor([4, 1])
    x = random(6, 3, WIDTH)  # three hypotheses of each of two sentences
    got = block(x, None, block.source_attention.project_kv(source), Mask.lengths(lengths))
    repeated = block.source_attention.project_kv(source.repeat_interleave(3, 0))
    expected = block(x, None, repeated, Mask.lengths(lengths.repeat_interleave(3)))
    torch.testing.assert_close(got.x, expected.x)


@pytest.mark.parametrize("norm_first", [True, False])
def test_decoder_block_ignores_future(norm_first: bool) -> None:
    block = made(DecoderBlock, norm_first)
    x = random(1, 5, WIDTH).requires_grad_()
    out = block(x, None, block.source_attention.project_kv(random(1, 3, WIDTH)), Mask()).x
    for t in range(5):
        # not the plain sum: after a norm with one gain that would be a constant
        (slope,) = torch.autograd.grad(out[0, t].square().sum(), x, retain_graph=True)
        assert not slope[0, t + 1 :].any() and bool(slope[0, : t + 1].any(-1).all())


@pytest.mark.parametrize("norm_first", [True, False])
def test_encoder_block_is_invariant_to_padding(norm_first: bool) -> None:
    block = made(EncoderBlock, norm_first)
    x = random(2, 6, WIDTH)
    other = x.clone()
    other[0, 4:] = 1e3
    mask = Mask.lengths(torch.tensor([4, 6]))
    torch.testing.assert_close(block(x, mask)[0, :4], block(other, mask)[0, :4])
    torch.testing.assert_close(block(x, mask)[:1, :4], block(x[:1, :4], Mask()))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("name", ATTENTION_SCORES)
def test_decoder_block_gradcheck(norm_first: bool, name: str) -> None:
    block = made(DecoderBlock, norm_first, score=make_score(name, WIDTH // HEADS))
    mask = Mask.lengths(torch.tensor([2]))

    def run(x: Tensor, source: Tensor) -> Tensor:
        return block(x, None, block.source_attention.project_kv(source), mask).x

    inputs = random(1, 2, WIDTH).requires_grad_(), random(1, 3, WIDTH).requires_grad_()
    assert torch.autograd.gradcheck(run, inputs)


def test_feed_forward_matches_equation() -> None:
    part = FeedForward(3, 5).double()
    x = random(2, 4, 3)
    got = part(x)
    W1, b1, W2, b2 = (p.tolist() for p in (*part.inner.parameters(), *part.outer.parameters()))
    for b in range(2):
        for t in range(4):
            v = x[b, t].tolist()
            inner = [
                max(0.0, sum(w * a for w, a in zip(row, v, strict=True)) + bias)
                for row, bias in zip(W1, b1, strict=True)
            ]
            expected = [
                sum(w * a for w, a in zip(row, inner, strict=True)) + bias
                for row, bias in zip(W2, b2, strict=True)
            ]
            assert got[b, t].tolist() == pytest.approx(expected, abs=1e-12)
    assert torch.autograd.gradcheck(part, (x.requires_grad_(),))


@pytest.mark.parametrize("norm_first", [True, False])
def test_residual_dropout_is_on_the_branch(norm_first: bool) -> None:
    around = Residual(WIDTH, 0.5, norm_first).double()
    sublayer = nn.Linear(WIDTH, WIDTH).double()
    x = random(2, 3, WIDTH)
    torch.manual_seed(5)
    got = around(x, sublayer)
    torch.manual_seed(5)
    if norm_first:
        expected = x + around.dropout(sublayer(around.norm(x)))
    else:
        expected = around.norm(x + around.dropout(sublayer(x)))
    assert torch.equal(got, expected)
    assert not torch.equal(got, around.eval()(x, sublayer))
