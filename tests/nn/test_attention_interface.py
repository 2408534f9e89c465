"""Calls that users of other libraries try first: each works or is refused with the right call."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.inspection.attention import capture_attention
from saccade.nn import (
    Attention,
    AttentionLayer,
    KVCache,
    Mask,
    MultiHeadAttention,
    extend_cache,
    make_score,
)
from saccade.nn.hard_attention import HardAttention
from saccade.nn.local_attention import LocalAttention, with_centre
from saccade.nn.positional_encoding import RotaryPositions

B, T, S, WIDTH = 2, 5, 7, 8
LENGTHS = [5, 3]


@pytest.fixture
def attention() -> MultiHeadAttention:
    torch.manual_seed(0)
    return MultiHeadAttention(WIDTH, heads=2)


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(B, T, WIDTH)


@pytest.fixture
def memory() -> Tensor:
    torch.manual_seed(2)
    return torch.randn(B, S, WIDTH)


# --- self-attention, cross-attention, cache -------------------------------------------------------


def test_attention_of_x_alone_is_self_attention(attention: MultiHeadAttention, x: Tensor) -> None:
    expected = attention(x, attention.project_kv(x), Mask())
    assert torch.equal(attention(x), expected)
    assert torch.equal(attention(x, x), expected)
    assert torch.equal(attention(x, None, None), expected)


def test_attention_to_a_memory_tensor_is_cross_attention(
    attention: MultiHeadAttention, x: Tensor, memory: Tensor
) -> None:
    assert torch.equal(attention(x, memory), attention(x, attention.project_kv(memory), None))
    torch.testing.assert_close(attention(x, memory), as_torch(attention)(x, memory, memory)[0])


def as_torch(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(WIDTH, ours.heads, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())
    return theirs


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_attention_with_a_cache_equals_the_whole_sequence(
    x: Tensor, rotary: bool, grad: bool
) -> None:
    positions = RotaryPositions(WIDTH // 2) if rotary else None
    attention = MultiHeadAttention(WIDTH, heads=2, positions=positions)
    whole = attention(x, mask=Mask.causal())
    cache: KVCache | None = None
    steps = []
    with torch.set_grad_enabled(grad):
        for part in x.split([2, 1, 2], dim=1):
            steps.append(attention(part, mask=Mask.causal(), cache=cache))
            cache = attention.extend(part, cache)
    torch.testing.assert_close(torch.cat(steps, dim=1), whole)


def test_attention_extend_is_project_and_extend_cache(
    attention: MultiHeadAttention, x: Tensor
) -> None:
    first = attention.extend(x[:, :2])
    second = attention.extend(x[:, 2:], first)
    expected = extend_cache(attention.project_kv(x[:, :2]), attention.project_kv(x[:, 2:], 2))
    assert torch.equal(second.filled()[0], expected.filled()[0])
    assert torch.equal(second.filled()[1], expected.filled()[1])


# --- masks ----------------------------------------------------------------------------------------


def test_attention_takes_boolean_tensors_as_masks(
    attention: MultiHeadAttention, x: Tensor, memory: Tensor
) -> None:
    allowed = torch.rand(B, T, S) < 0.6
    expected = attention(x, memory, Mask.from_tensor(allowed))
    assert torch.equal(attention(x, memory, allowed), expected)
    assert torch.equal(attention(x, memory, allowed[:, None]), expected)
    both_heads = allowed[:, None].expand(B, 2, T, S)
    torch.testing.assert_close(attention(x, memory, both_heads), expected)
    shared = allowed[0]
    assert torch.equal(
        attention(x, memory, shared), attention(x, memory, shared.expand(B, T, S).clone())
    )
    causal = torch.ones(T, T, dtype=torch.bool).tril()
    torch.testing.assert_close(attention(x, mask=causal), attention(x, mask=Mask.causal()))


def test_attention_mask_for_each_head_equals_torch(
    attention: MultiHeadAttention, x: Tensor, memory: Tensor
) -> None:
    allowed = torch.rand(B, 2, T, S) < 0.7
    allowed[..., 0] = True  # torch returns NaN for a query without keys
    theirs = as_torch(attention)(x, memory, memory, attn_mask=~allowed.flatten(0, 1))[0]
    torch.testing.assert_close(attention(x, memory, allowed), theirs)


def test_attention_takes_lengths_as_masks(attention: MultiHeadAttention, x: Tensor) -> None:
    lengths = torch.tensor(LENGTHS)
    expected = attention(x, mask=Mask.lengths(lengths))
    for mask in (LENGTHS, tuple(LENGTHS), lengths, Mask.lengths(LENGTHS), lengths.int()):
        assert torch.equal(attention(x, mask=mask), expected)
    padding = torch.arange(T) >= lengths[:, None]
    theirs = as_torch(attention)(x, x, x, key_padding_mask=padding)[0]
    torch.testing.assert_close(expected, theirs)


def masked_softmax(scores: list[float], length: int) -> list[float]:
    """Return the softmax over the first `length` scores, 0 beyond: the notes' equation by loops."""
    total = sum(math.exp(score) for score in scores[:length])
    return [math.exp(score) / total if j < length else 0.0 for j, score in enumerate(scores)]


