"""The convolutional translator against its equations, its invariants and its receptive field."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from saccade.decoding import SpecialTokens
from saccade.inspection import invariants
from saccade.inspection.attention import capture_attention
from saccade.models.config import ConvSeq2SeqConfig
from saccade.models.conv_seq2seq import ConvSeq2Seq
from saccade.nn.losses import cross_entropy
from saccade.types.shapes import DecoderState, select_rows

BOS, VOCAB, WIDTH = 1, 9, 6
SPECIAL_TOKENS = SpecialTokens(BOS, 2, (0, BOS))
SIZES = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB, "width": WIDTH, "dropout": 0.0}
CHOICES: list[dict[str, Any]] = [
    {"depth": 1, "kernel_size": 3},
    {"depth": 2, "kernel_size": 2, "positions": "learned", "max_positions": 12},
    {"depth": 3, "kernel_size": 1},
    {"depth": 2, "kernel_size": 4},
]
every_choice = pytest.mark.parametrize(
    "choice", CHOICES, ids=lambda c: f"{c['depth']}x{c['kernel_size']}"
)
SOURCE, TARGET = torch.tensor([[3, 4, 5, 2, 6]]), torch.tensor([[1, 6, 7, 8, 2, 3]])


def made(size: float = 0.1, **choice: Any) -> Any:
    """In float64, and no weight left where it starts: biases start at nothing."""
    model = ConvSeq2Seq(ConvSeq2SeqConfig(**SIZES, **choice)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(size * torch.randn_like(parameter))
    return model.eval()


@st.composite
def examples(draw: Any) -> invariants.CheckExample:
    """Something to read."""
    B, S, T = draw(st.integers(1, 4)), draw(st.integers(1, 7)), draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(1, S), min_size=B, max_size=B))
    torch.manual_seed(draw(st.integers(0, 2**32 - 1)))
    source, target = torch.randint(VOCAB, (B, S)), torch.randint(VOCAB, (B, T))
    target[:, 0] = BOS
    return invariants.CheckExample(source, torch.tensor(lengths), target)


@every_choice
@given(example=examples())
@settings(deadline=None, max_examples=3)
def test_conv_seq2seq_invariants_hold_in_float64(
    choice: dict[str, Any], example: invariants.CheckExample
) -> None:
    model = made(**choice)
    findings = [
        invariants.padding_invariance(model, example),
        invariants.batch_invariance(model, example),
        invariants.causality(model, example, VOCAB),
        invariants.cache_consistency(model, example),
        invariants.beam1_is_greedy(model, example, SPECIAL_TOKENS, 5),
        invariants.beam_score_consistency(model, example, SPECIAL_TOKENS, 5),
        invariants.kernel_parity(model, example),
    ]
    assert all(finding.passed for finding in findings), findings
    source, lengths, target = example
    logits = invariants._logits(model, source, lengths, target)
    other_source = invariants._logits(model, (source + 1) % VOCAB, lengths, target)
    other_target = invariants._logits(model, source, lengths, (target + 1) % VOCAB)
    for other in (other_source, other_target):  # otherwise the invariants would hold trivially
        assert (logits - other).abs().max().item() > 1e-6


@every_choice
@given(example=examples(), G=st.integers(2, 3), cut=st.integers(1, 6))
@settings(deadline=None, max_examples=3)
def test_conv_seq2seq_prompt_and_shared_memory_equal_separate_rows(
    choice: dict[str, Any], example: invariants.CheckExample, G: int, cut: int
) -> None:
    model, (source, lengths, target) = made(**choice), example
    B, T = target.shape
    several, each = torch.randint(VOCAB, (B * G, T)), torch.arange(B).repeat_interleave(G)
    with torch.no_grad():
        memory, cache = model.init_state(model.encode(source, lengths))
        first, state = model.step(several[:, :cut], DecoderState(memory, select_rows(cache, each)))
        parts = [first]
        if cut < T:
            parts.append(model.step(several[:, cut:], state)[0])
        separate = invariants._logits(model, source[each], lengths[each], several)
    torch.testing.assert_close(torch.cat(parts, dim=1), separate, rtol=0, atol=1e-9)


def glu_by_hand(layer: Any, x: Tensor, before: int, after: int) -> Tensor:
    """√½ (x + a σ(b)), the convolution by the framework."""
    convolution = layer.convolution
    padded = nn.functional.pad(x.T[None], (before, after))
    y = nn.functional.conv1d(padded, convolution.weight, convolution.bias)[0].T
    a, b = y.chunk(2, dim=-1)
    return (x + a * b.sigmoid()) / math.sqrt(2)


@every_choice
@torch.no_grad()
def test_conv_seq2seq_equals_equations(choice: dict[str, Any]) -> None:
    model, k = made(0.3, **choice), choice["kernel_size"]
    e, g = (
        side.table.weight[ids[0]] * math.sqrt(WIDTH) + side.positions(0, ids.shape[1])
        for side, ids in ((model.source, SOURCE), (model.target, TARGET))
    )
    z = e
    for layer in model.encoder.layers:
        z = glu_by_hand(layer, z, (k - 1) // 2, k - 1 - (k - 1) // 2)
    h = g
    for layer, look in zip(model.decoder.layers, model.source_attention, strict=True):
        h = glu_by_hand(layer, h, k - 1, 0)
        rows = []
        for t in range(len(h)):
            d = (look.query.weight @ h[t] + look.query.bias + g[t]) / math.sqrt(2)
            shares = torch.stack([d @ position / math.sqrt(WIDTH) for position in z]).softmax(0)
            c = sum(share * (z[s] + e[s]) / math.sqrt(2) for s, share in enumerate(shares))
            rows.append((h[t] + look.out.weight @ c + look.out.bias) / math.sqrt(2))
        h = torch.stack(rows)
    expected = h @ model.output.weight.T + model.output.bias
    got = invariants._logits(model, SOURCE, None, TARGET)[0]
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


@every_choice
def test_conv_seq2seq_step_depends_on_receptive_field(choice: dict[str, Any]) -> None:
    model, field = made(0.3, **choice), 1 + choice["depth"] * (choice["kernel_size"] - 1)
    target = torch.full((1, 10), BOS)
    with torch.no_grad():
        last = invariants._logits(model, SOURCE, None, target)[0, -1]
        seen = []
        for t in range(10):
            changed = target.clone()
            changed[0, t] = 5
            other = invariants._logits(model, SOURCE, None, changed)[0, -1]
            if (other - last).abs().max().item() > 1e-9:
                seen.append(t)
    assert seen == list(range(10 - field, 10))


def test_conv_seq2seq_state_size_is_constant() -> None:
    model = made(depth=2, kernel_size=3)
    with torch.no_grad():
        state = model.init_state(model.encode(SOURCE, None))
        shapes = set()
        for t in range(6):
            _, state = model.step(TARGET[:, t : t + 1], state)
            assert state.cache.steps == t + 1
            shapes.add(tuple(layer.inputs.shape for layer in state.cache.layers))
    assert shapes == {((1, 2, WIDTH), (1, 2, WIDTH))}


def test_conv_seq2seq_attention_of_every_layer_can_be_captured() -> None:
    model = made(0.3, depth=2)
    with capture_attention(model) as seen, torch.no_grad():
        invariants._logits(model, SOURCE, None, TARGET)
    assert seen.names() == ["source_attention.0.attention", "source_attention.1.attention"]
    first, second = (seen.weights(name)[0, 0] for name in seen.names())
    assert first.shape == second.shape == (6, 5)
    torch.testing.assert_close(first.sum(-1), torch.ones(6).double())
    assert not torch.allclose(first, second)


class _Loss(nn.Module):
    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Tensor:
        state = self.model.init_state(self.model.encode(source, lengths))
        hidden, _ = self.model.decode_hidden(target_in, state)
        logits = self.model.compute_logits(hidden.flatten(0, 1)[torch.arange(5)])
        return cross_entropy(
            logits, torch.tensor([3, 4, 2, 4, 2]), label_smoothing=0.1, reduction="sum"
        )


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_conv_seq2seq_loss_gradient_equals_finite_difference(positions: str) -> None:
    model = made(0.2, depth=2, kernel_size=2, positions=positions, max_positions=4)
    source, lengths = torch.tensor([[3, 4, 2], [4, 2, 0]]), torch.tensor([3, 2])
    target_in = torch.tensor([[1, 3, 4], [1, 4, 0]])
    parameters = dict(model.named_parameters())

    def loss(*values: Tensor) -> Tensor:
        own = {f"model.{k}": v for k, v in zip(parameters, values, strict=True)}
        return torch.func.functional_call(_Loss(model), own, (source, lengths, target_in))

    values = tuple(p.detach().clone().requires_grad_() for p in parameters.values())
    assert torch.autograd.gradcheck(loss, values, fast_mode=True, eps=1e-6, atol=1e-6, rtol=1e-4)
    slopes = torch.autograd.grad(loss(*values), values)
    assert all(bool(slope.any()) for slope in slopes)


def test_conv_seq2seq_learned_positions_refuse_longer_text() -> None:
    model = made(positions="learned", max_positions=5)
    with pytest.raises(ValueError, match="got 6 positions; expected at most 5"):
        invariants._logits(model, SOURCE, None, TARGET)


def test_conv_seq2seq_sinusoidal_positions_refuse_odd_width() -> None:
    with pytest.raises(ValueError, match="got width 5; expected an even width"):
        ConvSeq2Seq(ConvSeq2SeqConfig(**{**SIZES, "width": 5}))
