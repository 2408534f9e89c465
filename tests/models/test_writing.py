"""The steps that a search takes are the model's own, whatever they save."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from saccade.decoding import Marks, beam, greedy
from saccade.look import laws
from saccade.models import Bahdanau, BahdanauConfig, Transformer, TransformerConfig, Writer, writer
from saccade.nn.activations import ACTIVATIONS
from saccade.nn.pruning import prune_heads, switched_off
from saccade.types import State, rearrange, select

BEGIN, END, VOCAB = 1, 2, 70
MARKS = Marks(BEGIN, END, (0, BEGIN))
SIZES = {"source_vocab": VOCAB, "target_vocab": VOCAB, "width": 8, "heads": 2, "hidden": 12}


def built(seed: int = 0, **choices) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**SIZES, **choices)).double().eval()
    for parameter in model.parameters():  # norms and biases, too, are to be seen
        nn.init.normal_(parameter, std=0.4)
    return model


def drawn(B: int, S: int, T: int) -> laws.Example:
    lengths = torch.randint(1, S + 1, (B,))
    lengths[0] = S
    return laws.Example(torch.randint(VOCAB, (B, S)), lengths, torch.randint(VOCAB, (B, T)))


choices = st.fixed_dictionaries(
    {
        "norm_first": st.booleans(),
        "positions": st.sampled_from(["sinusoidal", "learned", "none"]),
        "depth": st.integers(1, 3),
        "shared_vocab": st.booleans(),
        "activation": st.sampled_from(sorted(ACTIVATIONS)),
        "dropout": st.just(0.3),
    }
)


@settings(deadline=None, max_examples=15)
@given(choices, st.integers(1, 4), st.integers(1, 5), st.integers(1, 37), st.integers(0, 99))
def test_its_steps_are_the_models(choice: dict, B: int, S: int, T: int, seed: int) -> None:
    model = built(seed, **choice)
    finding = laws.stepwise(model, drawn(B, S, T), writer(model))
    assert isinstance(writer(model), Writer)
    assert finding.holds, finding


@settings(deadline=None, max_examples=10)
@given(choices, st.integers(1, 3), st.integers(2, 4), st.integers(0, 99))
def test_hypotheses_share_a_memory(choice: dict, B: int, G: int, seed: int) -> None:
    model = built(seed, **choice)
    source, lengths, _ = drawn(B, 4, 1)
    several = torch.randint(VOCAB, (B * G, 3))
    each = torch.arange(B).repeat_interleave(G)
    with torch.no_grad():
        wanted = laws._logits(model, source[each], lengths[each], several)
        steps = writer(model)
        state = steps.start(steps.encode(source, lengths))
        state = State(state.memory, rearrange(state.past, each.tolist()))
        for t in range(3):
            logits, state = steps.step(several[:, t : t + 1], state)
            torch.testing.assert_close(logits[:, 0], wanted[:, t], rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("norm_first", [True, False])
def test_a_search_finds_the_same_with_it(norm_first: bool) -> None:
    model = built(3, norm_first=norm_first, depth=2)
    source, lengths, _ = drawn(7, 6, 1)
    limits = torch.tensor([5, 40, 1, 17, 3, 9, 33])
    how = {"marks": MARKS, "limits": limits}
    for search, more in ((greedy, {}), (beam, {"width": 4, "n_best": 3, "alpha": 0.0})):
        one, other = (
            search(steps, steps.encode(source, lengths), **how, **more)
            for steps in (model, writer(model))
        )
        for mine, theirs in zip(one, other, strict=True):
            mine, theirs = (x if isinstance(x, list) else [x] for x in (mine, theirs))
            assert [a.ids for a in mine] == [a.ids for a in theirs]
            assert [a.score for a in mine] == pytest.approx([a.score for a in theirs], abs=1e-9)


@pytest.mark.parametrize(
    "choice",
    [
        {"score": "additive"},
        {"positions": "rotary"},
        {"positions": "relative"},
        {"groups": 1},
        {"window": 3},
    ],
    ids=str,
)
def test_what_it_does_not_compute_is_left_to_the_model(choice: dict) -> None:
    model = built(**choice)
    assert writer(model) is model


def test_other_models_write_for_themselves() -> None:
    model = Bahdanau(BahdanauConfig(source_vocab=VOCAB, target_vocab=VOCAB, width=6)).eval()
    assert writer(model) is model


def test_a_model_whose_heads_are_off_or_out_writes_for_itself() -> None:
    model = built()
    with switched_off(model, {"decoder.0.self_attention": [1]}):
        assert writer(model) is model
    assert isinstance(writer(model), Writer)
    prune_heads(model, {"decoder.0.self_attention": [1]})
    assert writer(model) is model


def test_it_is_made_once_for_the_weights_there_are() -> None:
    model = built()
    first = writer(model)
    assert writer(model, first) is first
    assert writer(built(), first) is not first
    model.load_state_dict(built(1).state_dict())
    second = writer(model, first)
    assert second is not first
    example = drawn(2, 3, 4)
    assert laws.stepwise(model, example, second).holds
    assert not laws.stepwise(model, example, first).holds  # it has the old ones
    with switched_off(model, {"decoder.0.self_attention": [1]}):
        assert writer(model, second) is model


def test_one_that_is_being_trained_writes_for_itself() -> None:
    model = built().train()
    assert writer(model) is model


@given(st.integers(1, 6), st.data())
def test_rows_are_rearranged_in_place_as_they_are_selected(n: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=2 * n))
    tree = (torch.arange(n * 2).view(n, 2), (torch.arange(n), 5))
    wanted = select(copy.deepcopy(tree), torch.tensor(rows))
    got = rearrange(tree, rows)
    assert torch.equal(got[0], wanted[0])
    assert torch.equal(got[1][0], wanted[1][0])
    assert got[1][1] == 5
