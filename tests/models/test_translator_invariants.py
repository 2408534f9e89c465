"""Every invariant, on every model, with random settings, weights, shapes and lengths."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import SpecialTokens, greedy_search
from saccade.inspection import invariants
from saccade.models import (
    Bahdanau,
    BahdanauConfig,
    Seq2Seq,
    Seq2SeqConfig,
    Transformer,
    TransformerConfig,
)
from saccade.types.shapes import DecoderState, select_rows

BOS, EOS, VOCAB = 1, 2, 9
SPECIAL_TOKENS = SpecialTokens(BOS, EOS, (0, BOS))
LIMIT = 5

RECURRENT = [{"cell": cell, "depth": depth} for cell in ("gru", "lstm") for depth in (1, 2)]
# every pair of choices occurs in some row: norm first, positions, score, depth, shared vocabulary
TRANSFORMERS = [
    (True, "sinusoidal", "scaled_dot", 2, True),
    (False, "learned", "scaled_dot", 1, False),
    (True, "learned", "dot", 1, True),
    (False, "sinusoidal", "dot", 2, False),
    (True, "learned", "additive", 2, False),
    (False, "sinusoidal", "additive", 1, True),
]


def _settings():
    sizes = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB}
    for choice in RECURRENT:
        yield Seq2Seq, Seq2SeqConfig(**sizes, width=6, **choice)
        yield Bahdanau, BahdanauConfig(**sizes, width=6, **choice)
    for context in ("mean", "concatenation"):
        more = {"context": context, "context_positions": 4, "depth": 2}
        yield Seq2Seq, Seq2SeqConfig(**sizes, width=6, **more)
    for norm_first, positions, score, depth, shared in TRANSFORMERS:
        yield (
            Transformer,
            TransformerConfig(
                **sizes,
                width=8,
                heads=2,
                hidden=12,
                depth=depth,
                norm_first=norm_first,
                positions=positions,
                max_positions=10,
                score=score,
                shared_vocab=shared,
            ),
        )

    for norm in ("batch", "rms"):
        for norm_first in (True, False):
            more = {"heads": 2, "hidden": 12, "norm": norm, "norm_first": norm_first}
            yield Transformer, TransformerConfig(**sizes, width=8, **more)


def _name(choice):
    message = [str(value) for key, value in choice[1] if key in NAMED]
    return "-".join([choice[1].name, *message])


NAMED = {"cell", "context", "depth", "norm", "norm_first", "positions", "score", "shared_vocab"}
SETTINGS = list(_settings())
every_model = pytest.mark.parametrize("choice", SETTINGS, ids=_name)
each_family = pytest.mark.parametrize("choice", [SETTINGS[3], SETTINGS[6], SETTINGS[10]], ids=_name)


@st.composite
def cases(draw, choice, dtype):
    """A model with weights of its own, and something for it to read."""
    kind, config = choice
    B, S, T = draw(st.integers(1, 4)), draw(st.integers(1, 7)), draw(st.integers(1, 6))
    lengths = draw(st.lists(st.integers(1, S), min_size=B, max_size=B))
    torch.manual_seed(draw(st.integers(0, 2**32 - 1)))
    model = kind(config).to(dtype).eval()
    with torch.no_grad():  # biases start at nothing, and nothing would be seen of them
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    source, target = torch.randint(VOCAB, (B, S)), torch.randint(VOCAB, (B, T))
    target[:, 0] = BOS
    return model, invariants.CheckExample(source, torch.tensor(lengths), target)


def violations(model, example):
    """Return the findings of the invariants that do not hold."""
    findings = [
        invariants.padding_invariance(model, example),
        invariants.batch_invariance(model, example),
        invariants.causality(model, example, VOCAB),
        invariants.cache_consistency(model, example),
        invariants.beam1_is_greedy(model, example, SPECIAL_TOKENS, LIMIT),
        invariants.beam_score_consistency(model, example, SPECIAL_TOKENS, LIMIT),
        invariants.kernel_parity(model, example),
    ]
    return [finding for finding in findings if not finding.passed]


def depends_on_inputs(model, example):
    """Check that the logits depend on source and target; else invariants hold trivially."""
    source, lengths, target = example
    logits = invariants._logits(model, source, lengths, target)
    other_source = invariants._logits(model, (source + 1) % VOCAB, lengths, target)
    other_target = invariants._logits(model, source, lengths, (target + 1) % VOCAB)
    return min((logits - other).abs().max().item() for other in (other_source, other_target))


@every_model
@given(data=st.data())
@settings(deadline=None, max_examples=4)
def test_translator_invariants_hold_in_float64(choice, data):
    model, example = data.draw(cases(choice, torch.float64))
    assert violations(model, example) == []
    assert depends_on_inputs(model, example) > 1e-6


@each_family
@given(data=st.data())
@settings(deadline=None, max_examples=3)
def test_translator_invariants_hold_in_float32(choice, data):
    assert violations(*data.draw(cases(choice, torch.float32))) == []


def chosen(model, source, lengths, max_lengths):
    with torch.no_grad():
        return greedy_search(
            model,
            model.encode(source, lengths),
            special_tokens=SPECIAL_TOKENS,
            max_lengths=max_lengths,
        )


def gap_at_the_parting(model, source, one, other):
    """Difference between the best two tokens, where two answers to one source part."""
    t = next(
        (t for t, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),  # one of them ended
    )
    target = torch.tensor([[BOS, *one[:t]]])
    with torch.no_grad():
        logits = invariants._logits(model, source, None, target)[0, -1]
    logits[list(SPECIAL_TOKENS.forbidden)] = -torch.inf
    best, second = logits.topk(2).values.tolist()
    return best - second


@each_family
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@given(data=st.data())
@settings(deadline=None, max_examples=3)
def test_translator_tokens_are_independent_of_batch(choice, dtype, data):
    model, (source, lengths, _) = data.draw(cases(choice, dtype))
    max_lengths = torch.tensor([data.draw(st.integers(1, 8)) for _ in lengths])
    together = chosen(model, source, lengths, max_lengths)
    for row, length in enumerate(lengths.tolist()):
        own = source[row : row + 1, :length]
        alone = chosen(model, own, None, max_lengths[row : row + 1])[0]
        if alone.ids != together[row].ids:
            gap = gap_at_the_parting(model, own, alone.ids, together[row].ids)
            assert gap < invariants.LOGIT_TOLERANCE[dtype]
        else:
            assert alone.finished == together[row].finished


@each_family
@given(data=st.data())
@settings(deadline=None, max_examples=3)
def test_translator_prompt_then_steps_equals_one_call(choice, data):
    model, (source, lengths, target) = data.draw(cases(choice, torch.float64))
    cut = data.draw(st.integers(1, target.shape[1]))
    whole = invariants._logits(model, source, lengths, target)
    with torch.no_grad():  # without gradients the past is a buffer with room to grow
        state = model.init_state(model.encode(source, lengths))
        first, state = model.step(target[:, :cut], state)
        parts = [first]
        if cut < target.shape[1]:
            rest, state = model.step(target[:, cut:], state)
            parts.append(rest)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole.detach(), rtol=0, atol=1e-9)


@each_family
@given(data=st.data())
@settings(deadline=None, max_examples=3)
def test_translator_shared_memory_equals_separate_rows(choice, data):
    model, (source, lengths, target) = data.draw(cases(choice, torch.float64))
    G = data.draw(st.integers(2, 3))
    B, T = target.shape
    several = torch.randint(VOCAB, (B * G, T))
    each = torch.arange(B).repeat_interleave(G)
    with torch.no_grad():
        memory, cache = model.init_state(model.encode(source, lengths))
        shared, _ = model.step(several, DecoderState(memory, select_rows(cache, each)))
        separate = invariants._logits(model, source[each], lengths[each], several)
    torch.testing.assert_close(shared, separate, rtol=0, atol=1e-9)
