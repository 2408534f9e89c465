"""The steps that a search takes are the model's own, whatever they save."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from saccade.decoding import SpecialTokens, beam_search, greedy_search
from saccade.inference.engine import make_decoder
from saccade.inference.fused_transformer import FusedTransformerDecoder
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

BOS, EOS, VOCAB = 1, 2, 70
SPECIAL_TOKENS = SpecialTokens(BOS, EOS, (0, BOS))
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
def test_fused_transformer_steps_equal_model(
    choice: dict, B: int, S: int, T: int, seed: int
) -> None:
    model = built(seed, **choice)
    finding = invariants.cache_consistency(model, drawn(B, S, T), make_decoder(model))
    assert isinstance(make_decoder(model), FusedTransformerDecoder)
    assert finding.passed, finding


@settings(deadline=None, max_examples=10)
@given(choices, st.integers(1, 3), st.integers(2, 4), st.integers(0, 99))
def test_fused_transformer_hypotheses_share_memory(choice: dict, B: int, G: int, seed: int) -> None:
    model = built(seed, **choice)
    source, lengths, _ = drawn(B, 4, 1)
    several = torch.randint(VOCAB, (B * G, 3))
    each = torch.arange(B).repeat_interleave(G)
    with torch.no_grad():
        expected = invariants._logits(model, source[each], lengths[each], several)
        steps = make_decoder(model)
        state = steps.init_state(steps.encode(source, lengths))
        state = DecoderState(state.memory, reorder_rows(state.cache, each.tolist()))
        for t in range(3):
            logits, state = steps.step(several[:, t : t + 1], state)
            torch.testing.assert_close(logits[:, 0], expected[:, t], rtol=0, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("norm_first", [True, False])
def test_fused_transformer_search_results_equal_model(norm_first: bool) -> None:
    model = built(3, norm_first=norm_first, depth=2)
    source, lengths, _ = drawn(7, 6, 1)
    max_lengths = torch.tensor([5, 40, 1, 17, 3, 9, 33])
    options = {"special_tokens": SPECIAL_TOKENS, "max_lengths": max_lengths}
    for search, more in (
        (greedy_search, {}),
        (beam_search, {"width": 4, "n_best": 3, "length_penalty": 0.0}),
    ):
        one, other = (
            search(steps, steps.encode(source, lengths), **options, **more)
            for steps in (model, make_decoder(model))
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
def test_fused_transformer_falls_back_for_unsupported_settings(choice: dict) -> None:
    model = built(**choice)
    assert make_decoder(model) is model


def test_fused_transformer_falls_back_for_other_models() -> None:
    model = Bahdanau(
        BahdanauConfig(source_vocab_size=VOCAB, target_vocab_size=VOCAB, width=6)
    ).eval()
    assert make_decoder(model) is model


def test_fused_transformer_falls_back_for_masked_or_pruned_heads() -> None:
    model = built()
    with masked_heads(model, {"decoder.0.self_attention": [1]}):
        assert make_decoder(model) is model
    assert isinstance(make_decoder(model), FusedTransformerDecoder)
    prune_heads(model, {"decoder.0.self_attention": [1]})
    assert make_decoder(model) is model


def test_fused_transformer_is_reused_until_weights_change() -> None:
    model = built()
    first = make_decoder(model)
    assert make_decoder(model, previous=first) is first
    assert make_decoder(built(), previous=first) is not first
    model.load_state_dict(built(1).state_dict())
    second = make_decoder(model, previous=first)
    assert second is not first
    example = drawn(2, 3, 4)
    assert invariants.cache_consistency(model, example, second).passed
    assert not invariants.cache_consistency(model, example, first).passed  # it has the old ones
    with masked_heads(model, {"decoder.0.self_attention": [1]}):
        assert make_decoder(model, previous=second) is model


def test_fused_transformer_falls_back_in_training_mode() -> None:
    model = built().train()
    assert make_decoder(model) is model


@given(st.integers(1, 6), st.data())
def test_fused_transformer_reorder_rows_equals_select_rows(n: int, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=2 * n))
    tree = (torch.arange(n * 2).view(n, 2), (torch.arange(n), 5))
    expected = select_rows(copy.deepcopy(tree), torch.tensor(rows))
    got = reorder_rows(tree, rows)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1][0], expected[1][0])
    assert got[1][1] == 5


@torch.no_grad()
def test_fused_position_codes_may_be_replaced_by_another_thread() -> None:
    class Replaced(FusedTransformerDecoder):
        """A decoder whose new position codes are immediately replaced by the first 16."""

        @property
        def position_codes(self):
            return self.codes

        @position_codes.setter
        def position_codes(self, codes):
            self.codes = codes if codes is None else codes[:16]

    model = built(positions="sinusoidal")
    replaced, fused = Replaced(model), FusedTransformerDecoder(model)
    for t in range(40):
        assert torch.equal(replaced._position_code(t), fused._position_code(t))
