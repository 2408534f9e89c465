"""The steps that a search takes are the model's own, whatever they save."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from saccade.decoding import SpecialTokens, beam_search, greedy_search
from saccade.inference.fused import FusedTransformerDecoder, fused_decoder
from saccade.inspection import invariants
from saccade.models import (
    Bahdanau,
    BahdanauConfig,
    Transformer,
    TransformerConfig,
)
from saccade.nn.activations import ACTIVATIONS
from saccade.nn.pruning import masked_heads, prune_heads
from saccade.types.shapes import DecoderState, reorder_rows, select_rows

BEGIN, END, VOCAB = 1, 2, 70
SPECIAL_TOKENS = SpecialTokens(BEGIN, END, (0, BEGIN))
SIZES = {
    "source_vocab_size": VOCAB,
    "target_vocab_size": VOCAB,
    "width": 8,
    "heads": 2,
    "hidden": 12,
}


def built(seed: int = 0, **choices) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**SIZES, **choices)).double().eval()
    for parameter in model.parameters():  # norms and biases, too, are to be seen
        nn.init.normal_(parameter, std=0.4)
    return model


def drawn(B: int, S: int, T: int) -> invariants.CheckExample:
    lengths = torch.randint(1, S + 1, (B,))
    lengths[0] = S
    return invariants.CheckExample(
        torch.randint(VOCAB, (B, S)), lengths, torch.randint(VOCAB, (B, T))
    )


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
    finding = invariants.cache_consistency(model, drawn(B, S, T), fused_decoder(model))
    assert isinstance(fused_decoder(model), FusedTransformerDecoder)
    assert finding.passed, finding


@settings(deadline=None, max_examples=10)
@given(choices, st.integers(1, 3), st.integers(2, 4), st.integers(0, 99))
def test_hypotheses_share_a_memory(choice: dict, B: int, G: int, seed: int) -> None:
    model = built(seed, **choice)
    source, lengths, _ = drawn(B, 4, 1)
    several = torch.randint(VOCAB, (B * G, 3))
    each = torch.arange(B).repeat_interleave(G)
    with torch.no_grad():
        wanted = invariants._logits(model, source[each], lengths[each], several)
        steps = fused_decoder(model)
        state = steps.init_state(steps.encode(source, lengths))
        state = DecoderState(state.memory, reorder_rows(state.cache, each.tolist()))
        for t in range(3):
            logits, state = steps.step(several[:, t : t + 1], state)
            torch.testing.assert_close(logits[:, 0], wanted[:, t], rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("norm_first", [True, False])
def test_a_search_finds_the_same_with_it(norm_first: bool) -> None:
    model = built(3, norm_first=norm_first, depth=2)
    source, lengths, _ = drawn(7, 6, 1)
    max_lengths = torch.tensor([5, 40, 1, 17, 3, 9, 33])
    how = {"special_tokens": SPECIAL_TOKENS, "max_lengths": max_lengths}
    for search, more in (
        (greedy_search, {}),
        (beam_search, {"width": 4, "n_best": 3, "alpha": 0.0}),
    ):
        one, other = (
            search(steps, steps.encode(source, lengths), **how, **more)
            for steps in (model, fused_decoder(model))
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
        {"kv_heads": 1},
        {"window": 3},
    ],
    ids=str,
)
def test_what_it_does_not_compute_is_left_to_the_model(choice: dict) -> None:
    model = built(**choice)
    assert fused_decoder(model) is model


def test_other_models_write_for_themselves() -> None:
    model = Bahdanau(
        BahdanauConfig(source_vocab_size=VOCAB, target_vocab_size=VOCAB, width=6)
    ).eval()
    assert fused_decoder(model) is model


def test_a_model_whose_heads_are_off_or_out_writes_for_itself() -> None:
    model = built()
    with masked_heads(model, {"decoder.0.self_attention": [1]}):
        assert fused_decoder(model) is model
    assert isinstance(fused_decoder(model), FusedTransformerDecoder)
    prune_heads(model, {"decoder.0.self_attention": [1]})
    assert fused_decoder(model) is model


def test_it_is_made_once_for_the_weights_there_are() -> None:
    model = built()
    first = fused_decoder(model)
    assert fused_decoder(model, first) is first
    assert fused_decoder(built(), first) is not first
    model.load_state_dict(built(1).state_dict())
    second = fused_decoder(model, first)
    assert second is not first
    example = drawn(2, 3, 4)
    assert invariants.cache_consistency(model, example, second).passed
    assert not invariants.cache_consistency(model, example, first).passed  # it has the old ones
    with masked_heads(model, {"decoder.0.self_attention": [1]}):
        assert fused_decoder(model, second) is model


def test_one_that_is_being_trained_writes_for_itself() -> None:
    model = built().train()
    assert fused_decoder(model) is model


@given(st.integers(1, 6), st.data())
def test_rows_are_rearranged_in_place_as_they_are_selected(n: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=2 * n))
    tree = (torch.arange(n * 2).view(n, 2), (torch.arange(n), 5))
    wanted = select_rows(copy.deepcopy(tree), torch.tensor(rows))
    got = reorder_rows(tree, rows)
    assert torch.equal(got[0], wanted[0])
    assert torch.equal(got[1][0], wanted[1][0])
    assert got[1][1] == 5
