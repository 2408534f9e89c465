"""Invariance checks find broken models; that our models pass is tested in tests/models."""

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

BOS, EOS, VOCAB = 1, 2, 9
SPECIAL_TOKENS = SpecialTokens(BOS, EOS, (0, BOS))
SIZES = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB, "width": 8}
MODELS = {
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(**SIZES)),
    "bahdanau": lambda: Bahdanau(BahdanauConfig(**SIZES)),
    "transformer": lambda: Transformer(TransformerConfig(**SIZES, heads=2, depth=1)),
}
CHECKS = {
    "padding": lambda model, example: invariants.padding_invariance(model, example),
    "batch": lambda model, example: invariants.batch_invariance(model, example),
    "causality": lambda model, example: invariants.causality(model, example, VOCAB),
    "cache": lambda model, example: invariants.cache_consistency(model, example),
    "beam1": lambda model, example: invariants.beam1_is_greedy(model, example, SPECIAL_TOKENS, 4),
    "rescoring": lambda model, example: invariants.beam_score_consistency(
        model, example, SPECIAL_TOKENS, 4
    ),
    "fused": lambda model, example: invariants.kernel_parity(model, example),
}


def intact(name):
    return MODELS[name]().double().eval()


def example(lengths=(5, 2, 3)):
    source, target = torch.randint(VOCAB, (3, 5)), torch.randint(VOCAB, (3, 4))
    target[:, 0] = BOS
    return CheckExample(source, torch.tensor(lengths), target)


def failed_checks(model, given=None):
    """Return the names of the checks that fail."""
    given = given or example()
    return {name for name, check in CHECKS.items() if not check(model, given).passed}


@pytest.mark.parametrize("name", MODELS)
def test_checks_pass_for_intact_models(name):
    assert failed_checks(intact(name)) == set()


@pytest.mark.parametrize("name", MODELS)
def test_checks_find_missing_lengths(name):
    model = intact(name)
    encode = model.encode
    model.encode = lambda source, lengths: encode(source, None)
    assert {"padding", "batch"} <= failed_checks(model)


@pytest.mark.parametrize("name", ["bahdanau", "transformer"])
def test_checks_find_unmasked_cross_attention(name):
    """Only the decoder attends to padding; the encoder masks it."""
    model = intact(name)
    encode = model.encode
    model.encode = lambda source, lengths: encode(source, lengths)._replace(lengths=None)
    found = failed_checks(model)
    assert {"padding", "batch"} <= found
    assert not found & {"causality", "cache", "beam1", "fused"}


def test_padding_invariance_finds_missing_lengths_without_padding():
    model = intact("transformer")
    encode = model.encode
    model.encode = lambda source, lengths: encode(source, None)
    assert not invariants.padding_invariance(model, example(lengths=(5, 5, 5))).passed


def test_checks_find_a_missing_causal_mask(monkeypatch):
    monkeypatch.setattr(Mask, "causal", staticmethod(lambda: Mask()))
    found = failed_checks(intact("transformer"))
    assert {"causality", "cache", "rescoring"} <= found
    assert not found & {"padding", "batch", "fused"}


@pytest.mark.parametrize("which", ["mean over the batch", "the first row"])
def test_batch_invariance_finds_leaks_between_rows(which):
    model = intact("seq2seq")
    compute_logits = model.compute_logits

    def leaky(hidden):
        from_others = hidden.mean(dim=0, keepdim=True) if "mean" in which else hidden[:1]
        return compute_logits(hidden + 0.01 * from_others)

    model.compute_logits = leaky
    assert "batch" in failed_checks(model)


@pytest.mark.parametrize("name", ["seq2seq", "bahdanau"])
def test_cache_consistency_finds_a_stale_state(name):
    model = intact(name)
    decode_hidden = model.decode_hidden
    model.decode_hidden = lambda ids, state: (decode_hidden(ids, state)[0], state)
    assert {"cache", "rescoring"} <= failed_checks(model)


