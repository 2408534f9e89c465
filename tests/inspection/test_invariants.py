"""The laws find what is broken. That they hold for our models is in tests/models."""

import math

import pytest
import torch

from saccade.decoding import SpecialTokens
from saccade.inspection import invariants
from saccade.inspection.checks import CheckResult
from saccade.inspection.invariants import CheckExample
from saccade.models import (
    Bahdanau,
    BahdanauConfig,
    Seq2Seq,
    Seq2SeqConfig,
    Transformer,
    TransformerConfig,
)
from saccade.nn import Attention, Mask
from saccade.types.shapes import DecoderState, reorder_rows

BEGIN, END, VOCAB = 1, 2, 9
SPECIAL_TOKENS = SpecialTokens(BEGIN, END, (0, BEGIN))
SIZES = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB, "width": 8}
MODELS = {
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(**SIZES)),
    "bahdanau": lambda: Bahdanau(BahdanauConfig(**SIZES)),
    "transformer": lambda: Transformer(TransformerConfig(**SIZES, heads=2, depth=1)),
}
LAWS = {
    "padding": lambda model, example: invariants.padding_invariance(model, example),
    "neighbours": lambda model, example: invariants.batch_invariance(model, example),
    "future": lambda model, example: invariants.causality(model, example, VOCAB),
    "stepwise": lambda model, example: invariants.cache_consistency(model, example),
    "beam_of_one": lambda model, example: invariants.beam1_is_greedy(
        model, example, SPECIAL_TOKENS, 4
    ),
    "rereading": lambda model, example: invariants.beam_score_consistency(
        model, example, SPECIAL_TOKENS, 4
    ),
    "fused": lambda model, example: invariants.kernel_parity(model, example),
}


def whole(name):
    return MODELS[name]().double().eval()


def example(lengths=(5, 2, 3)):
    source, target = torch.randint(VOCAB, (3, 5)), torch.randint(VOCAB, (3, 4))
    target[:, 0] = BEGIN
    return CheckExample(source, torch.tensor(lengths), target)


def broken_laws(model, given=None):
    """The names of the laws that do not hold."""
    given = given or example()
    return {name for name, invariant in LAWS.items() if not invariant(model, given).passed}


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_found_in_a_model_that_is_whole(name):
    assert broken_laws(whole(name)) == set()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_forgets_where_the_padding_is(name):
    model = whole(name)
    encode = model.encode
    model.encode = lambda source, lengths: encode(source, None)
    assert {"padding", "neighbours"} <= broken_laws(model)


@pytest.mark.parametrize("name", ["bahdanau", "transformer"])
def test_an_attention_to_the_source_without_its_mask(name):
    """Only the decoder looks at padding: the encoder is as it should be."""
    model = whole(name)
    encode = model.encode
    model.encode = lambda source, lengths: encode(source, lengths)._replace(lengths=None)
    found = broken_laws(model)
    assert {"padding", "neighbours"} <= found
    assert not found & {"future", "stepwise", "beam_of_one", "fused"}


def test_padding_is_found_though_no_row_had_any_before():
    model = whole("transformer")
    encode = model.encode
    model.encode = lambda source, lengths: encode(source, None)
    assert not invariants.padding_invariance(model, example(lengths=(5, 5, 5))).passed


def test_a_decoder_that_sees_the_future(monkeypatch):
    monkeypatch.setattr(Mask, "causal", staticmethod(lambda: Mask()))
    found = broken_laws(whole("transformer"))
    assert {"future", "stepwise", "rereading"} <= found
    assert not found & {"padding", "neighbours", "fused"}


@pytest.mark.parametrize("which", ["mean over the batch", "the first row"])
def test_rows_that_leak_into_each_other(which):
    model = whole("seq2seq")
    compute_logits = model.compute_logits

    def leaky(hidden):
        from_others = hidden.mean(dim=0, keepdim=True) if "mean" in which else hidden[:1]
        return compute_logits(hidden + 0.01 * from_others)

    model.compute_logits = leaky
    assert "neighbours" in broken_laws(model)


