"""The Transformer with each choice of positions, window, groups and score keeps every invariant."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import SpecialTokens
from saccade.inference.engine import make_decoder
from saccade.inspection import invariants
from saccade.inspection.attention import capture_attention
from saccade.interop.ctranslate2.export import unsupported_by_ctranslate2
from saccade.models import Transformer, TransformerConfig
from saccade.nn import ACTIVATIONS, ATTENTION_SCORES, POSITIONS, Attention
from saccade.nn.kernels import sliding_window as windows_file

BOS, EOS, VOCAB = 1, 2, 9
SPECIAL_TOKENS = SpecialTokens(BOS, EOS, (0, BOS))
SIZES = {
    "source_vocab_size": VOCAB,
    "target_vocab_size": VOCAB,
    "width": 8,
    "heads": 2,
    "hidden": 12,
}
CHOICES = {
    **{f"{name}": {"positions": name, "depth": 2} for name in ("rotary", "relative")},
    **{f"{name}": {"positions": name} for name in ("sinusoidal", "learned", "none")},
    **{
        f"{name}-window": {"positions": name, "window": 2, "kv_heads": 1}
        for name in ("rotary", "relative", "none")
    },
    "window": {"window": 1, "depth": 2},
    "kv_heads": {"kv_heads": 1, "heads": 4},
    "groups-of-two": {"kv_heads": 2, "heads": 4, "positions": "rotary", "norm_first": False},
    **{f"{name}-score": {"score": name} for name in ATTENTION_SCORES if name != "scaled_dot"},
    "relative-gaussian": {"positions": "relative", "score": "gaussian", "window": 3},
    "rotary-general": {"positions": "rotary", "score": "general", "kv_heads": 1},
}
every_choice = pytest.mark.parametrize("choice", CHOICES)


@pytest.fixture(autouse=True)
def blocks_at_any_length(monkeypatch):
    """Sentences of the tests are short: let even they be cut into blocks."""
    monkeypatch.setattr(windows_file, "MIN_WINDOW_BLOCK", 1)
    monkeypatch.setattr(windows_file, "MIN_WINDOW_GAIN", 1)


def made(choice):
    model = Transformer(TransformerConfig(**{**SIZES, "depth": 1, **CHOICES[choice]}))
    model = model.double().eval()
    with torch.no_grad():  # biases start at nothing, and nothing would be seen of them
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def example(B, S, T, shares=(1.0, 0.5, 0.7)):
    lengths = torch.tensor([max(1, round(share * S)) for share in shares[:B]])
    source, target = torch.randint(VOCAB, (B, S)), torch.randint(VOCAB, (B, T))
    target[:, 0] = BOS
    return invariants.CheckExample(source, lengths, target)


def all_but_compiled(model, read):
    """`all_of` in its order, up to the last, which takes minutes for what these tests try."""
    every = invariants.check_all(model, read, SPECIAL_TOKENS, VOCAB, 3)
    return list(itertools.islice(every, 9))


@every_choice
def test_transformer_invariants_hold(choice):
    findings = all_but_compiled(made(choice), example(3, 7, 5))
    assert len(findings) == 9 and "compiled" not in {
        finding.invariant.split()[0] for finding in findings
    }
    assert all(finding.verdict == "passed" for finding in findings), findings


@every_choice
@given(
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 7),
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=2)
def test_transformer_cache_is_consistent_at_every_size(choice, B, S, T, shares, seed):
    torch.manual_seed(seed)
    model, read = made(choice), example(B, S, T, shares)
    for invariant in (
        invariants.padding_invariance,
        invariants.batch_invariance,
        invariants.cache_consistency,
        invariants.kernel_parity,
    ):
        finding = invariant(model, read)
        assert finding.verdict == "passed", finding


@every_choice
def test_transformer_every_parameter_gets_a_gradient(choice):
    model, (source, lengths, target) = made(choice), example(2, 6, 5)
    logits = invariants._logits(model, source, lengths, target)
    slopes = torch.autograd.grad(
        logits.square().mean(), list(model.parameters()), allow_unused=True
    )
    names = [name for name, _ in model.named_parameters()]
    assert not [
        name for name, slope in zip(names, slopes, strict=True) if slope is None or not slope.any()
    ]


@pytest.mark.parametrize("choice", ["relative-window", "rotary-window", "gaussian-score"])
def test_transformer_gradient_equals_finite_difference(choice):
    model, (source, lengths, target) = made(choice), example(2, 5, 4)
    names, values = zip(*model.named_parameters(), strict=True)

    def run(*weights):
        own = dict(zip(names, weights, strict=True))
        with torch.nn.utils.stateless._reparametrize_module(model, own):
            return invariants._logits(model, source, lengths, target).square().mean()

    own = tuple(value.detach().clone().requires_grad_() for value in values)
    assert torch.autograd.gradcheck(run, own, fast_mode=True, atol=1e-6, rtol=1e-4)


@every_choice
def test_transformer_captured_weights_equal_attention(choice):
    """Weights times values is the result, in every attention, in one call and step by step."""
    model, (source, lengths, target) = made(choice), example(2, 7, 6)
    results = {}

    def note(name):
        def keep(module, inputs, output):
            values = inputs[2]
            times = output.shape[1] // values.shape[1]
            results.setdefault(name, []).append((values.repeat_interleave(times, 1), output))

        return keep

    with torch.no_grad(), capture_attention(model) as seen:
        hooks = [
            module.register_forward_hook(note(name))
            for name, module in model.named_modules()
            if isinstance(module, Attention)
        ]
        invariants._logits(model, source, lengths, target)
        state = model.init_state(model.encode(source, lengths))
        for t in range(target.shape[1]):
            _, state = model.step(target[:, t : t + 1], state)
    for hook in hooks:
        hook.remove()
    assert len(seen.calls) == 3 * len(model.encoder)
    for name, maps in seen.calls.items():
        for weights, (values, output) in zip(maps, results[name], strict=True):
            torch.testing.assert_close(weights @ values, output, rtol=0, atol=1e-10)
    whole, *steps = seen.calls["decoder.0.self_attention.attention"]
    for t, step in enumerate(steps):  # their maps are the rows of the whole one
        torch.testing.assert_close(step[:, :, 0], whole[:, :, t, : t + 1], rtol=0, atol=1e-10)
        assert not whole[:, :, t, t + 1 :].any()


def test_transformer_window_applies_in_every_layer():
    model, (source, lengths, target) = made("window"), example(2, 9, 8)
    with torch.no_grad(), capture_attention(model) as seen:
        invariants._logits(model, source, lengths, target)
    for name, (table,) in seen.calls.items():
        if "self" not in name:
            continue
        far = torch.arange(table.shape[-1]) - torch.arange(table.shape[-2])[:, None]
        ahead = 1 if name.startswith("encoder") else 0
        assert not table[..., (far < -1) | (far > ahead)].any()
        assert bool((table[0][..., (far >= -1) & (far <= ahead)] > 0).all())


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative", "none"])
def test_transformer_full_window_equals_no_window(positions):
    model = Transformer(TransformerConfig(**SIZES, positions=positions)).double().eval()
    covered = Transformer(TransformerConfig(**SIZES, positions=positions, window=20))
    covered.double().eval().load_state_dict(model.state_dict())
    finding = invariants.same_outputs("a covering window", model, covered, example(3, 7, 6))
    assert finding.passed


def test_transformer_without_positions_ignores_source_order():
    model = made("none")
    source, lengths, target = example(1, 6, 4)
    order = torch.tensor([3, 1, 0, 5, 4, 2])
    one, other = (invariants._logits(model, s, lengths, target) for s in (source, source[:, order]))
    torch.testing.assert_close(one, other)
    for choice in ("rotary", "relative", "sinusoidal"):
        model = made(choice)
        one, other = (
            invariants._logits(model, s, lengths, target) for s in (source, source[:, order])
        )
        assert float((one - other).detach().abs().max()) > 1e-4


def test_transformer_cache_holds_kv_heads_only():
    model, (source, lengths, target) = made("kv_heads"), example(2, 5, 4)
    memory = model.encode(source, lengths)
    assert all(layer.keys.shape == (2, 1, 5, 2) for layer in memory.layers)
    _, state = model.step(target, model.init_state(memory))
    assert all(cache.keys.shape == cache.values.shape == (2, 1, 4, 2) for cache in state.cache)


def test_transformer_setting_names_are_those_of_nn():
    parts = (("positions", POSITIONS), ("score", ATTENTION_SCORES), ("activation", ACTIVATIONS))
    for setting, names in parts:
        annotation = TransformerConfig.model_fields[setting].annotation
        assert sorted(annotation.__args__) == sorted(names)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_transformer_applies_in_every_feed_forward(name):
    model = Transformer(TransformerConfig(**SIZES, depth=2, activation=name)).double().eval()
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    for block in (*model.encoder, *model.decoder):
        inner, outer = block.feed_forward.inner, block.feed_forward.outer
        expected = ACTIVATIONS[name](x @ inner.weight.T + inner.bias) @ outer.weight.T + outer.bias
        torch.testing.assert_close(block.feed_forward(x), expected)
    plain = Transformer(TransformerConfig(**SIZES, depth=2)).double().eval()
    plain.load_state_dict(model.state_dict())  # it has no weights, and relu is the default
    finding = invariants.same_outputs("another activation", model, plain, example(2, 5, 4))
    assert finding.passed == (name == "relu")


def test_transformer_errors_explain_the_setting():
    with pytest.raises(ValueError, match="got 3 kv_heads for 4 heads; expected a divisor"):
        Transformer(TransformerConfig(**{**SIZES, "heads": 4}, kv_heads=3))
    with pytest.raises(ValueError, match="got a head width of 1; expected an even one"):
        Transformer(TransformerConfig(**{**SIZES, "heads": 8}, positions="rotary"))
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        TransformerConfig(**SIZES, window=0)
    with pytest.raises(ValueError, match="'elu', 'gelu'.*or 'tanh'"):
        TransformerConfig(**SIZES, activation="rellu")


# --- batch norm -----------------------------------------------------------------------------------


def batch_norm_model(norm_first: bool = True) -> Transformer:
    torch.manual_seed(0)
    sizes: Any = {"source_vocab_size": 9, "target_vocab_size": 9, "width": 8, "heads": 2}
    sizes |= {"hidden": 12, "depth": 2, "dropout": 0.0, "norm_first": norm_first}
    return Transformer(TransformerConfig(**sizes, norm="batch")).double().train()


BATCH_SOURCE, BATCH_TARGET = (
    torch.tensor([[3, 4, 5], [6, 7, 0]]),
    torch.tensor([[1, 4, 3], [1, 5, 0]]),
)
BATCH_LENGTHS = torch.tensor([3, 2])


@pytest.mark.parametrize("norm_first", [True, False])
def test_padding_does_not_change_batch_norm_in_training(norm_first: bool) -> None:
    """Neither the logits of real positions nor the running averages."""
    model, other = batch_norm_model(norm_first), batch_norm_model(norm_first)
    with torch.no_grad():
        found = model(BATCH_SOURCE, BATCH_TARGET, BATCH_LENGTHS)
        wide = [torch.nn.functional.pad(ids, (0, 3)) for ids in (BATCH_SOURCE, BATCH_TARGET)]
        padded = other(*wide, BATCH_LENGTHS)
    torch.testing.assert_close(padded[0, :3], found[0])
    torch.testing.assert_close(padded[1, :2], found[1, :2])
    buffers = dict(model.named_buffers())
    running = [name for name in buffers if "running_mean" in name]
    assert len(running) == 2 * 2 + 2 * 3 + (2 if norm_first else 0)
    assert all(bool(buffers[name].any()) for name in running)
    for name, buffer in other.named_buffers():
        torch.testing.assert_close(buffer, buffers[name])


def test_batch_norm_depends_on_neighbours_and_later_positions_in_training_only() -> None:
    """The reasons for layer norm."""
    model = batch_norm_model()
    changed_row, changed_end = BATCH_TARGET.clone(), BATCH_TARGET.clone()
    changed_row[1, 1], changed_end[0, 2] = 8, 8
    with torch.no_grad():
        logits = model(BATCH_SOURCE, BATCH_TARGET, BATCH_LENGTHS)
        for changed in (changed_row, changed_end):
            other = model(BATCH_SOURCE, changed, BATCH_LENGTHS)
            assert float((other - logits)[0, 0].abs().max()) > 1e-4
        model.eval()
        logits = model(BATCH_SOURCE, BATCH_TARGET, BATCH_LENGTHS)
        for changed in (changed_row, changed_end):
            other = model(BATCH_SOURCE, changed, BATCH_LENGTHS)
            torch.testing.assert_close(other[0, :2], logits[0, :2], rtol=0, atol=1e-12)


def test_batch_norm_is_not_fused_nor_exported() -> None:
    model = batch_norm_model().eval()
    assert make_decoder(model) is model
    complaints = unsupported_by_ctranslate2(TransformerConfig(norm="batch"))
    assert complaints == ["model.norm is batch; CTranslate2 supports only layer."]
    plain = Transformer(TransformerConfig(source_vocab_size=9, target_vocab_size=9, width=8)).eval()
    assert make_decoder(plain) is not plain