def test_cache_consistency_finds_a_cache_off_by_one():
    model = intact("transformer")
    decode_hidden = model.decode_hidden

    def forgetful(ids, state):
        hidden, (memory, cache) = decode_hidden(ids, state)
        return hidden, DecoderState(
            memory, tuple(kv._replace(length=kv.length - 1) for kv in cache)
        )

    model.decode_hidden = forgetful
    found = failed_checks(model)
    assert {"cache", "rescoring"} <= found
    assert not found & {"padding", "batch", "causality", "fused"}


def test_cache_consistency_finds_restarted_positions():
    model = intact("transformer")
    embed = model.target.forward
    model.target.forward = lambda ids, start=0: embed(ids, 0)
    assert {"cache", "rescoring"} <= failed_checks(model)


def test_beam_checks_find_wrong_sums(monkeypatch):
    real = invariants.beam_search

    def wrong(*given, **how):
        return [
            [answer._replace(log_probability=answer.log_probability + 0.01) for answer in answers]
            for answers in real(*given, **how)
        ]

    monkeypatch.setattr(invariants, "beam_search", wrong)
    assert failed_checks(intact("bahdanau")) == {"beam1", "rescoring"}


def test_beam_score_consistency_finds_swapped_states(monkeypatch):
    """The scores are then those of sequences that were not generated."""

    def upside_down(tree, rows):
        return reorder_rows(tree, rows[::-1])

    monkeypatch.setattr("saccade.decoding.greedy.reorder_rows", upside_down)
    assert "rescoring" in failed_checks(intact("transformer"))


def test_kernel_parity_finds_different_values(monkeypatch):
    real = Attention.weights
    monkeypatch.setattr(Attention, "weights", lambda *given: 1.001 * real(*given))
    assert failed_checks(intact("transformer")) == {"fused"}


def test_kernel_parity_finds_different_gradients(monkeypatch):
    real = Attention.weights
    monkeypatch.setattr(Attention, "weights", lambda *given: real(*given).detach())
    assert failed_checks(intact("transformer")) == {"fused"}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", MODELS)
def test_checks_fail_for_nan(name, check):
    model = intact(name)
    with torch.no_grad():
        model.target.table.weight[:] = torch.nan
    finding = CHECKS[check](model, example())
    assert math.isnan(finding.difference)
    assert not finding.passed


@pytest.mark.parametrize("values", [[0.0, torch.nan, 1.0], [torch.nan, 5.0], [5.0, torch.nan]])
def test_check_result_nan_is_the_largest_deviation(values):
    pairs = [(torch.tensor([value]), torch.zeros(1)) for value in values]
    assert math.isnan(invariants._result("an invariant", 1, pairs).difference)


def test_check_result_passes_up_to_its_tolerance():
    assert CheckResult("an invariant", 1, 1e-9, 1e-9).passed
    assert not CheckResult("an invariant", 1, 1.1e-9, 1e-9).passed
    assert not CheckResult("an invariant", 1, math.nan, 1e-9).passed


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-4)])
def test_check_tolerance_follows_the_dtype(dtype, tolerance):
    model = intact("bahdanau").to(dtype)
    for check in CHECKS.values():
        finding = check(model, example())
        assert finding.tolerance == tolerance
        assert finding.num_inputs >= 3


def test_check_result_has_the_largest_deviation():
    pairs = [(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 1.0])), (torch.ones(1), torch.zeros(1))]
    assert invariants._result("an invariant", 2, pairs).difference == 2.0


def test_reference_attention_restores_forward():
    model = intact("transformer")
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    with pytest.raises(RuntimeError, match="in the middle"), invariants.reference_attention(model):
        assert all("forward" in vars(module) for module in attentions)
        raise RuntimeError("in the middle")
    assert attentions
    assert not any("forward" in vars(module) for module in attentions)
