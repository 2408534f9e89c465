"""The laws find what is broken. That they hold for our models is in tests/models."""

import math

import pytest
import torch

from saccade.decoding import Marks
from saccade.look import laws
from saccade.look.finding import Finding
from saccade.look.laws import Example
from saccade.models import (
    Bahdanau,
    BahdanauConfig,
    Seq2Seq,
    Seq2SeqConfig,
    Transformer,
    TransformerConfig,
)
from saccade.nn import Attention, Mask
from saccade.types import State, rearrange

BEGIN, END, VOCAB = 1, 2, 9
MARKS = Marks(BEGIN, END, (0, BEGIN))
SIZES = {"source_vocab": VOCAB, "target_vocab": VOCAB, "width": 8}
MODELS = {
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(**SIZES)),
    "bahdanau": lambda: Bahdanau(BahdanauConfig(**SIZES)),
    "transformer": lambda: Transformer(TransformerConfig(**SIZES, heads=2, depth=1)),
}
LAWS = {
    "padding": lambda model, example: laws.padding(model, example),
    "neighbours": lambda model, example: laws.neighbours(model, example),
    "future": lambda model, example: laws.future(model, example, VOCAB),
    "stepwise": lambda model, example: laws.stepwise(model, example),
    "beam_of_one": lambda model, example: laws.beam_of_one(model, example, MARKS, 4),
    "rereading": lambda model, example: laws.rereading(model, example, MARKS, 4),
    "fused": lambda model, example: laws.fused(model, example),
}


def whole(name):
    return MODELS[name]().double().eval()


def example(lengths=(5, 2, 3)):
    source, target = torch.randint(VOCAB, (3, 5)), torch.randint(VOCAB, (3, 4))
    target[:, 0] = BEGIN
    return Example(source, torch.tensor(lengths), target)


def broken_laws(model, given=None):
    """The names of the laws that do not hold."""
    given = given or example()
    return {name for name, law in LAWS.items() if not law(model, given).holds}


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
    assert not laws.padding(model, example(lengths=(5, 5, 5))).holds


def test_a_decoder_that_sees_the_future(monkeypatch):
    monkeypatch.setattr(Mask, "causal", staticmethod(lambda: Mask()))
    found = broken_laws(whole("transformer"))
    assert {"future", "stepwise", "rereading"} <= found
    assert not found & {"padding", "neighbours", "fused"}


@pytest.mark.parametrize("which", ["mean over the batch", "the first row"])
def test_rows_that_leak_into_each_other(which):
    model = whole("seq2seq")
    project = model.project

    def leaky(hidden):
        from_others = hidden.mean(dim=0, keepdim=True) if "mean" in which else hidden[:1]
        return project(hidden + 0.01 * from_others)

    model.project = leaky
    assert "neighbours" in broken_laws(model)


@pytest.mark.parametrize("name", ["seq2seq", "bahdanau"])
def test_a_state_that_forgets_the_last_step(name):
    model = whole(name)
    read = model.read
    model.read = lambda ids, state: (read(ids, state)[0], state)
    assert {"stepwise", "rereading"} <= broken_laws(model)


def test_a_memory_of_keys_that_is_one_place_behind():
    model = whole("transformer")
    read = model.read

    def forgetful(ids, state):
        hidden, (memory, past) = read(ids, state)
        return hidden, State(memory, tuple(kv._replace(length=kv.length - 1) for kv in past))

    model.read = forgetful
    found = broken_laws(model)
    assert {"stepwise", "rereading"} <= found
    assert not found & {"padding", "neighbours", "future", "fused"}


def test_positions_that_start_again_at_every_step():
    model = whole("transformer")
    embed = model.target.forward
    model.target.forward = lambda ids, start=0: embed(ids, 0)
    assert {"stepwise", "rereading"} <= broken_laws(model)


def test_a_beam_that_adds_up_wrongly(monkeypatch):
    real = laws.beam

    def wrong(*given, **how):
        return [
            [answer._replace(log_probability=answer.log_probability + 0.01) for answer in answers]
            for answers in real(*given, **how)
        ]

    monkeypatch.setattr(laws, "beam", wrong)
    assert broken_laws(whole("bahdanau")) == {"beam_of_one", "rereading"}


def test_a_beam_whose_hypotheses_take_each_others_past(monkeypatch):
    """The scores are then those of sequences that nobody wrote."""

    def upside_down(tree, rows):
        return rearrange(tree, rows[::-1])

    monkeypatch.setattr("saccade.decoding.search.rearrange", upside_down)
    assert "rereading" in broken_laws(whole("transformer"))


def test_a_clear_path_that_is_not_the_fused_one(monkeypatch):
    real = Attention.weights
    monkeypatch.setattr(Attention, "weights", lambda *given: 1.001 * real(*given))
    assert broken_laws(whole("transformer")) == {"fused"}


def test_a_clear_path_that_is_right_in_values_and_wrong_in_gradients(monkeypatch):
    real = Attention.weights
    monkeypatch.setattr(Attention, "weights", lambda *given: real(*given).detach())
    assert broken_laws(whole("transformer")) == {"fused"}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", MODELS)
def test_what_is_not_a_number_never_holds(name, law):
    model = whole(name)
    with torch.no_grad():
        model.target.table.weight[:] = torch.nan
    finding = LAWS[law](model, example())
    assert math.isnan(finding.difference)
    assert not finding.holds


@pytest.mark.parametrize("values", [[0.0, torch.nan, 1.0], [torch.nan, 5.0], [5.0, torch.nan]])
def test_nan_is_the_worst_wherever_it_stands(values):
    pairs = [(torch.tensor([value]), torch.zeros(1)) for value in values]
    assert math.isnan(laws._finding("a law", 1, pairs).difference)


def test_a_finding_holds_up_to_its_tolerance():
    assert Finding("a law", 1, 1e-9, 1e-9).holds
    assert not Finding("a law", 1, 1.1e-9, 1e-9).holds
    assert not Finding("a law", 1, math.nan, 1e-9).holds


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 2e-4)])
def test_the_tolerance_is_that_of_the_models_own_format(dtype, tolerance):
    model = whole("bahdanau").to(dtype)
    for law in LAWS.values():
        finding = law(model, example())
        assert finding.tolerance == tolerance
        assert finding.tried >= 3


def test_the_difference_found_is_the_largest():
    pairs = [(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 1.0])), (torch.ones(1), torch.zeros(1))]
    assert laws._finding("a law", 2, pairs).difference == 2.0


def test_attention_is_as_it_was_after_the_clear_path():
    model = whole("transformer")
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    with pytest.raises(RuntimeError, match="in the middle"), laws.clear_attention(model):
        assert all("forward" in vars(module) for module in attentions)
        raise RuntimeError("in the middle")
    assert attentions
    assert not any("forward" in vars(module) for module in attentions)
