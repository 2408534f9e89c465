"""Attention capture: the recorded weights are right, and the results are unchanged."""

import pytest
import torch

from saccade.inspection.attention import AttentionRecorder, capture_attention
from saccade.models import (
    Bahdanau,
    BahdanauConfig,
    Seq2Seq,
    Seq2SeqConfig,
    Transformer,
    TransformerConfig,
)
from saccade.nn import Attention, Mask, ScaledDotScore

VOCAB, B, S, T = 9, 3, 5, 4
SIZES = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB, "width": 8}
LENGTHS = torch.tensor([5, 2, 3])
MODELS = {
    "bahdanau": lambda: Bahdanau(BahdanauConfig(**SIZES)),
    "bahdanau-lstm": lambda: Bahdanau(BahdanauConfig(**SIZES, cell="lstm", depth=2)),
    **{
        f"transformer-{score}": (
            lambda score=score: Transformer(
                TransformerConfig(**SIZES, heads=2, depth=2, score=score)
            )
        )
        for score in ("scaled_dot", "dot", "additive")
    },
}
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture
def read():
    """Random source and target ids."""
    return torch.randint(VOCAB, (B, S)), torch.randint(VOCAB, (B, T))


def made(name):
    return MODELS[name]().double().eval()


def run(model, read):
    source, target = read
    return model.step(target, model.init_state(model.encode(source, LENGTHS)))[0]


def watched(model, read):
    with torch.no_grad(), capture_attention(model) as seen:
        run(model, read)
    return seen


def test_capture_names_every_attention_of_a_transformer(read):
    seen = watched(made("transformer-scaled_dot"), read)
    expected = {}
    for layer in (0, 1):
        expected[f"encoder.{layer}.self_attention.attention"] = (B, 2, S, S)
        expected[f"decoder.{layer}.self_attention.attention"] = (B, 2, T, T)
        expected[f"decoder.{layer}.source_attention.attention"] = (B, 2, T, S)
    assert {name: tuple(seen.weights(name).shape) for name in seen.names()} == expected
    assert all(len(calls) == 1 for calls in seen.calls.values())


@pytest.mark.parametrize("name", ["bahdanau", "bahdanau-lstm"])
def test_capture_concatenates_the_steps_of_a_recurrent_decoder(name, read):
    seen = watched(made(name), read)
    assert seen.names() == ["attention"]
    calls = seen.calls["attention"]
    assert [tuple(call.shape) for call in calls] == [(B, 1, 1, S)] * T
    assert seen.weights("attention").shape == (B, 1, T, S)
    for t, call in enumerate(calls):
        assert torch.equal(seen.weights("attention")[:, :, t], call[:, :, 0])


def test_capture_of_a_model_without_attention_is_empty(read):
    model = Seq2Seq(Seq2SeqConfig(**SIZES)).double().eval()
    assert watched(model, read).names() == []


@every_model
def test_capture_rows_sum_to_one_over_unmasked_keys(name, read):
    seen = watched(made(name), read)
    for attention in seen.names():
        weights = seen.weights(attention)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert (weights >= 0).all()
        if weights.shape[-1] == S:  # keys are places of the source
            for row, length in enumerate(LENGTHS.tolist()):
                assert (weights[row, ..., length:] == 0).all()
                assert (weights[row, ..., :length] > 0).all()
        else:
            assert (weights.triu(1) == 0).all()


@every_model
def test_capture_leaves_results_bit_identical(name, read):
    model = made(name)
    before = run(model, read)
    slopes = torch.autograd.grad(before.square().sum(), list(model.parameters()))
    with capture_attention(model):
        during = run(model, read)
        watched_slopes = torch.autograd.grad(during.square().sum(), list(model.parameters()))
    assert torch.equal(before, during)
    assert all(torch.equal(a, b) for a, b in zip(slopes, watched_slopes, strict=True))
    assert torch.equal(before, run(model, read))


def test_capture_records_no_autograd_graph(read):
    model = made("bahdanau")
    with capture_attention(model) as seen:
        run(model, read)
    assert not seen.weights("attention").requires_grad