@pytest.mark.parametrize("name", ["seq2seq", "bahdanau"])
def test_a_state_that_forgets_the_last_step(name):
    model = whole(name)
    decode_hidden = model.decode_hidden
    model.decode_hidden = lambda ids, state: (decode_hidden(ids, state)[0], state)
    assert {"stepwise", "rereading"} <= broken_laws(model)


def test_a_memory_of_keys_that_is_one_place_behind():
    model = whole("transformer")
    decode_hidden = model.decode_hidden

    def forgetful(ids, state):
        hidden, (memory, cache) = decode_hidden(ids, state)
        return hidden, DecoderState(
            memory, tuple(kv._replace(length=kv.length - 1) for kv in cache)
        )

    model.decode_hidden = forgetful
    found = broken_laws(model)
    assert {"stepwise", "rereading"} <= found
    assert not found & {"padding", "neighbours", "future", "fused"}


def test_positions_that_start_again_at_every_step():
    model = whole("transformer")
    embed = model.target.forward
    model.target.forward = lambda ids, start=0: embed(ids, 0)
    assert {"stepwise", "rereading"} <= broken_laws(model)


def test_a_beam_that_adds_up_wrongly(monkeypatch):
    real = invariants.beam_search

    def wrong(*given, **how):
        return [
            [answer._replace(log_probability=answer.log_probability + 0.01) for answer in answers]
            for answers in real(*given, **how)
        ]

    monkeypatch.setattr(invariants, "beam_search", wrong)
    assert broken_laws(whole("bahdanau")) == {"beam_of_one", "rereading"}


def test_a_beam_whose_hypotheses_take_each_others_past(monkeypatch):
    """The scores are then those of sequences that nobody wrote."""

    def upside_down(tree, rows):
        return reorder_rows(tree, rows[::-1])

    monkeypatch.setattr("saccade.decoding.generate.reorder_rows", upside_down)
    assert "rereading" in broken_laws(whole("transformer"))


def test_a_clear_path_that_is_not_the_fused_one(monkeypatch):
    real = Attention.weights
    monkeypatch.setattr(Attention, "weights", lambda *given: 1.001 * real(*given))
    assert broken_laws(whole("transformer")) == {"fused"}


def test_a_clear_path_that_is_right_in_values_and_wrong_in_gradients(monkeypatch):
    real = Attention.weights
    monkeypatch.setattr(Attention, "weights", lambda *given: real(*given).detach())
    assert broken_laws(whole("transformer")) == {"fused"}


@pytest.mark.parametrize("invariant", LAWS)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_not_a_number_never_holds(name, invariant):
    model = whole(name)
    with torch.no_grad():
        model.target.table.weight[:] = torch.nan
    finding = LAWS[invariant](model, example())
    assert math.isnan(finding.difference)
    assert not finding.passed


@pytest.mark.parametrize("values", [[0.0, torch.nan, 1.0], [torch.nan, 5.0], [5.0, torch.nan]])
def test_nan_is_the_worst_wherever_it_stands(values):
    pairs = [(torch.tensor([value]), torch.zeros(1)) for value in values]
    assert math.isnan(invariants._finding("a law", 1, pairs).difference)


def test_a_finding_holds_up_to_its_tolerance():
    assert CheckResult("a law", 1, 1e-9, 1e-9).passed
    assert not CheckResult("a law", 1, 1.1e-9, 1e-9).passed
    assert not CheckResult("a law", 1, math.nan, 1e-9).passed


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-4)])
def test_the_tolerance_is_that_of_the_models_own_format(dtype, tolerance):
    model = whole("bahdanau").to(dtype)
    for invariant in LAWS.values():
        finding = invariant(model, example())
        assert finding.tolerance == tolerance
        assert finding.num_inputs >= 3


def test_the_difference_found_is_the_largest():
    pairs = [(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 1.0])), (torch.ones(1), torch.zeros(1))]
    assert invariants._finding("a law", 2, pairs).difference == 2.0


def test_attention_is_as_it_was_after_the_clear_path():
    model = whole("transformer")
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    with pytest.raises(RuntimeError, match="in the middle"), invariants.reference_attention(model):
        assert all("forward" in vars(module) for module in attentions)
        raise RuntimeError("in the middle")
    assert attentions
    assert not any("forward" in vars(module) for module in attentions)