@given(
    st.sampled_from(["fused", "additive", "local", "hard"]),
    st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=3),
    st.integers(0, 2**31),
)
def test_lengths_for_each_query_match_masked_softmax_by_loops(
    kind: str, lengths: list[list[int]], seed: int
) -> None:
    """The result, its reference and the captured weights agree in every attention."""
    torch.manual_seed(seed)
    rows = len(lengths)
    score = make_score("additive" if kind == "additive" else "scaled_dot", 2).double()
    query, key, value = (torch.randn(rows, 1, n, 2, dtype=torch.float64) for n in (3, 4, 4))
    keys, asked = score.prepare(key), query
    attention = Attention(score)
    if kind == "local":  # the window has every key in it
        attention = LocalAttention(score, window=9)
        asked = with_centre(query, torch.zeros(rows, 3, dtype=torch.float64))
    if kind == "hard":
        attention = HardAttention(score)
    mask = Mask.lengths(lengths)
    with capture_attention(attention.eval()) as recorder, torch.no_grad():
        result = attention(asked, keys, value, mask)
    scores = score.compare(query, keys).detach()
    for row in range(rows):
        for t in range(3):
            length = lengths[row][t]
            expected = masked_softmax(scores[row, 0, t].tolist(), length)
            if kind == "hard" and length:
                expected = [float(weight == max(expected)) for weight in expected]
            assert recorder.weights("")[row, 0, t].tolist() == pytest.approx(expected, abs=1e-12)
            for k in range(2):
                total = sum(w * float(value[row, 0, j, k]) for j, w in enumerate(expected))
                assert float(result[row, 0, t, k]) == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("kind", [Attention, HardAttention, lambda s: LocalAttention(s, 2)])
def test_attention_refuses_lengths_of_another_shape(kind: Any) -> None:
    """A table that the batch does not fit is named, not broadcast."""
    attention, x = kind(make_score("dot", 2)), torch.randn(2, 1, 3, 2)
    query = with_centre(x, torch.zeros(2, 3)) if isinstance(attention, LocalAttention) else x
    for lengths, words in (
        (torch.ones(2, 4).long(), "a mask for 4 queries; expected 3"),
        (torch.ones(3, 3).long(), "a mask for 3 rows; expected 2"),
        (torch.ones(1, 3).long(), "a mask for 1 rows; expected 2"),
        (torch.ones(3).long(), "a mask for 3 rows; expected 2"),
    ):
        for call in (lambda m: attention(query, x, x, m), lambda m: attention.weights(query, x, m)):
            with pytest.raises(ValueError, match=words):
                call(Mask.lengths(lengths))


def test_attention_takes_lengths_for_each_query(attention: MultiHeadAttention, x: Tensor) -> None:
    causal = torch.arange(1, T + 1).expand(B, T)
    expected = attention(x, mask=Mask.causal())
    torch.testing.assert_close(attention(x, mask=causal), expected)
    torch.testing.assert_close(attention(x, mask=Mask.lengths(causal.tolist())), expected)
    cache = attention.extend(x[:, :2])  # the queries are the last three of five positions
    torch.testing.assert_close(
        attention(x[:, 2:], mask=causal[:, 2:], cache=cache), expected[:, 2:]
    )