@every_model
def test_capture_of_incremental_decoding_equals_one_pass(name, read):
    model = made(name)
    one_pass = watched(model, read)
    source, target = read
    with torch.no_grad(), capture_attention(model) as seen:
        state = model.init_state(model.encode(source, LENGTHS))
        for t in range(T):
            _, state = model.step(target[:, t : t + 1], state)
    assert seen.names() == one_pass.names()
    for attention in seen.names():
        torch.testing.assert_close(
            seen.weights(attention), one_pass.weights(attention), rtol=0, atol=1e-12
        )


def test_capture_of_a_transformer_equals_the_equation(read):
    """softmax(q kᵀ / √K) of the first encoder layer, a place and a head at a time."""
    model = made("transformer-scaled_dot")
    weights = watched(model, read).weights("encoder.0.self_attention.attention")
    block = model.encoder[0]
    with torch.no_grad():
        x = block.around_attention.norm(model.source(read[0]))
        query = block.self_attention.query(x)
        key = block.self_attention.key_value(x)[..., :8]
    for row, length in enumerate(LENGTHS.tolist()):
        for head, own in enumerate((slice(0, 4), slice(4, 8))):
            for t in range(S):
                scores = torch.stack(
                    [query[row, t, own] @ key[row, s, own] / 2 for s in range(length)]
                )
                shares = scores.exp() / scores.exp().sum()
                torch.testing.assert_close(weights[row, head, t, :length], shares)


def test_capture_of_bahdanau_equals_the_equation(read):
    """softmax wᵀ tanh(W_q s + W_k h) at the first step, from the state the encoder left."""
    model = made("bahdanau")
    weights = watched(model, read).weights("attention")
    score = model.attention.score
    with torch.no_grad():
        annotations = model.encoder(model.source(read[0]), LENGTHS)
        forward, backward = annotations.last_state.unbind(1)
        state = model.bridge(torch.cat([forward, backward], dim=-1)).tanh()
        for row, length in enumerate(LENGTHS.tolist()):
            scores = torch.stack(
                [
                    score.weight
                    @ torch.tanh(
                        score.query.weight @ state[row]
                        + score.key.weight @ annotations.outputs[row, s]
                    )
                    for s in range(length)
                ]
            )
            shares = scores.exp() / scores.exp().sum()
            torch.testing.assert_close(weights[row, 0, 0, :length], shares)


def hooks(model):
    return [hook for module in model.modules() for hook in module._forward_hooks.values()]


def test_capture_removes_its_hooks(read):
    model = made("transformer-scaled_dot")
    with capture_attention(model) as seen:
        assert len(hooks(model)) == 6
    assert hooks(model) == []
    run(model, read)
    assert seen.names() == []


def test_capture_removes_its_hooks_after_an_error():
    model = made("bahdanau")
    with pytest.raises(RuntimeError, match="in the middle"), capture_attention(model):
        raise RuntimeError("in the middle")
    assert hooks(model) == []


def test_capture_can_be_nested(read):
    model = made("bahdanau")
    with torch.no_grad(), capture_attention(model) as outer:
        run(model, read)
        with capture_attention(model) as inner:
            run(model, read)
    assert len(outer.calls["attention"]) == 2 * T
    assert len(inner.calls["attention"]) == T


def test_capture_of_a_single_attention_module():
    attention = Attention(ScaledDotScore())
    with capture_attention(attention) as seen:
        attention(torch.randn(1, 1, 2, 4), torch.randn(1, 1, 3, 4), torch.randn(1, 1, 3, 4), Mask())
    assert seen.weights("").shape == (1, 1, 2, 3)


def test_recorder_pads_earlier_calls_with_zeros():
    seen = AttentionRecorder()
    seen.calls["a"] = [torch.ones(1, 1, 1, 1), torch.full((1, 1, 1, 2), 0.5)]
    assert seen.weights("a")[0, 0].tolist() == [[1.0, 0.0], [0.5, 0.5]]