def test_attention_without_allowed_keys_gives_zeros_forward_and_backward(
    attention: MultiHeadAttention, x: Tensor
) -> None:
    allowed = torch.ones(B, T, T, dtype=torch.bool)
    allowed[0, 2] = False
    nn.init.zeros_(attention.out.bias)
    x.requires_grad_()
    out = attention(x, mask=allowed)
    assert not out[0, 2].any() and out[0, 1].any()
    (gradient,) = torch.autograd.grad(out[0, 2].sum(), x, retain_graph=True)
    assert not gradient.any()
    assert torch.autograd.grad(out.sum(), x)[0].isfinite().all()
    assert not attention(x, mask=~Mask()).any()


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda a, x, m: a(x, x, x),
            r"got a torch.float32 .* try .* attention\(x, memory\)",
        ),
        (lambda a, x, m: a(x, m, torch.zeros(T, S)), r"expected .*True = may attend.* == 0"),
        (lambda a, x, m: a(x[0]), r"got x of shape \(5, 8\); expected \(batch, .*try x\[None\]"),
        (lambda a, x, m: a(x, m[0]), r"got memory of shape \(7, 8\); .*try memory\[None\]"),
        (lambda a, x, m: a(x[None]), r"got x of shape \(1, 2, 5, 8\); expected \(batch, length, 8"),
        (lambda a, x, m: a(x[..., :6]), r"got x of width 6; expected 8; try nn.Linear\(6, 8\)"),
        (lambda a, x, m: a(x, m[..., :6]), r"got memory of width 6; expected 8"),
        (lambda a, x, m: a(x, mask=[5, 3, 2]), r"got a mask for 3 rows; expected 2 \(batch 2"),
        (lambda a, x, m: a(x, m, [5]), r"got a mask for 1 rows; expected 2"),
        (
            lambda a, x, m: a(x, m, torch.ones(T, T, dtype=torch.bool)),
            r"got a mask for 5 keys; expected 7 \(batch 2, 5 queries, 7 keys\)",
        ),
        (
            lambda a, x, m: a(x, mask=torch.ones(3, T, T, dtype=torch.bool)),
            r"got a mask for 3 rows; expected 2",
        ),
        (lambda a, x, m: a(x, mask=torch.ones(B, 4).long()), r"for 4 queries; expected 5"),
        (lambda a, x, m: a(x, m[:1]), r"got 2 rows of x and 1 of the memory; .*project_kv"),
        (
            lambda a, x, m: a(x, m, cache=a.project_kv(x)),
            r"got a memory and a cache; expected one of the two",
        ),
    ],
)
def test_attention_refuses_wrong_inputs_with_a_hint(
    call: object, message: str, attention: MultiHeadAttention, x: Tensor, memory: Tensor
) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=message):
        call(attention, x, memory)


def test_attention_of_another_memory_width_needs_a_memory(x: Tensor) -> None:
    attention = MultiHeadAttention(WIDTH, 2, kv_width=6)
    with pytest.raises(ValueError, match=r"got no memory, .* expected a memory of \(B, S, 6\)"):
        attention(x)
    assert attention(x, torch.randn(B, S, 6)).shape == x.shape


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("need_weights", "capture_attention"),
        ("attn_mask", "mask=, where True means may attend"),
        ("key_padding_mask", "Mask.lengths"),
        ("is_causal", r"Mask.causal\(\)"),
        ("value", r"attention\(x, memory\)"),
        ("dropout", "expected x, memory, mask or cache"),
    ],
)
def test_attention_names_the_equivalent_of_torch_arguments(
    argument: str, hint: str, attention: MultiHeadAttention, x: Tensor
) -> None:
    with pytest.raises(TypeError, match=f"got the argument '{argument}'; .*{hint}"):
        attention(x, **{argument: True})


@pytest.mark.parametrize("argument", ["embed_dim", "num_heads", "bias"])
def test_attention_constructor_refuses_torch_arguments_by_name(argument: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{argument}'"):
        MultiHeadAttention(8, 2, **{argument: 1})


def test_attention_weights_come_from_capture(attention: MultiHeadAttention, x: Tensor) -> None:
    with capture_attention(attention) as recorder:
        attention(x, mask=LENGTHS)
    weights = recorder.weights("attention")
    theirs = as_torch(attention)(
        x,
        x,
        x,
        key_padding_mask=torch.arange(T) >= torch.tensor(LENGTHS)[:, None],
        average_attn_weights=False,
    )[1]
    torch.testing.assert_close(weights, theirs)


def test_attention_layer_takes_the_same_masks(x: Tensor) -> None:
    layer = AttentionLayer(WIDTH, WIDTH, 4)
    expected = layer(x, mask=Mask.lengths(LENGTHS))
    assert torch.equal(layer(x, mask=LENGTHS), expected)
    allowed = (torch.arange(T) < torch.tensor(LENGTHS)[:, None])[:, None].expand(B, T, T)
    torch.testing.assert_close(layer(x, mask=allowed), expected)
    with pytest.raises(ValueError, match="got a mask for 3 rows; expected 2"):
        layer(x, mask=[1, 2, 3])
